"""apex.contrib: combined tensors."""

from torch_npu.contrib.apex.contrib import combine_tensors

__all__ = ["combine_tensors"]
