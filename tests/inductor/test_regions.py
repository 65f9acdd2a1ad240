"""Loops, and regions that are compiled once and used several times; a branch is in test_launch.py."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

from tests.inductor import compiler

pytestmark = pytest.mark.full  # g++ takes 30 s; a branch is compiled in make test


def test_a_loop_whose_turns_the_data_decides():
    def function(x, turns):
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, y: i < turns, lambda i, y: (i + 1, y.sin() + i), (start, x))

    compiled = torch.compile(function, fullgraph=True)
    for turns in (3, 0, 7):
        compiler.same_as_cpu(function, torch.linspace(-1, 2, 12), torch.tensor(turns), compiled=compiled)


def test_a_region_that_is_used_again_has_its_values_and_gradients():
    @torch.compiler.nested_compile_region
    def layer(x, weight):
        return (x @ weight).sin() * x

    def function(x, weight):
        for _ in range(3):
            x = layer(x, weight)
        return x

    def gradients(run, device):
        x, weight = compiler.on(device, (x0.requires_grad_(), weight0.requires_grad_()))
        y = run(x, weight)
        return y, *torch.autograd.grad(y.square().sum(), (x, weight))

    torch.manual_seed(0)
    x0, weight0 = torch.randn(4, 8), torch.randn(8, 8)
    expected = gradients(function, "cpu")
    found = gradients(torch.compile(function, fullgraph=True), "npu")
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.device.type == "npu"
        torch.testing.assert_close(ours.cpu(), theirs)
