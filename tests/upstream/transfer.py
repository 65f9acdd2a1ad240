"""Copies of a sample's arguments on the device, keeping strides, offsets, sharing and requires_grad."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree


def storage_elements(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage as a vector of the tensor's dtype."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((elements,), (1,), 0)


def on_device(tensor: torch.Tensor, device: str, storages: dict[int, torch.Tensor] | None = None) -> torch.Tensor:
    """A copy with the same strides, storage offset, conjugate and negative bit: kernels must honour all of them.

    `storages`: copies of the storages that several tensors share, by address.
    """
    tensor = tensor.detach()
    if tensor.is_meta:
        return tensor
    if tensor.layout != torch.strided or tensor.is_quantized:
        return tensor.to(device, copy=True)
    if tensor.is_conj():
        return on_device(tensor.conj(), device, storages).conj()
    if tensor.is_neg():
        return torch._neg_view(on_device(torch._neg_view(tensor), device, storages))
    address = tensor.untyped_storage().data_ptr()
    shared = storages is not None and address in storages
    if not shared and tensor.is_contiguous() and tensor.storage_offset() == 0:
        return tensor.to(device, copy=True)
    storage = storages[address] if shared else None
    if storage is None:
        storage = storage_elements(tensor).to(device, copy=True)
    if shared:
        storages[address] = storage
    return storage.view(tensor.dtype).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def shared_storages(tensors: list[torch.Tensor]) -> dict[int, None]:
    """Addresses of the storages that two different tensors of these look at."""
    owners: dict[int, set[int]] = {}
    for tensor in tensors:
        if tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta and tensor.numel():
            owners.setdefault(tensor.untyped_storage().data_ptr(), set()).add(id(tensor))
    return {address: None for address, ids in owners.items() if len(ids) > 1}


class Mover:
    """Moves arguments. A tensor that occurs twice is moved once, so that gradients add up on both sides; tensors that
    share a storage share its copy.
    """

    def __init__(self, move: Callable, device: str | None = None, dtypes: bool = False):
        self.move_, self.device_, self.dtypes_ = move, device, dtypes
        self.moved_: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # keeps the original alive: ids stay unique
        self.storages_: dict[int, torch.Tensor | None] = {}
        self.touched = False  # did anything name or live on a device?

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        self.touched = True
        if id(tensor) not in self.moved_:
            with torch.no_grad():
                copy = self.move_(tensor, self.storages_).requires_grad_(tensor.requires_grad)
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
        tensors = [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]
        self.storages_ = shared_storages(tensors) | self.storages_
        return pytree.tree_map(self.leaf, tree)


def to_device(device: str) -> Mover:
    return Mover(lambda tensor, storages: on_device(tensor, device, storages), device)


def to_double() -> Mover:
    def double(tensor: torch.Tensor, _: dict) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.detach().to(torch.complex128)
        return tensor.detach().to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)

    return Mover(double, dtypes=True)


def unchanged() -> Mover:
    """Fresh CPU copies, for results that must not be touched by the run before them."""
    return Mover(lambda tensor, storages: on_device(tensor, "cpu", storages))
