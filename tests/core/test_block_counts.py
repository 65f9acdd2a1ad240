"""What blocks count, given out and taken back: csrc/core/block_counts.h. The rest of the cache: test_allocator.py."""

from __future__ import annotations

import random

import pytest
import torch

MIB = 1 << 20
DEVICE = 6  # nobody else's


def memory(size: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(size, device=f"npu:{DEVICE}")


@pytest.mark.parametrize("seed", range(4))
def test_statistics_of_a_random_program_are_what_one_counts(seed):
    """Blocks of both pools given and taken back, the figures reset in between: as PyTorch's counter has them."""

    class Count:
        current = peak = allocated = freed = 0

        def change(self, by):
            self.current += by
            self.peak = max(self.peak, self.current)
            self.allocated += max(by, 0)
            self.freed += max(-by, 0)

    random.seed(seed)
    counts = {
        (kind, pool): Count()
        for kind in ("allocation", "requested_bytes")
        for pool in ("all", "small_pool", "large_pool")
    }
    held = [memory(1)]  # the device has its figures
    held.clear()
    torch.npu.reset_peak_memory_stats(DEVICE)
    torch.npu.reset_accumulated_memory_stats(DEVICE)
    for _ in range(400):
        if random.random() < 0.03:
            torch.npu.reset_peak_memory_stats(DEVICE)
            for count in counts.values():
                count.peak = count.current
        if random.random() < 0.03:
            torch.npu.reset_accumulated_memory_stats(DEVICE)
            for count in counts.values():
                count.allocated = count.freed = 0
        taken = not held or random.random() < 0.55
        size = random.choice((1, 512, 1000, MIB, MIB + 1, 3 * MIB)) if taken else len(held[-1])
        if taken:
            held.append(memory(size))
            random.shuffle(held)
        else:
            held.pop()
        for pool in ("all", "small_pool" if size <= MIB else "large_pool"):
            counts["allocation", pool].change(1 if taken else -1)
            counts["requested_bytes", pool].change(size if taken else -size)
        stats = torch.npu.memory_stats(DEVICE)
        for (kind, pool), count in counts.items():
            for name in ("current", "peak", "allocated", "freed"):
                assert stats[f"{kind}.{pool}.{name}"] == getattr(count, name), (kind, pool, name)
            assert stats[f"active.{pool}.current"] == counts["allocation", pool].current
        held_back = [
            part["size"]
            for segment in torch.npu.memory_snapshot()
            if segment["device"] == DEVICE and len(segment["blocks"]) > 1
            for part in segment["blocks"]
            if part["state"] == "inactive"
        ]
        assert stats["inactive_split.all.current"] == len(held_back)
        assert stats["inactive_split_bytes.all.current"] == sum(held_back)
    assert stats["active.all.peak"] == stats["allocation.all.peak"]
