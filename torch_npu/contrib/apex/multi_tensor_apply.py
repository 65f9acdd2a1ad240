"""apex.multi_tensor_apply: one call for a list of tensors, and the three operators of amp_C that scripts hand to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Lists = Sequence[Sequence[torch.Tensor]]


class MultiTensorApply:
    """Calls op(chunk_size, noop_flag, tensor_lists, *args): PyTorch's foreach operators need no chunks of their own."""

    available, warned = True, False

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def __call__(self, op: Callable[..., Any], noop_flag_buffer: torch.Tensor, tensor_lists: Lists, *args: Any) -> Any:
        """What `op` returns. noop_flag_buffer: a tensor of one number, which becomes 1 where a result is not finite."""
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)


multi_tensor_applier = MultiTensorApply(2048 * 32)


def _note(flag: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    finite = torch.stack([torch.isfinite(tensor).all() for tensor in tensors]).all()
    flag.copy_(torch.where(finite, flag, torch.ones_like(flag)))


@torch.no_grad()
def multi_tensor_scale(chunk_size: int, noop_flag: torch.Tensor, tensor_lists: Lists, scale: float) -> None:
    """outputs = inputs * scale, of the lists [inputs, outputs]; the flag becomes 1 for an input that is not finite."""
    inputs, outputs = tensor_lists
    if not inputs:
        return
    _note(noop_flag, inputs)
    for source, target in zip(inputs, outputs, strict=True):
        target.copy_(source.to(torch.promote_types(source.dtype, target.dtype)) * scale)


@torch.no_grad()
def multi_tensor_axpby(
    chunk_size: int, noop_flag: torch.Tensor, tensor_lists: Lists, a: float, b: float, arg_to_check: int = -1
) -> None:
    """outputs = a * x + b * y, of the lists [x, y, outputs]; arg_to_check: 0 looks at x alone, 1 at y, -1 at both."""
    firsts, seconds, outputs = tensor_lists
    if not firsts:
        return
    _note(noop_flag, [*([] if arg_to_check == 1 else firsts), *([] if arg_to_check == 0 else seconds)])
    for x, y, target in zip(firsts, seconds, outputs, strict=True):
        target.copy_(a * x.float() + b * y.float())


@torch.no_grad()
def multi_tensor_l2norm(
    chunk_size: int, noop_flag: torch.Tensor, tensor_lists: Lists, per_tensor: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The L2 norm of all tensors of the one list, shape (1,), and of each if per_tensor, shape (count,); float32."""
    (tensors,) = tensor_lists
    if not tensors:
        return torch.zeros(1, device=noop_flag.device), torch.zeros(0, device=noop_flag.device)
    norms = torch.stack([torch.linalg.vector_norm(tensor, dtype=torch.float32) for tensor in tensors])
    total = torch.linalg.vector_norm(norms).view(1)
    return total, norms if per_tensor else torch.zeros(0, device=noop_flag.device)
