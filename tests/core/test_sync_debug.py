"""torch.npu.set_sync_debug_mode: what waits for the device is warned of or refused, what does not goes on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    torch.npu.set_sync_debug_mode("default")


WAITS = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "from pageable memory": lambda x: torch.ones(4).to("npu", non_blocking=True),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 1],
    "unique": lambda x: x.unique(),
    "stream": lambda x: torch.npu.current_stream().synchronize(),
}
GOES_ON = {
    "add": lambda x: x + 1,
    "pinned": lambda x: torch.ones(4).pin_memory().to("npu", non_blocking=True),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0),
    "synchronize": lambda x: torch.npu.synchronize(),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_is_warned_of_and_refused(name: str) -> None:
    x = torch.ones(4, device="npu")
    torch.npu.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing NPU operation"):
        WAITS[name](x)
    torch.npu.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="called a synchronizing NPU operation"):
        WAITS[name](x)
    torch.npu.set_sync_debug_mode("default")
    WAITS[name](x)


@pytest.mark.parametrize("name", GOES_ON)
def test_work_that_nobody_waits_for_is_not(name: str) -> None:
    x = torch.ones(4, device="npu")
    torch.npu.set_sync_debug_mode("error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GOES_ON[name](x)
