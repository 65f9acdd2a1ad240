"""What ranks run for torch_npu.distributed.uneven: parts of unequal size."""

from __future__ import annotations

import torch

import torch_npu.distributed as npu_distributed
from tests.distributed.programs import DEVICE, equal


def rows(n: int, value: float) -> torch.Tensor:
    return torch.full((n, 2), value, device=DEVICE)


def gather_uneven(rank: int, size: int, async_op: bool) -> None:
    sizes = [r + 1 for r in range(size)]
    output = rows(sum(sizes), -1.0)
    work = npu_distributed.all_gather_into_tensor_uneven(
        output, rows(rank + 1, float(rank)), sizes, async_op=async_op
    )  # fmt: skip
    if async_op:
        work.wait()
    else:
        assert work is None
    equal("uneven", output, torch.cat([rows(r + 1, float(r)).cpu() for r in range(size)]))
    output = rows(size, -1.0)
    npu_distributed.all_gather_into_tensor_uneven(output, rows(1, float(rank)))
    equal("even", output, torch.cat([rows(1, float(r)).cpu() for r in range(size)]))


def scatter_uneven(rank: int, size: int, async_op: bool) -> None:
    sizes = [2 * r + 1 for r in range(size)]
    every = torch.arange(2.0 * sum(sizes)).reshape(-1, 2)
    for op, want in ((torch.distributed.ReduceOp.SUM, every * size + sum(range(size))),
                     (torch.distributed.ReduceOp.MAX, every + size - 1)):  # fmt: skip
        output = rows(sizes[rank], -1.0)
        work = npu_distributed.reduce_scatter_tensor_uneven(
            output, (every + rank).to(DEVICE), sizes, op, async_op=async_op
        )  # fmt: skip
        if async_op:
            work.wait()
        else:
            assert work is None
        equal(f"uneven {op}", output, want.split(sizes)[rank])
    output = rows(1, -1.0)
    npu_distributed.reduce_scatter_tensor_uneven(output, torch.cat([rows(1, float(r)) for r in range(size)]))
    equal("even", output, rows(1, float(rank * size)).cpu())


def table_of_counts(rank: int, size: int) -> None:
    """From rank i to rank j go i + 2 * j rows of the value 10 * i + j; none from rank 0 to itself."""
    counts = [i + 2 * j for i in range(size) for j in range(size)]
    sent = torch.cat([rows(rank + 2 * j, float(10 * rank + j)) for j in range(size)])
    output = rows(sum(i + 2 * rank for i in range(size)), -1.0)
    assert npu_distributed.all_to_all_vc(output, sent, counts) is None
    equal("table", output, torch.cat([rows(i + 2 * rank, float(10 * i + rank)).cpu() for i in range(size)]))


def sizes_that_do_not_fit(rank: int, size: int) -> list[str]:
    """What each says of sizes that do not fit; nothing is sent, and the group works afterwards."""
    calls = (
        lambda: npu_distributed.all_gather_into_tensor_uneven(rows(3, 0.0), rows(1, 0.0), [3]),
        lambda: npu_distributed.all_gather_into_tensor_uneven(rows(3, 0.0), rows(1, 0.0), [1, 3]),
        lambda: npu_distributed.reduce_scatter_tensor_uneven(rows(1, 0.0), rows(3, 0.0), [4, -1]),
        lambda: npu_distributed.all_to_all_vc(rows(1, 0.0), rows(1, 0.0), [1, 0, 1]),
    )
    said = []
    for call in calls:
        try:
            call()
        except ValueError as error:
            said.append(str(error))
    table_of_counts(rank, size)
    return said
