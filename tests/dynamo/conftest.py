"""Each test compiles anew; what the test before captured is gone."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def compiled_anew():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
