"""Memory pools: what a program allocates in `use_mem_pool(pool)` is kept apart from the rest.

pool = torch.npu.MemPool()
with torch.npu.use_mem_pool(pool):
    x = torch.empty(1 << 20, device="npu")      # in the pool's segments
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch_npu import _C
from torch_npu.npu._utils import _get_device_index
from torch_npu.npu.devices import _lazy_init, current_device
from torch_npu.npu.pluggable import Source

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """A pool of the current device's memory. What is allocated in `use_mem_pool(pool)` lies in it.

    `allocator`: NPUPluggableAllocator.allocator(), whose functions then give and take the pool's segments.
    """

    def __init__(self, allocator: Source | None = None, use_on_oom: bool = False, no_split: bool = False):
        if allocator is not None and not isinstance(allocator, Source):
            raise TypeError(
                f"allocator is what NPUPluggableAllocator(...).allocator() returns, not {type(allocator).__name__}"
            )
        for name, value in (("use_on_oom", use_on_oom), ("no_split", no_split)):
            if value:
                raise NotImplementedError(f"torch.npu.MemPool has no {name} yet: leave it out")
        _lazy_init()
        self.device = current_device()
        self._id: tuple[int, int] = _C._new_pool_id()
        _C._hold_pool(self.device, self.id, *(allocator.functions if allocator else (0, 0)))
        self._source = allocator  # its library stays as long as the pool

    def __del__(self) -> None:
        if hasattr(self, "_source"):
            _C._drop_pool(self.device, self.id)

    @property
    def id(self) -> tuple[int, int]:
        """The pool's two numbers, as memory_snapshot() has them in segment_pool_id."""
        return self._id

    def use_count(self) -> int:
        """Raises NotImplementedError: the allocator does not count who holds a pool."""
        raise NotImplementedError("torch.npu.MemPool.use_count is not implemented: nothing counts who holds a pool")

    def snapshot(self) -> list[dict[str, Any]]:
        """The pool's segments, as torch.npu.memory_snapshot() shows them."""
        from torch_npu.npu.memory import memory_snapshot

        return [segment for segment in memory_snapshot() if tuple(segment["segment_pool_id"]) == self.id]


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """What this thread allocates inside comes from `pool`."""
    index = pool.device if device is None else _get_device_index(device, True)
    if index != pool.device:
        raise ValueError(f"the pool is of npu:{pool.device}, not of npu:{index}")
    _C._begin_allocate_to(index, pool.id)
    try:
        yield
    finally:
        _C._end_allocate_to(index, pool.id)
