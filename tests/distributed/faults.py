"""What ranks run while a function of HCCL fails in one of them (ANYCEND_FAULT): tests/faults/test_peers.py."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.distributed.groups import DEVICE


def with_a_call_that_fails(rank: int, size: int, step: str) -> list[list[str]]:
    """Rank 0's process has a fault asked for; what fails there is tried once more. The tries of each rank."""
    from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven

    mine, both = torch.full((2,), rank + 1.0, device=DEVICE), torch.empty(4, device=DEVICE)

    sizes = [3, 1]
    part = torch.full((sizes[rank],), rank + 1.0, device=DEVICE)

    def message(source: int) -> torch.Tensor:
        dist.send(mine, 1 - rank) if rank == source else dist.recv(both[:2], source)
        return mine[:1] if rank == source else both[:1]

    steps = {
        "HcclSend": lambda: message(0),
        "HcclRecv": lambda: message(1),
        "HcclAllGatherV": lambda: (all_gather_into_tensor_uneven(both, part, sizes), both)[1],
        "HcclReduceScatterV": lambda: (reduce_scatter_tensor_uneven(part, torch.ones(4, device=DEVICE), sizes), part)[
            1
        ],
    }
    tries = []
    while len(tries) < 2:
        try:
            found = steps[step]()
            torch.npu.synchronize()
            tries.append(["fine", str(found.tolist())])
            break
        except Exception as error:
            tries.append([type(error).__name__, str(error)])
    return tries
