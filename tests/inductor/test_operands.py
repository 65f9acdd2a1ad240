"""Numbers of the CPU and constants among the operands of an npu graph: values as eager's, on the npu."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from tests.inductor import compiler


def test_a_number_of_the_cpu_before_the_tensors_of_the_npu():
    def function(s, x):
        doubled = s * x
        return doubled, doubled.sum(0), (s - x).exp(), torch.where(s > 1, x, -x), (s + 1) / x, s + 1

    s, x = torch.tensor(2.0), torch.randn(6, 7)
    compiled = torch.compile(function, fullgraph=True)
    *found, number = compiled(s, x.npu())
    *expected, _ = function(s, x)
    assert number.device.type == "cpu" and number == 3
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.device.type == "npu"
        assert_close(ours.cpu(), theirs)


def test_a_quotient_by_a_constant_is_a_division():
    def function(x, i, h):
        quotients = (
            torch.floor(x / 41),
            torch.div(x, 41.0, rounding_mode="trunc"),
            torch.floor(x / torch.full((), 41.0)),
        )
        return *quotients, torch.floor(i / 47), h / 0.1

    i = torch.arange(1, 4096)
    compiler.same_as_cpu(function, i.float(), i, torch.randn(64).half(), rtol=0, atol=0)
