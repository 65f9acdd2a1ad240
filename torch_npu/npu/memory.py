"""The caching allocator of device memory: how much is used, by what, how much may be; torch.cuda.memory's names.

What happens is in csrc/core/device_cache*.cpp; PYTORCH_NPU_ALLOC_CONF is told in docs/memory.md.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections import OrderedDict
from typing import Any, Literal

import torch

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _index(device: Any) -> int:
    return _get_device_index(device, optional=True)


# --- statistics -------------------------------------------------------------------------------------------------------


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The statistics as the allocator keeps them; {} before the NPU is initialized."""
    return _C._memory_stats(_index(device)) if _C._is_initialized() else {}


def _flat(stats: dict[str, Any]) -> OrderedDict[str, int]:
    flat: list[tuple[str, int]] = []

    def add(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            flat.append((prefix, value))
            return
        for key, inner in value.items():
            text = "_".join(map(str, key)) if isinstance(key, tuple) else str(key)
            add(f"{prefix}.{text}" if prefix else text, inner)

    add("", stats)
    return OrderedDict(sorted(flat))


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """The statistics by dotted name: see torch.cuda.memory_stats for what each means."""
    return _flat(memory_stats_as_nested_dict(device))


def _bytes(kind: str, metric: str, device: Any) -> int:
    stats = memory_stats_as_nested_dict(device)
    return stats[kind]["all"][metric] if stats else 0


def memory_allocated(device: Any = None) -> int:
    """Bytes tensors occupy now."""
    return _bytes("allocated_bytes", "current", device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes tensors occupied since the start or reset_peak_memory_stats."""
    return _bytes("allocated_bytes", "peak", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes the allocator holds of the device, used and cached."""
    return _bytes("reserved_bytes", "current", device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes the allocator held of the device since the start or reset_peak_memory_stats."""
    return _bytes("reserved_bytes", "peak", device)


def memory_cached(device: Any = None) -> int:
    """The older name of memory_reserved; it warns of that."""
    warnings.warn("torch.npu.memory_cached has been renamed to torch.npu.memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The older name of max_memory_reserved; it warns of that."""
    warnings.warn(
        "torch.npu.max_memory_cached has been renamed to torch.npu.max_memory_reserved", FutureWarning, stacklevel=2
    )
    return max_memory_reserved(device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Sets what memory_stats() adds up (allocated, freed, counts of failures) to 0, for one device."""
    _C._reset_accumulated_stats(_index(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Sets the peaks of memory_stats() to what is in use now, for one device."""
    _C._reset_peak_stats(_index(device))


def reset_max_memory_allocated(device: Any = None) -> None:
    """Resets all peaks, as torch.cuda's does."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Resets all peaks, as torch.cuda's does."""
    reset_peak_memory_stats(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the device, whoever uses them."""
    return _C._mem_get_info(_index(device))


# --- control ----------------------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Gives memory no tensor uses back to the device. Waits for its work first."""
    _C._empty_cache()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """An allocation that would take more than this part of the device's memory is out of memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C._set_memory_fraction(fraction, _index(device))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of the device's memory that this process may take, from 0 to 1; see its setter."""
    return _C._get_memory_fraction(_index(device))


def get_allocator_backend() -> str:
    """The allocator's name among PyTorch's: "native" is the caching allocator, "pluggable" one of the program's own."""
    return "pluggable" if _C._has_source() else "native"


def _set_allocator_settings(settings: str) -> None:
    """The same text as PYTORCH_NPU_ALLOC_CONF."""
    _C._set_allocator_settings(settings)


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocates `size` bytes without a tensor and returns their address, for caching_allocator_delete."""
    index = _index(device)
    if stream is None:
        stream_id = _C._current_stream(index)[0]
    elif isinstance(stream, torch.Stream):
        stream_id = stream.stream_id
    elif isinstance(stream, int):
        stream_id = _C._external_stream(stream, index)[0]
    else:
        raise TypeError(f"expected a torch.npu.Stream or the integer handle of a stream, got {type(stream).__name__}")
    return _C._raw_alloc(size, stream_id, index)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory of caching_allocator_alloc, by its address. Raises ValueError for any other."""
    _C._raw_free(mem_ptr)


# --- pinned host memory -----------------------------------------------------------------------------------------------


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Statistics of pinned host memory as the allocator keeps them; {} before the NPU is initialized."""
    return _C._host_memory_stats() if _C._is_initialized() else {}


def host_memory_stats() -> OrderedDict[str, int]:
    """Statistics of pinned host memory: see torch.cuda.host_memory_stats."""
    return _flat(_C._host_memory_stats())


def host_empty_cache() -> None:
    """Gives pinned host memory that no tensor uses back to the system."""
    _C._host_empty_cache()


def reset_accumulated_host_memory_stats() -> None:
    """Sets what host_memory_stats() adds up to 0."""
    _C._host_reset_accumulated_stats()


def reset_peak_host_memory_stats() -> None:
    """Sets the peaks of host_memory_stats() to what is in use now."""
    _C._host_reset_peak_stats()


def __getattr__(name: str) -> Any:
    if name in ("NPUPluggableAllocator", "change_current_allocator", "MemPool", "use_mem_pool"):
        return getattr(torch.npu, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- snapshots --------------------------------------------------------------------------------------------------------


def memory_snapshot(mempool_id: Any = None) -> list[dict[str, Any]]:
    """Every segment of every device with its blocks."""
    segments = _C._memory_snapshot(-1)["segments"]
    return segments if mempool_id is None else [s for s in segments if s["segment_pool_id"] == tuple(mempool_id)]


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
) -> None:
    """Records allocations with their stacks from now on, for _snapshot and _dump_snapshot; None stops it.

    `enabled`: "state" keeps stacks of live memory only, "all" the last `max_entries` events, too. `context`: which of
    them carry a stack. `stacks`: "python" leaves C++ frames out. `device`: the only one that records; None means all.
    """
    if enabled not in (None, "state", "all"):
        raise ValueError(f"expected state or all for enabled, got {enabled!r}")
    if context not in (None, "state", "alloc", "all"):
        raise ValueError(f"expected state, alloc or all for context, got {context!r}")
    if stacks not in ("python", "all"):
        raise ValueError(f"expected python or all for stacks, got {stacks!r}")
    entries = 1 if enabled == "state" else max_entries
    index = -1 if device is None else _index(device)
    _C._record_memory_history(index, enabled is not None, context or "", stacks == "all", entries, clear_history)


def _snapshot(device: Any = None) -> dict[str, Any]:
    """Segments, the recorded events and the settings of all devices or one, as PyTorch's memory viewer reads them."""
    return _C._memory_snapshot(-1 if device is None else _index(device))


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes _snapshot() to a file for https://pytorch.org/memory_viz or torch.cuda._memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


# --- summary ----------------------------------------------------------------------------------------------------------


def _size(value: int) -> str:
    for prefix in ("B  ", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 768 * 1024 or prefix == "TiB":
            return f"{value:7d} {prefix}"
        value //= 1024
    raise AssertionError("unreachable")


def _count(value: int) -> str:
    for prefix in (" ", "K", "M"):
        if abs(value) < 750 * 1000 or prefix == "M":
            return f"{value:7d} {prefix}  "
        value //= 1000
    raise AssertionError("unreachable")


_SUMMARY = (
    ("allocated_bytes", "Allocated memory", _size),
    ("active_bytes", "Active memory", _size),
    ("requested_bytes", "Requested memory", _size),
    ("reserved_bytes", "NPU reserved memory", _size),
    ("inactive_split_bytes", "Non-releasable memory", _size),
    ("allocation", "Allocations", _count),
    ("active", "Active allocs", _count),
    ("segment", "NPU reserved segs", _count),
    ("inactive_split", "Non-releasable allocs", _count),
)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as a table for people. `abbreviated` leaves the pools out."""
    index = _index(device)
    stats = memory_stats(index)
    width = 79
    bar, line = "|" + "=" * width + "|", "|" + "-" * width + "|"

    def row(label: str, *cells: str) -> str:
        return f"| {label:<21} |" + "|".join(f" {cell:>11} " for cell in cells) + "|"

    ooms, retries = stats.get("num_ooms", 0), stats.get("num_alloc_retries", 0)
    lines = [
        bar,
        f"|{f'PyTorch NPU memory summary, device ID {index}':^{width}}|",
        line,
        f"|{f'  NPU OOMs: {ooms:<12}  |  aclrtMalloc retries: {retries:<8}':<{width}}|",
        bar,
        row("       Metric", "Cur Usage  ", "Peak Usage ", "Tot Alloc  ", "Tot Freed  "),
    ]
    pools = ("all",) if abbreviated else ("all", "large_pool", "small_pool")
    for key, title, formatted in _SUMMARY:
        lines.append(line)
        for pool in pools:
            values = [stats.get(f"{key}.{pool}.{m}", 0) for m in ("current", "peak", "allocated", "freed")]
            label = title if pool == "all" else f"      from {pool.replace('_', ' ')}"
            lines.append(row(label, *(formatted(value) for value in values)))
    lines.append(bar)
    return "\n".join(lines) + "\n"
