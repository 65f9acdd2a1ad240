"""torch.npu.NPUPluggableAllocator: device memory from two C functions of a program's own library.

    void* my_malloc(ssize_t bytes, int device, aclrtStream stream);                  null: there is no more
    void my_free(void* pointer, ssize_t bytes, int device, aclrtStream stream);

Either all memory comes from them (change_current_allocator), or a pool's segments do: MemPool(allocator=...).
"""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

from torch_npu import _C

__all__ = ["NPUPluggableAllocator", "change_current_allocator"]


class Source(NamedTuple):
    """What MemPool takes: the addresses of the two functions, and their library, which stays loaded."""

    functions: tuple[int, int]
    library: ctypes.CDLL


class NPUPluggableAllocator:
    """Functions of that name in a shared library. OSError where there is none, AttributeError for a missing name."""

    def __init__(self, path_to_so_file: str | os.PathLike[str], alloc_fn_name: str, free_fn_name: str) -> None:
        library = ctypes.CDLL(os.fspath(path_to_so_file))
        self._allocator = Source((_address(library, alloc_fn_name), _address(library, free_fn_name)), library)

    def allocator(self) -> Source:
        """For MemPool(allocator=...)."""
        return self._allocator


_used: list[NPUPluggableAllocator] = []  # their libraries stay loaded


def change_current_allocator(allocator: NPUPluggableAllocator) -> None:
    """From now on all device memory comes from `allocator`, without a cache: once, before the first tensor on the npu.

    Statistics, limits and pools, which are the caching allocator's, raise NotImplementedError then.
    """
    if not isinstance(allocator, NPUPluggableAllocator):
        raise TypeError(f"allocator is a torch.npu.NPUPluggableAllocator, not {type(allocator).__name__}")
    _C._use_source(*allocator.allocator().functions)
    _used.append(allocator)


def _address(library: ctypes.CDLL, name: str) -> int:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise AttributeError(f'{library._name} has no function {name!r}: declare it extern "C" and export it') from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0
