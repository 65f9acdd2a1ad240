"""torch.distributed on npu: the backend "hccl". Importing torch_npu registers it and replaces nothing of PyTorch's;
making the first hccl group wraps two functions of it (_wrapped.py).

torch.distributed.init_process_group("hccl")          or "cpu:gloo,npu:hccl", or none for npu tensors
torch.distributed.init_process_group("hccl", init_method="parallel://host:port", …)   over the parallel store
"""

from __future__ import annotations

import atexit
import copy
import functools
import importlib
import os
import warnings
from types import ModuleType
from typing import Any

import torch

if torch.distributed.is_available():
    from torch_npu._C._distributed_c10d import ParallelStore

__all__ = [
    "ParallelStore",
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]

# The vendor's names of parts of torch.distributed that it replaces; here PyTorch's own are as they were.
_OF_PYTORCH = ("fsdp", "pipelining", "rpc", "tensor")


def __getattr__(name: str) -> Any:
    if name in ("all_gather_into_tensor_uneven", "all_to_all_vc", "reduce_scatter_tensor_uneven"):
        from torch_npu.distributed import uneven

        return getattr(uneven, name)
    if name in _OF_PYTORCH:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch_npu.distributed' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OF_PYTORCH})


def is_hccl_available() -> bool:
    """Whether this build of PyTorch has torch.distributed, and so the backend "hccl"."""
    return torch.distributed.is_available()


def reinit_process_group(group: Any = None, rebuild_link: bool = True) -> Any:
    """Makes hccl groups usable after a failure; every rank of the group calls it.

    group: the group, or None for all of this process. rebuild_link: True makes new communicators (at the next call,
    over the group's store); False makes the old ones usable again (HcclCommResume), which is quicker and needs every
    rank's process to have survived. Works that were not done fail. Returns the group. Raises TypeError where the group
    has no hccl backend, DistBackendError where a communicator cannot be resumed. Source: the vendor's
    torch_npu.distributed.
    """
    from torch.distributed import distributed_c10d as c10d

    from torch_npu.distributed._wrapped import hccl_backends

    if group is c10d.GroupMember.NON_GROUP_MEMBER:
        return group
    groups = list(c10d._world.pg_map) if group is None or group is c10d.GroupMember.WORLD else [group]
    backends = [backend for one in groups for backend in hccl_backends(one)]
    if not backends:
        raise TypeError("reinit_process_group: no group here has the backend hccl")
    for backend in backends:
        backend._reinit(rebuild_link)
    return c10d._get_default_group() if group is None else group


# What csrc/distributed/settings.cpp reads.
_SETTINGS = (
    "BLOCKING_WAIT", "ASYNC_ERROR_HANDLING", "HIGH_PRIORITY", "TRACE_BUFFER_SIZE", "TRACE_CPP_STACK", "DUMP_ON_TIMEOUT",
    "DEBUG_INFO_TEMP_FILE",
)  # fmt: skip


@functools.cache
def _warn_of_settings() -> None:
    """A setting that is taken and does nothing would be believed."""
    for name, value in os.environ.items():
        known = name.removeprefix("TORCH_HCCL_")
        if known != name and known not in _SETTINGS and value not in ("", "0"):
            warnings.warn(f"{name}={value} is set, but there is nothing here that it could change", stacklevel=2)


def _create(options, pg_options):
    """What PyTorch calls for a group with the backend "hccl"."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL
    from torch_npu.distributed import _wrapped

    _wrapped.install()
    _warn_of_settings()
    if pg_options is None:
        pg_options = ProcessGroupHCCL.Options()
    elif not isinstance(pg_options, ProcessGroupHCCL.Options):
        raise TypeError(
            f"pg_options of an hccl group must be ProcessGroupHCCL.Options, not {type(pg_options).__name__}"
        )
    else:
        pg_options = copy.copy(pg_options)  # changing it later, or another group with it, changes nothing here
        if pg_options._timeout not in (options.timeout, ProcessGroupHCCL.Options()._timeout):
            warnings.warn(
                f"pg_options has a timeout of {pg_options._timeout}, but the group's is {options.timeout}: give it as "
                "timeout=… of init_process_group or new_group",
                stacklevel=2,
            )
        # One that PyTorch gave came along with the options of another group.
        groups = torch.distributed.distributed_c10d._world.pg_names.values()
        if pg_options.group_id not in ("", options.group_id, *groups):
            warnings.warn(
                f"pg_options has the group_id {pg_options.group_id}, but PyTorch names groups itself, this one "
                f'{options.group_id}: hccl_config = {{"group_name": …}} names the communicator',
                stacklevel=2,
            )
    pg_options._timeout = options.timeout
    pg_options.global_ranks_in_group = options.global_ranks_in_group
    pg_options.group_name = options.group_id
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, pg_options)


def _register_shardings(_: ModuleType) -> None:
    from torch_npu.distributed.tensor import _sharding

    _sharding.register()


def _register() -> None:
    from torch_npu import _C

    if not hasattr(torch.distributed, "reinit_process_group"):  # frameworks that recover call it there
        torch.distributed.reinit_process_group = reinit_process_group
    torch.distributed.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    from torch_npu._when_imported import WhenImported
    from torch_npu.distributed import rendezvous

    rendezvous.register()
    WhenImported("torch.distributed.tensor", _register_shardings)
    atexit.register(_C._distributed_c10d._stop_threads)
