"""max_pool2d without indices (csrc/ops/max_pool2d.cpp): values, gradients of two orders, strides; and who sees the
operator with indices instead.
"""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from tests.core import tools

HALVES = (torch.float16, torch.bfloat16)


def drawn(draw: random.Random) -> tuple[torch.Tensor, tuple]:
    dtype = draw.choice([torch.float32, torch.float64, *HALVES])
    x = torch.randn(draw.choice([(2, 3, 11, 9), (3, 12, 8), (1, 1, 40, 40), (0, 3, 9, 9)])).to(dtype)
    if x.dim() == 4 and draw.random() < 0.3:
        x = x.to(memory_format=torch.channels_last)
    if draw.random() < 0.2:
        x = x.flip(-1).transpose(-1, -2)
    kernel = draw.randint(1, 4), draw.randint(1, 4)
    stride, padding = draw.choice([None, (1, 2), 3]), (draw.randint(0, kernel[0] // 2), draw.randint(0, kernel[1] // 2))
    return x, (kernel, stride, padding, draw.choice([1, 2]), draw.random() < 0.5)


def test_values_and_gradients_are_the_cpus() -> None:
    draw = random.Random(0)
    torch.manual_seed(0)
    for _ in range(150):
        x, arguments = drawn(draw)
        cpu, npu = x.clone().requires_grad_(), x.npu().requires_grad_()
        expected, found = F.max_pool2d(cpu, *arguments), F.max_pool2d(npu, *arguments)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, check_device=False, check_stride=True)
        given = torch.randn_like(expected)
        (expected,), (found,) = torch.autograd.grad(expected, cpu, given), torch.autograd.grad(found, npu, given.npu())
        # Overlapping windows are summed in 16 bits on the CPU, in float32 here.
        close = {"rtol": 2e-2, "atol": 6e-2} if x.dtype in HALVES else {}
        torch.testing.assert_close(found, expected, check_device=False, check_stride=True, **close)
        with torch.no_grad():
            assert torch.equal(F.max_pool2d(npu, *arguments).cpu(), F.max_pool2d(cpu, *arguments))


def test_the_gradient_has_a_gradient() -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64, device="npu", requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda t: F.max_pool2d(t, 3, 2, 1).square(), x)


class Seen(TorchDispatchMode):
    """Names of the operators that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


class Pool(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(x, 2)


def test_whoever_looks_sees_pytorchs_operator() -> None:
    x = torch.randn(2, 3, 8, 8, device="npu", requires_grad=True)
    plain = F.max_pool2d(x, 2)
    with Seen() as seen:
        looked_at = F.max_pool2d(x, 2)
        with torch.no_grad():
            F.max_pool2d(x, 2)
    pool = "aten::max_pool2d_with_indices"
    assert seen.names == [pool, "aten::_to_copy", pool]
    assert torch.equal(plain, looked_at)
    with Seen() as seen:
        looked_at.sum().backward()
    assert f"{pool}_backward" in seen.names
    assert torch.equal(torch.func.vmap(lambda t: F.max_pool2d(t, 2))(x), plain)
    given = torch.randn_like(plain)
    (expected,) = torch.autograd.grad(plain, x, given)
    _, tangents = torch.func.vjp(lambda t: F.max_pool2d(t, 2), x)
    torch.testing.assert_close(tangents(given)[0], expected)
    _, forward = torch.func.jvp(lambda t: F.max_pool2d(t, 2), (x.detach(),), (expected,))
    places = F.max_pool2d(x, 2, return_indices=True)[1]
    assert torch.equal(forward, expected.flatten(2).gather(2, places.flatten(2)).view_as(forward))


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_keeps_the_same_whether_or_not_a_mode_looks(first: bool) -> None:
    x = torch.randn(2, 3, 8, 8, device="npu", requires_grad=True)
    modes = [Seen(), nullcontext()] if first else [nullcontext(), Seen()]
    with modes[0]:
        y = checkpoint(lambda t: F.max_pool2d(t.relu(), 2).exp(), x, use_reentrant=False)
    with modes[1]:
        y.sum().backward()
    expected = x.detach().cpu().requires_grad_()
    F.max_pool2d(expected.relu(), 2).exp().sum().backward()
    torch.testing.assert_close(x.grad, expected.grad, check_device=False)


def test_what_it_leaves_to_pytorch() -> None:
    x = torch.randn(1, 1, 4, 4, device="npu", requires_grad=True)
    with torch._C._AutoDispatchBelowAutograd():
        assert not F.max_pool2d(x, 2).requires_grad
    zeros = torch._efficientzerotensor((1, 1, 4, 4), device="npu")
    assert torch.equal(F.max_pool2d(zeros, 2).cpu(), torch.zeros(1, 1, 2, 2))
    exported = torch.export.export(Pool(), (x.detach(),)).run_decompositions()
    assert "aten.max_pool2d_with_indices.default" in {str(node.target) for node in exported.graph.nodes}


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend950"])
def test_what_it_keeps(chip: str) -> None:
    """Numbers of elements in int32: half of what the operator with indices keeps."""
    code = """
import torch, torch_npu, torch.nn.functional as F
x = torch.randn(4, 8, 64, 64, device="npu", requires_grad=True)
def kept(indices):
    before = torch.npu.memory_allocated()
    y = F.max_pool2d(x, 2, return_indices=indices)
    return torch.npu.memory_allocated() - before
print(kept(False), kept(True))
"""
    out = 4 * 8 * 32 * 32 * 4
    assert tools.output(code, ANYCEND_SOC=chip).split() == [str(2 * out), str(3 * out)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((0,), "stride should not be zero"), ((2, 1, 2), "pad should be at most half"), ((90,), "too small")],
)
def test_refusals_are_pytorchs(arguments: tuple, words: str) -> None:
    for x in (torch.randn(1, 2, 8, 8, device="npu"), torch.randn(1, 2, 8, 8, device="npu", requires_grad=True)):
        with pytest.raises(RuntimeError, match=words):
            F.max_pool2d(x, *arguments)


WINDOWS = [
    (2, 2, 0, 1, False),
    (3, 1, 1, 1, False),
    (3, 2, 1, 1, True),
    ((2, 3), (1, 2), (1, 1), 1, True),
    (3, 1, 1, 2, False),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", [None, "channels_last", "turned"])
@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (3, 17, 30), (1, 2, 300, 200)], ids=str)
def test_gradients_of_overlapping_windows_are_added_in_float32(shape, layout, dtype):
    """Of 16 bits, too: ATen rounds each sum there."""
    made = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=made, dtype=torch.float64).to(dtype)
    if layout == "turned":
        x = x.transpose(-1, -2)
    elif layout:
        x = x.view(-1, *shape[-3:]).contiguous(memory_format=torch.channels_last)
    wide = dtype if dtype == torch.float64 else torch.float32
    for kernel, stride, padding, dilation, ceil in WINDOWS:
        ours, theirs = x.npu().requires_grad_(), x.to(wide, copy=True).requires_grad_()
        y, expected = (F.max_pool2d(t, kernel, stride, padding, dilation, ceil) for t in (ours, theirs))
        weight = torch.randn(y.shape, generator=made, dtype=torch.float64).to(dtype)
        y.backward(weight.npu())
        expected.backward(weight.to(wide))
        assert torch.equal(y.cpu(), expected.to(dtype)) and torch.equal(ours.grad.cpu(), theirs.grad.to(dtype))


@pytest.mark.parametrize(
    ("chip", "strict", "converted"), [("Ascend910B3", 0, 0), ("Ascend910B3", 1, 2), ("Ascend950", 1, 0)]
)
def test_sixteen_bits_are_converted_where_the_chips_types_are_asked_for(chip, strict, converted):
    """The software NPU takes them for every chip; under ANYCEND_STRICT its two operands are converted."""
    code = """
import torch, torch_npu
for dtype in (torch.float16, torch.bfloat16):
    x = torch.randn(1, 2, 8, 8, device="npu", dtype=dtype, requires_grad=True)
    y = torch.nn.functional.max_pool2d(x, 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        y.backward(torch.ones_like(y))
    counts = {event.key: event.count for event in profile.key_averages()}
    print(counts["aten::max_pool2d_with_indices_backward"], counts.get("aten::_to_copy", 0))
"""
    found = tools.output(code, ANYCEND_SOC=chip, ANYCEND_STRICT=str(strict)).split()
    assert found == ["1", str(converted)] * 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_channels_last_of_narrow_integers_may_have_more_places_than_they_count(dtype):
    """PyTorch's kernel for the CPU refuses those of 8 bits, and of 16 from 32,768 places on."""
    flat, deep = ((torch.arange(n) % 101).to(dtype) for n in (2 * 3 * 200 * 200, 2 * 3 * 6 * 8 * 8))
    for pool, x, layout in (
        (F.max_pool2d, flat.view(2, 3, 200, 200), torch.channels_last),
        (F.max_pool3d, deep.view(2, 3, 6, 8, 8), torch.channels_last_3d),
    ):
        found = pool(x.npu().to(memory_format=layout), 2, return_indices=True)
        for ours, theirs in zip(found, pool(x, 2, return_indices=True), strict=True):
            assert ours.is_contiguous(memory_format=layout) and ours.cpu().equal(theirs)
