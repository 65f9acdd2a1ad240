"""How npu tensors, storages and events are pickled for another process: as messages about device memory, never copied.

Registered with multiprocessing's ForkingPickler, its public registry; whatever is not on an npu goes PyTorch's own way.
Programs that carry handles themselves call torch.multiprocessing.reductions.reduce_tensor, which knows devices by name;
it and its two sisters stand for these here (handles.py: what its arguments mean).
What a message says and how long memory lives is in csrc/core/sharing.h; the way a message takes is in channels.py.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions as upstream

from torch_npu import _C
from torch_npu.multiprocessing.handles import new_storage, share_storage
from torch_npu.npu.streams import Event, InterprocessEvent

__all__ = ["rebuild_event", "rebuild_npu_tensor", "reduce_event", "reduce_storage", "reduce_tensor"]

Reduced = tuple[Any, tuple[Any, ...]]
_of_pytorch = {name: getattr(upstream, name) for name in ("reduce_event", "reduce_storage", "reduce_tensor")}


def rebuild_storage(device: int, message: bytes) -> torch.UntypedStorage:
    """The storage of a message. Raises RuntimeError where the process that owns it has ended."""
    return new_storage(device, b"") if not message else _C._receive_storage(message)


def reduce_storage(storage: Any) -> Reduced:
    """An npu storage as a message, good for one receiver; any other as PyTorch has it."""
    if storage.device.type != "npu":
        return _of_pytorch["reduce_storage"](storage)
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


def _is_pytorchs(tensor: torch.Tensor) -> bool:
    """Other layouts and devices, and a tensor that requires grad and is not a leaf, which PyTorch refuses."""
    if tensor.device.type != "npu" or tensor.layout != torch.strided or tensor.is_nested:
        return True
    return tensor.requires_grad and not tensor.is_leaf


def _reduce_in_pickle(tensor: torch.Tensor) -> Reduced:
    """An npu tensor as its storage, which the pickler sends once for all views of it, and what it sees of it."""
    if _is_pytorchs(tensor):
        return _of_pytorch["reduce_tensor"](tensor)
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


def rebuild_npu_tensor(
    tensor_cls: type,
    tensor_size: torch.Size,
    tensor_stride: tuple[int, ...],
    tensor_offset: int,
    storage_cls: type,
    dtype: torch.dtype,
    storage_device: int,
    storage_handle: bytes,
    storage_size_bytes: int,
    storage_offset_bytes: int,
    requires_grad: bool,
    ref_counter_handle: bytes = b"",
    ref_counter_offset: int = 0,
    event_handle: bytes = b"",
    event_sync_required: bool = False,
    conj: bool = False,
    neg: bool = False,
) -> torch.Tensor:
    """The tensor of a handle of reduce_tensor: the same memory, seen as the sender sees it. See handles.py.

    Raises RuntimeError where the process that owns the memory has ended.
    """
    storage = new_storage(storage_device, storage_handle)
    return rebuild_tensor(
        tensor_cls, storage, dtype, tensor_offset, tensor_size, tensor_stride, requires_grad, conj, neg
    )


def reduce_tensor(tensor: torch.Tensor) -> Reduced:
    """An npu tensor as a function and arguments that any pickler can write, good for one receiver: handles.py.

    Others as PyTorch has them. Raises RuntimeError for a tensor that requires grad and is not a leaf, as PyTorch does.
    """
    if _is_pytorchs(tensor):
        return _of_pytorch["reduce_tensor"](tensor)
    torch.utils.hooks.warn_if_has_hooks(tensor)
    device, *rest = share_storage(tensor.untyped_storage())
    handle, storage_size, storage_offset, *counter = rest
    bits = (tensor.is_conj(), tensor.is_neg())
    return rebuild_npu_tensor, (
        type(tensor),
        tensor.size(),
        tensor.stride(),
        tensor.storage_offset(),
        torch.storage.TypedStorage,
        tensor.dtype,
        device,
        handle,
        storage_size,
        storage_offset,
        tensor.requires_grad,
        *counter,
        *(bits if any(bits) else ()),
    )


def rebuild_event(device: int, handle: bytes) -> Event:
    """The event of a handle."""
    return Event.from_ipc_handle(device, handle)


def reduce_event(event: Any) -> Reduced:
    """An event made with interprocess=True. Raises RuntimeError for any other; one of CUDA's goes PyTorch's way."""
    if not isinstance(event, Event):
        return _of_pytorch["reduce_event"](event)
    handle = event.ipc_handle()
    return rebuild_event, (event.device.index, handle)


def register() -> None:
    """Called once, when torch_npu is imported."""
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    for cls in {torch.Tensor, torch.nn.Parameter, *torch._tensor_classes}:
        ForkingPickler.register(cls, _reduce_in_pickle)
    for cls in (Event, InterprocessEvent):
        ForkingPickler.register(cls, reduce_event)
    # There is no registry for these: they know CUDA's storages by name, and others they take for the CPU's.
    upstream.reduce_tensor, upstream.reduce_storage, upstream.reduce_event = reduce_tensor, reduce_storage, reduce_event
    torch.UntypedStorage._share_npu_ = share_storage
    torch.UntypedStorage._new_shared_npu = staticmethod(new_storage)
