"""`torch_npu.utils`: combined tensors, the profile of a few steps, operators compared with the CPU (compare), which
cpus a thread runs on.

storage: tensors in files of older versions. Imported by name: cpp_extension (NpuExtension, load), custom_ops (operators
from a YAML file).

The overflow check is in torch_npu.npu.utils.
"""

from torch_npu.utils import storage
from torch_npu.utils.affinity import reset_thread_affinity, set_thread_affinity
from torch_npu.utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = [
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "reset_thread_affinity",
    "set_thread_affinity",
    "storage",
]
