"""What tests of the npu's own operators share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def seeded() -> None:
    """The same operands at each run, whatever ran before in the process."""
    torch.manual_seed(0)
