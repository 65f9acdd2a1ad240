"""Several tensors in one piece of memory, so that one kernel serves them all: parameters, gradients, optimizer states.

After combining, each tensor is a view of the combined one and keeps its shape and strides. Called by torch_npu.optim,
torch_npu.contrib.apex and programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def is_dense(tensor: torch.Tensor) -> bool:
    """Do the elements fill their memory without gaps and overlaps, in whatever order of dimensions?"""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def part(combined: torch.Tensor, index: int, like: torch.Tensor) -> torch.Tensor:
    """The view of `combined` from element `index` on with `like`'s shape, and its strides where it is dense."""
    if is_dense(like):
        return combined.as_strided(like.shape, like.stride(), combined.storage_offset() + index)
    return combined.narrow(0, index, like.numel()).view(like.shape)


@torch.no_grad()
def npu_combine_tensors(list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """Moves the tensors' memory into one tensor of one dimension, of which they are views from then on.

    Args:
        list_of_tensor: tensors of one dtype on one npu, of any shapes; dense strides (channels-last too) are kept.
        require_copy_value: False leaves the values undefined: for tensors that are written next.

    Returns: the combined tensor, shape (sum of the numbers of elements,); None for an empty list.
    Raises: RuntimeError for tensors of several dtypes or devices, or not on the npu.
    """
    tensors = list(list_of_tensor)
    if not tensors:
        return None
    first = tensors[0]
    for tensor in tensors:
        if tensor.device.type != "npu":
            raise RuntimeError(f"Tensors to combine must be on NPU, got {tensor.device}.")
        if tensor.dtype != first.dtype:
            raise RuntimeError(f"Tensors to combine must have the same dtype, got {first.dtype} and {tensor.dtype}.")
        if tensor.device != first.device:
            raise RuntimeError(f"Tensors to combine must be on one npu, got {first.device} and {tensor.device}.")
    combined = first.new_empty(sum(tensor.numel() for tensor in tensors))
    index = 0
    for tensor in tensors:
        view = part(combined, index, tensor)
        if require_copy_value:
            view.copy_(tensor.detach())
        tensor.data = view
        index += tensor.numel()
    return combined


def get_part_combined_tensor(combined_tensor: torch.Tensor | None, index: int, size: int) -> torch.Tensor | None:
    """`size` elements of a combined tensor from element `index` on, as a view of one dimension.

    Returns: None for no tensor or a size of 0. Raises: RuntimeError if the part ends behind the combined tensor.
    """
    if combined_tensor is None or size == 0:
        return None
    if index + size > combined_tensor.numel():
        raise RuntimeError(
            f"The part of {size} elements from {index} on ends behind the combined tensor, "
            f"which has {combined_tensor.numel()} elements."
        )
    return combined_tensor.narrow(0, index, size)


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor]) -> bool:
    """Do the tensors still lie in the combined tensor's memory? False once one of them got memory of its own."""
    if combined_tensor is None:
        return not list_of_tensor
    begin = combined_tensor.data_ptr()
    end = begin + combined_tensor.numel() * combined_tensor.element_size()
    return all(begin <= tensor.data_ptr() <= end - tensor.numel() * tensor.element_size() for tensor in list_of_tensor)
