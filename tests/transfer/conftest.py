"""Every test of this room runs with transfer_to_npu on; it is off again afterwards, for the other rooms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def transfer() -> Iterator[None]:
    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.enable()
    torch.npu.set_device(0)
    yield
    torch.npu.set_device(0)
    transfer_to_npu.disable()
