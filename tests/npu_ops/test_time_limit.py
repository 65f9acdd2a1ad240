"""torch.npu.set_op_timeout_ms: an operator that takes longer fails."""

from __future__ import annotations

import pytest
import torch

from tests.core import tools

LONG = """
import torch, torch_npu
a = torch.ones(2500, 2500).npu()
torch.npu.set_op_timeout_ms(0)
(a @ a).sum().item()
torch_npu.set_op_timeout_ms(1)
try:
    (a @ a).sum().item()
except torch.AcceleratorError as error:
    print(error)
"""


def test_an_operator_that_takes_longer_fails():
    done = tools.run(LONG, check=False)
    assert "the limit is 0.001 s" in done.stdout, done.stdout + done.stderr


def test_a_limit_is_a_number_of_milliseconds():
    with pytest.raises(ValueError, match="set_op_timeout_ms: timeout is -1; it is in milliseconds"):
        torch.npu.set_op_timeout_ms(-1)
    assert torch.npu.set_op_timeout_ms(0) is None and torch.ops.npu.set_op_timeout_ms(0) is None
