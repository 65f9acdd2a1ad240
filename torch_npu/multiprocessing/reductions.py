"""How npu tensors, storages and events are pickled for another process: as messages about device memory, never copied.

Registered with multiprocessing's ForkingPickler, its public registry; whatever is not on an npu goes PyTorch's own way.
What a message says and how long memory lives is in csrc/core/sharing.h; the way a message takes is in channels.py.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions as upstream

from torch_npu import _C
from torch_npu.npu.streams import Event, InterprocessEvent

Reduced = tuple[Any, tuple[Any, ...]]


def rebuild_storage(device: int, message: bytes) -> torch.UntypedStorage:
    """The storage of a message. Raises RuntimeError where the process that owns it has ended."""
    if not message:
        return torch.UntypedStorage(0, device=f"npu:{device}")
    return _C._receive_storage(message)


def reduce_storage(storage: torch.UntypedStorage) -> Reduced:
    """An npu storage as a message, good for one receiver; any other as PyTorch has it."""
    if storage.device.type != "npu":
        return upstream.reduce_storage(storage)
    from torch_npu.multiprocessing import channels

    message = _C._share_storage(storage, channels.current()) if storage.nbytes() else b""
    channels.look_after()
    return rebuild_storage, (storage.device.index, message)


def rebuild_tensor(
    cls: type,
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    offset: int,
    size: torch.Size,
    stride: tuple[int, ...],
    requires_grad: bool,
    conj: bool,
    neg: bool,
) -> torch.Tensor:
    """A view of the storage, of the class, sizes and strides that the sender's tensor has."""
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, offset, size, stride)
    if conj:
        torch._C._set_conj(tensor, True)
    if neg:
        torch._C._set_neg(tensor, True)
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


def reduce_tensor(tensor: torch.Tensor) -> Reduced:
    """An npu tensor as its storage and what it sees of it; other layouts and devices as PyTorch has them.

    Raises RuntimeError for a tensor that requires grad and is not a leaf, as PyTorch does.
    """
    if tensor.device.type != "npu" or tensor.layout != torch.strided or tensor.is_nested:
        return upstream.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return upstream.reduce_tensor(tensor)  # which refuses it
    torch.utils.hooks.warn_if_has_hooks(tensor)
    return rebuild_tensor, (
        type(tensor),
        tensor.untyped_storage(),
        tensor.dtype,
        tensor.storage_offset(),
        tensor.size(),
        tensor.stride(),
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def rebuild_event(device: int, handle: bytes) -> Event:
    """The event of a handle."""
    return Event.from_ipc_handle(device, handle)


def reduce_event(event: Event) -> Reduced:
    """An event made with interprocess=True. Raises RuntimeError for any other."""
    handle = event.ipc_handle()
    return rebuild_event, (event.device.index, handle)


def register() -> None:
    """Called once, when torch_npu is imported."""
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    for cls in {torch.Tensor, torch.nn.Parameter, *torch._tensor_classes}:
        ForkingPickler.register(cls, reduce_tensor)
    for cls in (Event, InterprocessEvent):
        ForkingPickler.register(cls, reduce_event)
