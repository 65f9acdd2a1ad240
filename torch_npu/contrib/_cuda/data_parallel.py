"""What nn.DataParallel calls in torch._C to spread a batch over devices and collect it again.

Copies one after the other: right, not fast. DistributedDataParallel is the way to more than one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]


def _to(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor.to(torch.device("npu", index), non_blocking=True)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [_to(tensor, index) for index in devices]


def _broadcast_coalesced(tensors: Tensors, devices: Sequence[int], buffer_size: int) -> list[list[torch.Tensor]]:
    return [[_to(tensor, index) for tensor in tensors] for index in devices]


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], chunk_sizes: Any, dim: int, streams: Any = None
) -> list[torch.Tensor]:
    chunks = tensor.split(list(chunk_sizes), dim) if chunk_sizes is not None else tensor.chunk(len(devices), dim)
    return [_to(chunk, index) for chunk, index in zip(chunks, devices)]  # noqa: B905  (a small batch has fewer chunks)


def _gather(tensors: Tensors, dim: int, destination: int | None) -> torch.Tensor:
    if destination == -1:
        device = torch.device("cpu")
    else:
        device = torch.device("npu", torch.npu.current_device() if destination is None else destination)
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


NAMES = {
    "_broadcast": _broadcast,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_gather": _gather,
    "_scatter": _scatter,
}
