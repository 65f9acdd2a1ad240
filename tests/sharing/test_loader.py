"""DataLoader whose workers make npu tensors, pinned memory through it, and forked children."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

DEV = "npu"


class OnDevice(Dataset):
    """Rows made on the NPU by whoever loads them."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(index), device=DEV) * 2, index


class OnHost(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3,), float(index))


def test_workers_return_npu_tensors() -> None:
    loader = DataLoader(OnDevice(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)  # the worker has ended: what came from it is kept
    assert [batch.device.type for batch, _ in batches] == [DEV] * 3
    assert [batch[:, 2].tolist() for batch, _ in batches] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, 20, 22]]
    assert torch.cat([labels for _, labels in batches]).tolist() == list(range(12))


def test_forked_workers_are_told_to_spawn() -> None:
    torch.zeros(1, device=DEV)
    with pytest.raises(RuntimeError, match="""multiprocessing_context="spawn\""""):
        list(DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork"))


def test_pinned_batches_are_copied_without_waiting() -> None:
    loader = DataLoader(OnHost(), batch_size=6, num_workers=1, pin_memory=True, multiprocessing_context="fork")
    total = torch.zeros(3, device=DEV)
    for batch in loader:
        assert batch.is_pinned()
        total += batch.to(DEV, non_blocking=True).sum(0)
    assert total.tolist() == [66.0] * 3
