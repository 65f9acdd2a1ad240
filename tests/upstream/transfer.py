"""Copies of a sample's arguments on the device, keeping strides, offsets, sharing and requires_grad."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree


def on_device(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy with the same strides, storage offset, conjugate and negative bit: kernels must honour all of them."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.is_quantized:
        return tensor.to(device)
    if tensor.is_conj():
        return on_device(tensor.conj(), device).conj()
    if tensor.is_neg():
        return torch._neg_view(on_device(torch._neg_view(tensor), device))
    if tensor.is_contiguous() and tensor.storage_offset() == 0:
        return tensor.to(device)
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    storage = tensor.as_strided((elements,), (1,), 0).to(device)
    return storage.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


class Mover:
    """Moves arguments. A tensor that occurs twice is moved once, so that gradients add up on both sides."""

    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor], device: str | None = None, dtypes: bool = False):
        self.move_, self.device_, self.dtypes_ = move, device, dtypes
        self.moved_: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # keeps the original alive: ids stay unique
        self.touched = False  # did anything name or live on a device?

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        self.touched = True
        if id(tensor) not in self.moved_:
            with torch.no_grad():
                copy = self.move_(tensor).requires_grad_(tensor.requires_grad)
            self.moved_[id(tensor)] = (tensor, copy)
        return self.moved_[id(tensor)][1]

    def leaf(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.device) or value == "cpu" and isinstance(value, str):
            self.touched = True
            return torch.device(self.device_) if self.device_ else value
        if isinstance(value, torch.dtype) and self.dtypes_:
            return torch.float64 if value.is_floating_point else value
        return value

    def __call__(self, tree: object) -> object:
        return pytree.tree_map(self.leaf, tree)


def to_device(device: str) -> Mover:
    return Mover(lambda tensor: on_device(tensor, device), device)


def to_double() -> Mover:
    def double(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.detach().to(torch.complex128)
        return tensor.detach().to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)

    return Mover(double, dtypes=True)


def unchanged() -> Mover:
    """Fresh CPU copies, for results that must not be touched by the run before them."""
    return Mover(lambda tensor: tensor.detach().clone() if tensor.layout != torch.strided else on_cpu_copy(tensor))


def on_cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
        return tensor.clone()
    storage = tensor.untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
