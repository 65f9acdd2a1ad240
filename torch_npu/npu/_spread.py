"""What torch.nn.parallel.comm calls in torch._C to spread tensors over devices and collect them again.

A PyTorch that was built without CUDA lacks these functions; `supply` adds them, so that torch.nn.DataParallel,
torch.nn.parallel's scatter, gather and replicate and torch.npu.comm work. One that was built with it has them for CUDA
alone: there ours take tensors of the npu, and those of the CPU where no CUDA device is; all else stays CUDA's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]


def _to(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor.to(torch.device("npu", index), non_blocking=True)


def _check_devices(devices: Sequence[int], doing: str) -> None:
    if not devices:
        raise RuntimeError(f"Expected at least one device to {doing} to")


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    _check_devices(devices, "broadcast")
    return [_to(tensor, index) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Tensors) -> Tensors:
    for i, to in enumerate(out):
        if to.device.type != "npu":
            raise RuntimeError(f"Expected all output tensors to be npu tensors, but output tensor at index {i} is not")
        if to.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but output "
                f"tensor at index {i} has shape {list(to.shape)}"
            )
        to.copy_(tensor, non_blocking=True)
    return out


def _broadcast_coalesced(tensors: Tensors, devices: Sequence[int], buffer_size: int) -> list[list[torch.Tensor]]:
    _check_devices(devices, "broadcast")
    return [[_to(tensor, index) for tensor in tensors] for index in devices]


def _on(streams: Sequence[torch.Stream | None] | None, i: int) -> Any:
    return nullcontext() if streams is None or streams[i] is None else streams[i]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[torch.Stream | None] | None = None,
) -> list[torch.Tensor]:
    _check_devices(devices, "scatter")
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)  # a small batch has fewer
    elif len(chunk_sizes) != len(devices):
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    else:
        chunks = tensor.split(list(chunk_sizes), dim)
    out = []
    for i, (chunk, index) in enumerate(zip(chunks, devices)):  # noqa: B905
        with _on(streams, i):
            out.append(_to(chunk, index))
    return out


def _scatter_out(
    tensor: torch.Tensor, out: Tensors, dim: int = 0, streams: Sequence[torch.Stream | None] | None = None
) -> Tensors:
    _check_devices(out, "scatter")  # type: ignore[arg-type]
    total = sum(to.shape[dim] for to in out)
    if total != tensor.shape[dim]:
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim {dim}."
            f" Expected {tensor.shape[dim]}, but got total size {total}"
        )
    for i, (chunk, to) in enumerate(zip(tensor.split([to.shape[dim] for to in out], dim), out, strict=True)):
        if to.device.type != "npu":
            raise RuntimeError(f"Expected all output tensors to be npu tensors, but output tensor at index {i} is not")
        if to.shape != chunk.shape:  # copy_ would expand
            raise RuntimeError(f"Output tensor at index {i} has shape {list(to.shape)}, not {list(chunk.shape)}")
        with _on(streams, i):
            to.copy_(chunk, non_blocking=True)
    return out


def _gather(tensors: Tensors, dim: int, destination: int | None = None) -> torch.Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    if destination == -1:
        device = torch.device("cpu")
    else:
        device = torch.device("npu", torch.npu.current_device() if destination is None else destination)
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def _gather_out(tensors: Tensors, out: torch.Tensor, dim: int) -> torch.Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    total = sum(tensor.shape[dim] for tensor in tensors)
    if total != out.shape[dim]:
        raise RuntimeError(
            f"Expected out tensor to have size {total} at gather dim {dim}, but got {list(out.shape)}: the inputs' sum"
        )
    for piece, tensor in zip(out.split([tensor.shape[dim] for tensor in tensors], dim), tensors, strict=True):
        if piece.shape != tensor.shape:
            raise RuntimeError(f"An input has shape {list(tensor.shape)} where out has room for {list(piece.shape)}")
        piece.copy_(tensor, non_blocking=True)
    return out


FUNCTIONS = (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out)


def _of_npu(*values: Any) -> bool:
    lists = (value if isinstance(value, (list, tuple)) else (value,) for value in values)
    kinds = {item.device.type for items in lists for item in items if isinstance(item, torch.Tensor)}
    return "npu" in kinds or ("cuda" not in kinds and torch.cuda.device_count() == 0)


def _beside(ours: Callable, cudas: Callable) -> Callable:
    @wraps(ours)
    def either(*args: Any, **kwargs: Any) -> Any:
        return (ours if _of_npu(*args, *kwargs.values()) else cudas)(*args, **kwargs)

    return either


def supply() -> None:
    if hasattr(torch._C, "_broadcast_coalesced"):
        for function in FUNCTIONS:
            setattr(torch._C, function.__name__, _beside(function, getattr(torch._C, function.__name__)))
        return
    for function in FUNCTIONS:
        setattr(torch._C, function.__name__, function)
    # torch.nn.parallel.comm.reduce_add asks for NCCL first, and adds without it. Nothing of ours is around that
    # question, so the warning is left out for the process, but only where that module is the one that asks.
    warnings.filterwarnings(
        "ignore", "PyTorch is not compiled with NCCL support", UserWarning, r"torch\.nn\.parallel\.comm$"
    )
