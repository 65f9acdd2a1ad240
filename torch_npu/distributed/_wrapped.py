"""Two functions of torch.distributed that cannot serve an hccl group as they are. They are wrapped when the first hccl
group is made; nothing is at import.

_coalescing_manager leaves its group inside the block for ever when the block raises: later collectives of the group are
put on a list that nobody carries out. Here the group is as before the block.
_set_pg_timeout knows Gloo's and NCCL's groups and warns of others. Here it reaches hccl's, too.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d


def _unwrapped(backend: Any) -> Any:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL wraps to check each call."""
    while hasattr(backend, "wrapped_pg"):
        backend = backend.wrapped_pg
    return backend


def hccl_backends(group: Any) -> list[Any]:
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    found = [_unwrapped(group._get_backend(device)) for device in group._device_types]
    return list({id(b): b for b in found if isinstance(b, ProcessGroupHCCL)}.values())


def _restoring(stock: Callable) -> Callable:
    @contextlib.contextmanager
    @functools.wraps(stock)
    def manager(group: Any = None, device: torch.device | None = None, async_ops: bool = False) -> Iterator[Any]:
        group = group or c10d._get_default_group()
        outermost = group not in c10d._world.pg_coalesce_state
        try:
            with stock(group, device, async_ops) as calls:
                yield calls
        except BaseException:
            if outermost:
                c10d._world.pg_coalesce_state.pop(group, None)
                for backend in hccl_backends(group):
                    backend._abandon_coalescing()
            raise

    return manager


def _reaching_hccl(stock: Callable) -> Callable:
    @functools.wraps(stock)
    def set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        of = group or c10d._get_default_group()
        backends = [] if c10d._rank_not_in_group(of) else hccl_backends(of)
        for backend in backends:
            backend._set_default_timeout(timeout)
        if not backends or len(of._device_types) > len(backends):
            stock(timeout, group)

    return set_pg_timeout


@functools.cache
def install() -> None:
    for name, wrap in (("_coalescing_manager", _restoring), ("_set_pg_timeout", _reaching_hccl)):
        stock = getattr(c10d, name)
        wrapped = wrap(stock)
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith("torch.distributed") and getattr(module, name, None) is stock:
                setattr(module, name, wrapped)
