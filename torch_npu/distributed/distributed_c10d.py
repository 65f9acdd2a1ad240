"""The vendor's name for what torch_npu.distributed has."""

from torch_npu.distributed import is_hccl_available, reinit_process_group
from torch_npu.distributed.uneven import all_gather_into_tensor_uneven, all_to_all_vc, reduce_scatter_tensor_uneven

__all__ = [
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]
