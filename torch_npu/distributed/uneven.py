"""The vendor's collectives over parts of unequal size, by PyTorch's own that take lists. Not csrc/distributed: that has
what these call. Programs call them as torch_npu.distributed.<name>."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

__all__ = ["all_gather_into_tensor_uneven", "all_to_all_vc", "reduce_scatter_tensor_uneven"]


def _parts(name: str, tensor: torch.Tensor, what: str, sizes: list[int], group: Any) -> list[torch.Tensor]:
    """`tensor` cut along its first dimension, a part a rank. Raises ValueError where the sizes do not fit."""
    ranks, rows = dist.get_world_size(group), tensor.shape[0] if tensor.dim() else 0
    if len(sizes) != ranks:
        raise ValueError(f"{name}: {what}_split_sizes has {len(sizes)} sizes, and the group {ranks} ranks")
    if sum(sizes) != rows or min(sizes) < 0:
        raise ValueError(f"{name}: {what}_split_sizes {sizes} do not add up to the {rows} rows of {what}")
    return list(tensor.split(sizes))


def all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Every rank's `input`, of (rows of that rank, *), joined in `output`, of (rows of all ranks, *).

    output_split_sizes: each rank's rows; None: all have as many. Returns the Work with async_op, else None. Raises
    ValueError where the sizes and the output or the group do not fit. Source: the vendor's torch_npu.distributed."""
    if output_split_sizes is None:
        return dist.all_gather_into_tensor(output, input, group, async_op)
    parts = _parts("all_gather_into_tensor_uneven", output, "output", output_split_sizes, group)
    return dist.all_gather(parts, input, group, async_op)


def reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    input_split_sizes: list[int] | None = None,
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Reduces `input`, of (rows of all ranks, *), over the ranks and leaves each its rows in `output`, of (rows of
    that rank, *).

    input_split_sizes: each rank's rows; None: all have as many. Returns the Work with async_op, else None. Raises
    ValueError where the sizes and the input or the group do not fit. Source: the vendor's torch_npu.distributed."""
    if input_split_sizes is None:
        return dist.reduce_scatter_tensor(output, input, op, group, async_op)
    parts = _parts("reduce_scatter_tensor_uneven", input, "input", input_split_sizes, group)
    return dist.reduce_scatter(output, parts, op, group, async_op)


def all_to_all_vc(
    output: torch.Tensor,
    input: torch.Tensor,
    send_count_matrix: list[int],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """all_to_all_single by one table that all ranks have: send_count_matrix[i * n + j] rows go from rank i to rank j.

    n is the group's size; a row is along the first dimension of `input` and `output`, whose parts lie in the order of
    the ranks. Returns the Work with async_op, else None. Raises ValueError for a table of another size. Source: the
    vendor's torch_npu.distributed; the order of the table is HcclAlltoAllVC's."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    if len(send_count_matrix) != ranks * ranks:
        raise ValueError(
            f"all_to_all_vc: send_count_matrix has {len(send_count_matrix)} counts; a group of {ranks} ranks needs "
            f"{ranks * ranks}"
        )
    received = list(send_count_matrix[rank::ranks])
    sent = list(send_count_matrix[rank * ranks : (rank + 1) * ranks])
    return dist.all_to_all_single(output, input, received, sent, group, async_op)
