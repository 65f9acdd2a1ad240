"""torch.cuda on the npu: PyTorch's own functions stay, what they call in torch._C is supplied.

A PyTorch without CUDA still has the whole of torch.cuda; its functions end in torch._C._cuda_* names that are not
there. They are added here, each in terms of torch.npu, so that also functions bound before
(`from torch.cuda import is_available`) work. Replaced are the few objects that cannot work that way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_npu._hints import warn_of_cuda_devices

from . import runtime
from ._attributes import Attributes
from .patches import to_npu


def install(attributes: Attributes) -> None:
    for name, function in _c_functions().items():
        attributes.set(torch._C, name, function)
    cuda = torch.cuda
    # Before the stock functions look for a CUDA driver (a machine may have one: device_count would count its GPUs).
    for old, new in (
        (cuda._lazy_init, _initialize),
        (cuda._lazy_call, _call_now),
        (cuda.is_initialized, lambda: torch.npu.is_initialized()),
        (cuda.device_count, _device_count),
        (cuda._device_count_nvml, lambda: -1),
        (cuda._is_in_bad_fork, lambda: torch.npu._is_in_bad_fork()),
        (cuda._utils._get_device_index, runtime.device_index(cuda._utils._get_device_index)),
        (cuda.Stream, runtime.Stream),
        (cuda.ExternalStream, runtime.ExternalStream),
        (cuda.Event, runtime.Event),
        (cuda._exchange_device, torch._C._cuda_exchangeDevice),
        (cuda._maybe_exchange_device, torch._C._cuda_maybeExchangeDevice),
        (cuda.graphs._cuda_isCurrentStreamCapturing, lambda: runtime.npu("is_current_stream_capturing")()),
        (cuda.device_of.__init__, runtime.device_of_init),
    ):
        attributes.rebind("torch.cuda", old, new)
    # And torch.npu.set_device("cuda:1"), in a script that mixes both.
    index = torch.npu._utils._get_device_index
    attributes.rebind("torch_npu.npu", index, lambda device, *args, **kwargs: index(to_npu(device), *args, **kwargs))
    attributes.set(cuda.device_of, "__init__", runtime.device_of_init)
    attributes.set(cuda, "_cudart", runtime.Cudart())
    attributes.set(cuda, "_get_device_properties", runtime.device_properties)
    attributes.set(cuda, "default_generators", runtime.DefaultGenerators())
    attributes.set(cuda.nvtx, "_nvtx", runtime.Nvtx())
    attributes.rebind("torch.autograd", torch.autograd.profiler.emit_nvtx, torch.npu.mstx.emit_mstx)
    for name in ("utilization", "graph", "graph_pool_handle", "make_graphed_callables", "MemPool", "use_mem_pool"):
        attributes.rebind("torch.cuda", getattr(cuda, name), getattr(torch.npu, name))
    attributes.rebind("torch.cuda", cuda.CUDAGraph, torch.npu.NPUGraph)


_early = False  # inside of a call that must not initialize the devices


def _device_count() -> int:
    _asked_first()
    return torch.npu.device_count()


@functools.cache
def _asked_first() -> None:
    """The variable may have been set since the import."""
    warn_of_cuda_devices()


def _initialize() -> None:
    if not _early:
        _asked_first()
        torch.npu.init()


def _call_now(function: Callable[[], None], **_: Any) -> None:
    # The npu's generators exist before its devices do: seeds need not wait, and are not replayed later. Nor do they
    # initialize the devices by asking for the current one: a fork may follow.
    global _early
    before, _early = _early, True
    try:
        function()
    finally:
        _early = before


# torch._C name → the function of torch.npu that does it.
_SAME = {
    "_cuda_init": "init",
    "_cuda_getDeviceCount": "device_count",
    "_cuda_getDevice": "current_device",
    "_cuda_setDevice": "set_device",
    "_cuda_synchronize": "synchronize",
    "_cuda_isInBadFork": "_is_in_bad_fork",
    "_cuda_canDeviceAccessPeer": "can_device_access_peer",
    "_cuda_ipc_collect": "ipc_collect",
    "_cuda_emptyCache": "empty_cache",
    "_cuda_resetPeakMemoryStats": "reset_peak_memory_stats",
    "_cuda_resetAccumulatedMemoryStats": "reset_accumulated_memory_stats",
    "_cuda_hostMemoryStats": "host_memory_stats_as_nested_dict",
    "_cuda_resetPeakHostMemoryStats": "reset_peak_host_memory_stats",
    "_cuda_resetAccumulatedHostMemoryStats": "reset_accumulated_host_memory_stats",
    "_cuda_setMemoryFraction": "set_per_process_memory_fraction",
    "_cuda_getMemoryFraction": "get_per_process_memory_fraction",
    "_cuda_getAllocatorBackend": "get_allocator_backend",
    "_cuda_cudaCachingAllocator_raw_delete": "caching_allocator_delete",
    "_cuda_record_memory_history": "memory._record_memory_history",
    "_cuda_get_sync_debug_mode": "get_sync_debug_mode",
    "_cuda_set_sync_debug_mode": "set_sync_debug_mode",
}


def _c_functions() -> dict[str, Callable]:
    """Each one an object of its own: Dynamo keeps them in a table by identity."""
    functions = dict(_forwarders())
    functions.update({name: getattr(runtime, name) for name in vars(runtime) if name.startswith("_cuda_")})
    return functions


def _forwarders() -> Iterator[tuple[str, Callable]]:
    for name, target in _SAME.items():
        yield name, _forwarder(name, target)


def _forwarder(name: str, target: str) -> Callable:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return runtime.npu(target)(*args, **kwargs)

    forward.__name__ = forward.__qualname__ = name
    return forward
