"""torch.distributed on npu: the backend "hccl". Importing torch_npu registers it and replaces nothing of PyTorch's.

torch.distributed.init_process_group("hccl")          or "cpu:gloo,npu:hccl", or none for npu tensors
torch.distributed.init_process_group("hccl", init_method="parallel://host:port", …)   over the parallel store
"""

from __future__ import annotations

import atexit

import torch

if torch.distributed.is_available():
    from torch_npu._C._distributed_c10d import ParallelStore

__all__ = ["ParallelStore", "is_hccl_available"]


def is_hccl_available() -> bool:
    """Whether this build of PyTorch has torch.distributed, and so the backend "hccl"."""
    return torch.distributed.is_available()


def _create(options, pg_options):
    """What PyTorch calls for a group with the backend "hccl"."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    if pg_options is None:
        pg_options = ProcessGroupHCCL.Options()
    elif not isinstance(pg_options, ProcessGroupHCCL.Options):
        raise TypeError(
            f"pg_options of an hccl group must be ProcessGroupHCCL.Options, not {type(pg_options).__name__}"
        )
    pg_options._timeout = options.timeout
    pg_options.global_ranks_in_group = options.global_ranks_in_group
    pg_options.group_name = options.group_id
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, pg_options)


def _register() -> None:
    from torch_npu import _C

    torch.distributed.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    from torch_npu.distributed import rendezvous

    rendezvous.register()
    atexit.register(_C._distributed_c10d._stop_watchdog)
