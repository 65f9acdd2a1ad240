"""Max pooling and its gradient: operators in compiled graphs, and what the one keeps for the other."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.utils import run_and_get_code
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from tests.inductor import compiler

aten = torch.ops.aten


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_max_pooling_is_an_operator_and_its_gradient_too(layout, dtype):
    def function(x):
        y = F.max_pool2d(F.relu(x), 3, 2, 1)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        return y.detach(), gradient

    torch.manual_seed(0)
    x = torch.randn(2, 3, 12, 13).to(dtype).to(memory_format=layout)
    target = compiler.on("npu", x).requires_grad_()
    forward = torch.compile(lambda x: F.max_pool2d(F.relu(x), 3, 2, 1))
    y, pieces = run_and_get_code(forward, target)
    (gradient,) = torch.autograd.grad(y.sum(), target)
    for ours, theirs in zip((y, gradient), function(x.requires_grad_()), strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs)
        assert ours.stride() == theirs.stride()
    assert "npu._max_pool2d.default(" in pieces[0]
    dynamic = torch.compile(lambda x: F.max_pool2d(x, 2), dynamic=True)
    for rows in (8, 11):
        x = torch.randn(2, 3, rows, 10)
        assert dynamic(x.npu()).cpu().equal(F.max_pool2d(x, 2))


@pytest.mark.parametrize("settings", [{}, {"disable_cpp_codegen": True}, {"cpp_wrapper": True}], ids=str)
def test_what_max_pooling_keeps_for_its_gradient_is_in_int32_as_in_eager(settings):
    """Equal numbers and NaN among them, whose place is the gradient's; indices that the program asks for are int64."""

    def function(x):
        y, indices = F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2), ceil_mode=True, return_indices=True)
        return F.max_pool2d(y, 2), indices

    torch.manual_seed(0)
    x = torch.randint(-3, 4, (2, 3, 11, 13)).float()
    x[0, 1, 4, 5] = x[1, 2, 10, 12] = float("nan")
    target, x = x.npu().requires_grad_(), x.requires_grad_()

    def step(function, x):
        y, indices = function(x)
        y.backward(torch.arange(1.0, 1 + y.numel(), device=y.device).reshape(y.shape))
        return y, indices, x.grad

    with config.patch(settings):
        found, codes = run_and_get_code(lambda: step(torch.compile(function), target))
    for ours, theirs in zip(found, step(function, x), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=0, atol=0, equal_nan=True)
    if not settings:
        forward, backward = codes
        assert forward.count("npu._max_pool2d.default(") == 2
        assert "int32_t" not in backward and backward.count("max_pool2d_with_indices_backward.default(") == 2


def test_max_pooling_has_a_lowering_of_its_own():
    """In a process of its own: one that has compiled it by an implicit fallback keeps that."""
    program = (
        "import torch; from torch._inductor import config; from torch.nn import functional as F; "
        "config.implicit_fallbacks, config.compile_threads = False, 1; x = torch.randn(1, 2, 8, 8, device='npu'); "
        "print(torch.equal(torch.compile(F.max_pool2d)(x, 2), F.max_pool2d(x, 2)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert run.stdout == "True\n", run.stderr[-2000:]


def test_a_max_pooling_step_keeps_as_much_memory_as_in_eager():
    def kept(function):
        x = torch.randn(8, 16, 64, 64, device="npu", requires_grad=True)
        for _ in range(3):
            before = torch.npu.memory_allocated()
            y = function(x * 1)
            after = torch.npu.memory_allocated() - before
            y.sum().backward()
        return after

    eager = kept(lambda x: F.max_pool2d(x, 2))
    assert kept(torch.compile(lambda x: F.max_pool2d(x, 2))) == eager


def test_a_convolution_network_converts_no_numbers():
    """Whatever the partition of the step would rather keep."""
    torch.manual_seed(0)
    layers = (
        torch.nn.Conv2d(1, 8, 3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(1352, 10),
    )
    model, x = torch.nn.Sequential(*layers), torch.randn(8, 1, 28, 28)
    loss = F.cross_entropy(model(x), torch.arange(8))
    expected = torch.autograd.grad(loss, tuple(model.parameters()))
    step, x = torch.compile(model.npu()), x.npu()

    def gradients():
        return torch.autograd.grad(F.cross_entropy(step(x), torch.arange(8).npu()), tuple(model.parameters()))

    found, (forward, backward) = run_and_get_code(gradients)
    torch.testing.assert_close([value.cpu() for value in found], list(expected))
    assert "torch.int64" not in forward + backward and "int32_t" not in forward + backward


@pytest.mark.parametrize("shape", [(3, 9, 8), (0, 3, 9, 8)])
def test_max_pooling_of_shapes_at_the_edge(shape):
    x = torch.randn(shape)
    ours, theirs = x.npu().requires_grad_(), x.requires_grad_()
    y, expected = torch.compile(lambda x: F.max_pool2d(x, 2))(ours), F.max_pool2d(theirs, 2)
    y.sum().backward(), expected.sum().backward()
    torch.testing.assert_close(y.detach().cpu(), expected.detach())
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def test_a_plane_of_more_numbers_than_int32_counts_keeps_int64():
    with FakeTensorMode():
        x = torch.empty(1, 1 << 16, 1 << 15, dtype=torch.float16, device="npu")
        pool = select_decomp_table()[aten.max_pool2d_with_indices.default]
        assert pool(x, [2, 2]) is NotImplemented
        out, indices = pool(x[:, 1:], [2, 2])
        assert (out.dtype, indices.dtype, indices.shape) == (torch.float16, torch.int64, (1, (1 << 15) - 1, 1 << 14))


def test_max_pooling_of_the_cpu_stays_loops():
    _, (code,) = run_and_get_code(torch.compile(lambda x: F.max_pool2d(x, 2)), torch.randn(1, 2, 8, 8))
    assert "cpp_fused" in code and "aten.max_pool2d_with_indices" not in code


def test_numbers_that_the_program_asks_for_are_its_own():
    """int32 → int64 → int32 is a copy, also of the numbers of a pooling, which the gradient keeps."""
    for options in ({}, {"mode": "reduce-overhead"}):
        torch._dynamo.reset()
        again = torch.compile(lambda x: x.long().int(), **options)
        for _ in range(3):
            x = torch.arange(4, dtype=torch.int32, device="npu")
            y = again(x)
            y.add_(100)
            assert x.tolist() == [0, 1, 2, 3] and y.tolist() == [100, 101, 102, 103]

    def pooled(x):
        out, numbers = F.max_pool2d(x, 2, return_indices=True)
        return out, numbers.int(), numbers.int()

    torch._dynamo.reset()
    x = torch.randn(1, 2, 8, 8, device="npu", requires_grad=True)
    out, one, two = torch.compile(pooled)(x)
    expected = one.tolist()
    one.zero_()
    assert two.tolist() == expected
    out.sum().backward()
    assert int(x.grad.sum().item()) == out.numel()
