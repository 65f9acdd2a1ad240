"""What programs about groups share: coalescing.py, failures.py, first_calls.py and messages.py."""

from __future__ import annotations

import datetime

import torch
import torch.distributed as dist

DEVICE = "npu"


def backend(group=None):
    return (group or dist.distributed_c10d._get_default_group())._get_backend(torch.device(DEVICE))


def still_works(rank: int, size: int, group=None) -> None:
    t = torch.full((5,), float(rank), device=DEVICE)
    dist.all_reduce(t, group=group)
    assert torch.equal(t.cpu(), torch.full((5,), size * (size - 1) / 2)), t


def until(store: dist.Store, keys: list[str]) -> None:
    """Waits for the others' keys; a store's own limit is the group's, which a test may have made short."""
    store.wait(keys, datetime.timedelta(seconds=120))
