"""torch.npu: devices, streams, events, memory and random numbers of the NPU, by torch.cuda's names where it has them.

devices    is_available, device_count, set_device, device, get_device_properties, synchronize, utilization
streams    Stream, Event, ExternalEvent, stream, current_stream, ExternalStream, SyncLaunchStream, set_stream_limit
memory     memory_allocated, memory_summary, mem_get_info, empty_cache, ipc_collect, MemPool, NPUPluggableAllocator
random     manual_seed, get_rng_state, set_rng_state
graphs     NPUGraph, graph, make_graphed_callables, npugraph_ex
amp        autocast, GradScaler
settings   config, matmul, conv, set_option, set_compile_mode, set_sync_debug_mode, set_deterministic_level
dump       init_dump, set_dump, finalize_dump: operators' tensors in files
recovery   stop_device, restart_device, check_uce_in_memory; more in torch_npu.npu._recovery (docs/faults.md)
mstx       points and ranges of your own in a profile (docs/profiling.md)
checks     fallback_counts, race_reports, memory_reports

`dir(torch.npu)` has all names. Importing costs little: what is rarely used (amp, graphs, tensor types) comes at first
use, by __getattr__.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch import OutOfMemoryError

from torch_npu import _C
from torch_npu.npu import _refused, _utils, memory, npu_config, random, streams
from torch_npu.npu.autocast_utils import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_npu.npu.devices import (
    _exchange_device,
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_soc_version,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
    utilization,
)
from torch_npu.npu.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_npu.npu.npu_config import (
    CubeMathType,
    are_compatible_impl_enabled,
    config,
    conv,
    get_device_limit,
    get_mm_bmm_format_nd,
    get_stream_limit,
    get_sync_debug_mode,
    get_task_queue_enable,
    is_jit_compile_false,
    matmul,
    reset_stream_limit,
    set_compile_mode,
    set_device_limit,
    set_mm_bmm_format_nd,
    set_option,
    set_stream_limit,
    set_sync_debug_mode,
    set_task_queue_enable,
    use_compatible_impl,
)
from torch_npu.npu.random import (
    _get_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_npu.npu.streams import (
    Event,
    ExternalEvent,
    ExternalStream,
    Stream,
    StreamContext,
    SyncLaunchStream,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

# Where a name comes from that is not loaded yet: a submodule of this package, and the attribute in it (None: itself).
_LATER = {
    "MemPool": ("pools", "MemPool"),
    "NPUPluggableAllocator": ("pluggable", "NPUPluggableAllocator"),
    "NPUGraph": ("graphs", "NPUGraph"),
    "NpuGraphOpHandler": ("_npugraph_handlers", "NpuGraphOpHandler"),
    "aclnn": ("aclnn", None),
    "amp": ("amp", None),
    "comm": ("comm", None),
    "change_current_allocator": ("pluggable", "change_current_allocator"),
    "_launch_host_func": ("_host_functions", "launch_host_func"),
    "_recovery": ("_recovery", None),
    "_subscribe_report": ("_host_functions", "subscribe_report"),
    "_unsubscribe_report": ("_host_functions", "unsubscribe_report"),
    "check_uce_in_memory": ("_recovery", "check_uce_in_memory"),
    "clear_npu_overflow_flag": ("utils", "clear_npu_overflow_flag"),
    "disable_deterministic_with_backward": ("determinism", "disable_deterministic_with_backward"),
    "enable_deterministic_with_backward": ("determinism", "enable_deterministic_with_backward"),
    "finalize_dump": ("dump", "finalize_dump"),
    "get_npu_overflow_flag": ("utils", "get_npu_overflow_flag"),
    "graph": ("graphs", "graph"),
    "graph_pool_handle": ("graphs", "graph_pool_handle"),
    "graph_task_group_begin": ("graphs", "graph_task_group_begin"),
    "graph_task_group_end": ("graphs", "graph_task_group_end"),
    "graph_task_update_begin": ("graphs", "graph_task_update_begin"),
    "graph_task_update_end": ("graphs", "graph_task_update_end"),
    "graphs": ("graphs", None),
    "init_dump": ("dump", "init_dump"),
    "make_graphed_callables": ("graphs", "make_graphed_callables"),
    "mstx": ("ranges", "mstx"),
    "npugraph_ex": ("npugraph_ex", None),
    "npugraph_mark_step_begin": ("graphs", "npugraph_mark_step_begin"),
    "register_npu_graph_handler": ("_npugraph_handlers", "register_npu_graph_handler"),
    "restart_device": ("_recovery", "restart_device"),
    "set_deterministic_level": ("determinism", "set_deterministic_level"),
    "set_dump": ("dump", "set_dump"),
    "set_op_timeout_ms": ("utils", "set_op_timeout_ms"),
    "stop_device": ("_recovery", "stop_device"),
    "super_kernel_scope": ("graphs", "super_kernel_scope"),
    "super_kernel_scope_begin": ("graphs", "super_kernel_scope_begin"),
    "super_kernel_scope_end": ("graphs", "super_kernel_scope_end"),
    "use_mem_pool": ("pools", "use_mem_pool"),
    "utils": ("utils", None),
}


def ipc_collect() -> None:
    """Takes back memory of shared tensors that other processes have let go of, or that was lost on its way to them.

    It happens by itself with the next message, in empty_cache() and before an out-of-memory error.
    """
    if _C._outstanding_messages():
        from torch_npu.multiprocessing import channels

        channels.give_up_lost()
    _C._collect_shared()


def current_blas_handle() -> None:
    """An NPU has no BLAS handle."""
    return None


def fallback_counts() -> dict[str, int]:
    """How often each operator without a kernel for the NPU ran on the CPU instead, by name."""
    return _C._fallback_counts()


def reset_fallback_counts() -> None:
    """Sets the counts of fallback_counts() to 0."""
    _C._reset_fallback_counts()


def race_reports() -> list[str]:
    """What ANYCEND_CHECK=race has found so far: one text a race, each pair of lines once. Off: a RuntimeError."""
    return _C._race_reports()


def memory_reports() -> list[str]:
    """What ANYCEND_CHECK=memory has found so far: each operator and line once. Off: a RuntimeError."""
    return _C._memory_reports()


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint asks for it, False if missing: of a device not yet used it saves no random state.
    if name == "_initialized":
        return _C._is_initialized()
    if name in _LATER:
        module, attribute = _LATER[name]
        loaded = importlib.import_module(f"{__name__}.{module}")
        return loaded if attribute is None else getattr(loaded, attribute)
    if name in _refused.names:
        return _refused.refusal(name)
    if name == "default_generators":
        value: Any = random._generators()
        globals()[name] = value
        return value
    if name.endswith("Tensor"):
        from torch_npu.npu import tensor_types

        if name in tensor_types.__all__:
            return getattr(tensor_types, name)
    raise AttributeError(f"module 'torch.npu' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_refused.names, "default_generators"})


# What help() lists and describes, also names that refuse: all but submodules and what is imported for use here.
__all__ = sorted(
    {
        name
        for name, value in globals().items()
        if name[0] != "_" and getattr(value, "__module__", "").startswith("torch")
    }
    | {name for name, (_, attribute) in _LATER.items() if attribute is not None and name[0] != "_"}
    | _refused.names
)
