"""The vendor's name for what torch_npu.distributed has."""

from torch_npu.distributed import is_hccl_available, reinit_process_group

__all__ = ["is_hccl_available", "reinit_process_group"]
