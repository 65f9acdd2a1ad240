"""apex.contrib.combine_tensors: the combined tensors of torch_npu.utils by the names that scripts import."""

from torch_npu.utils import get_part_combined_tensor, is_combined_tensor_valid
from torch_npu.utils import npu_combine_tensors as combine_npu

__all__ = ["combine_npu", "get_part_combined_tensor", "is_combined_tensor_valid"]
