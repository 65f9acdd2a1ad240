"""Deformable convolution, and causal convolution with a mask or with states in a cache."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import assert_close, check


def sample(x, parts, kernel, stride, padding, dilation, groups):
    """Pixel by pixel: [batch, channels, out_height * kernel, out_width * kernel]."""
    batch, channels, height, width = x.shape
    kh, kw = kernel
    out_height, out_width = parts.shape[-2:]
    parts = parts.reshape(batch, -1, groups, kh, kw, out_height, out_width)
    rows = []
    for n in range(batch):
        for c in range(channels):
            g = c // (channels // groups)
            for oh in range(out_height):
                for i in range(kh):
                    for ow in range(out_width):
                        for j in range(kw):
                            at = parts[n, :, g, i, j, oh, ow]
                            across = at[0] - padding[2] + ow * stride[3] + j * dilation[3]
                            down = at[1] - padding[0] + oh * stride[2] + i * dilation[2]
                            left, top = math.floor(across.detach()), math.floor(down.detach())
                            total = torch.zeros((), dtype=x.dtype)
                            for r in (top, top + 1):
                                for q in (left, left + 1):
                                    if 0 <= r < height and 0 <= q < width:
                                        share = (1 - (across - q).abs()) * (1 - (down - r).abs())
                                        total = total + share * x[n, c, r, q]
                            rows.append(total * at[2] if len(at) == 3 else total)
    return torch.stack(rows).reshape(batch, channels, out_height * kh, out_width * kw)


def deformed(x, weight, offset, bias, kernel, stride, padding, dilation, groups, offset_groups, modulated):
    samples = sample(x, offset, kernel, stride, padding, dilation, offset_groups)
    return torch.conv2d(samples, weight, bias, kernel, groups=groups), samples


# kernel, stride, padding, dilation, groups, deformable_groups, modulated
FORMS = {
    "plain": ([2, 2], [1] * 4, [0] * 4, [1] * 4, 1, 1, True),
    "groups": ([2, 1], [1, 1, 2, 1], [1, 0, 0, 1], [1, 1, 2, 1], 2, 2, True),
    "no factor": ([2, 2], [1, 1, 1, 2], [1, 1, 0, 2], [1] * 4, 1, 2, False),
}


def operands(form):
    torch.manual_seed(2)
    kernel, stride, padding, dilation, groups, offset_groups, modulated = FORMS[form]
    height = (4 + padding[0] + padding[1] - (kernel[0] - 1) * dilation[2] - 1) // stride[2] + 1
    width = (5 + padding[2] + padding[3] - (kernel[1] - 1) * dilation[3] - 1) // stride[3] + 1
    count = offset_groups * kernel[0] * kernel[1]
    # In quarters away from whole numbers, where the gradient of a place jumps, and exact in every type.
    offset = torch.randint(-8, 8, (1, 2 * count, height, width)) / 4 + 0.125
    if modulated:
        offset = torch.cat([offset, torch.rand(1, count, height, width)], 1)
    return torch.randn(1, 2, 4, 5), torch.randn(4, 2 // groups, *kernel), offset, torch.randn(4)


@pytest.mark.parametrize("form", FORMS)
def test_deformable_convolution(form):
    check(torch_npu.npu_deformable_conv2d, deformed, [*operands(form), *FORMS[form]], layouts=[lambda t: t])


def test_without_offsets_it_is_a_convolution():
    x, w, b = torch.randn(2, 3, 6, 7), torch.randn(4, 3, 3, 3), torch.randn(4)
    offset = torch.cat([torch.zeros(2, 18, 6, 7), torch.ones(2, 9, 6, 7)], 1)
    out, samples = torch_npu.npu_deformable_conv2d(x.npu(), w.npu(), offset.npu(), b.npu(), [3, 3], [1] * 4, [1] * 4)
    torch.testing.assert_close(out.cpu(), torch.conv2d(x, w, b, padding=1), rtol=1e-4, atol=1e-4)
    assert samples.shape == (2, 3, 18, 21)


@pytest.mark.parametrize("form", ["plain", "no factor"])
def test_the_operator_of_its_gradients(form):
    x, w, offset, b = (t.double().requires_grad_() for t in operands(form))
    out, samples = deformed(x, w, offset, b, *FORMS[form])
    grad = torch.randn(out.shape, dtype=torch.float64)
    expected = torch.autograd.grad(out, (x, w, offset, b), grad)
    args = (t.detach().npu() for t in (x, grad, samples, w, offset))
    got = torch_npu.npu_deformable_conv2dbk(*args, *FORMS[form])
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


def test_gradients_by_differences():
    x, w, offset, b = (t.double().npu().requires_grad_() for t in operands("plain"))
    f = lambda *args: torch_npu.npu_deformable_conv2d(*args, *FORMS["plain"])[0]
    assert torch.autograd.gradcheck(f, (x, w, offset, b), fast_mode=True)


def test_refusals():
    x, w, offset, b = (t.npu() for t in operands("plain"))
    kernel, stride, padding = FORMS["plain"][:3]
    f = torch_npu.npu_deformable_conv2d
    with pytest.raises(RuntimeError, match="stride is 1, 1 and two positive numbers"):
        f(x, w, offset, b, kernel, [1, 1, 0, 1], padding)
    with pytest.raises(RuntimeError, match="four members, not 2, 4 and 4"):
        f(x, w, offset, b, kernel, [1, 1], padding)
    with pytest.raises(RuntimeError, match="offset must have 8 in dimension 1, got 12"):
        f(x, w, offset, b, kernel, stride, padding, modulated=False)
    with pytest.raises(RuntimeError, match="2 channels do not divide into 1 groups and 3 deformable_groups"):
        f(x, w, offset, b, kernel, stride, padding, deformable_groups=3)


def causal(x, weight, mask=None):
    padded = torch.cat([x.new_zeros(2, *x.shape[1:]), x])
    out = sum(weight[k] * padded[k : k + len(x)] for k in range(3))
    return out if mask is None else torch.where(mask.T[..., None], out, 0.0)


@pytest.mark.parametrize("masked", [True, False])
def test_causal_convolution(masked):
    torch.manual_seed(1)
    mask = {"mask": torch.rand(2, 5) > 0.4} if masked else {}
    check(torch_npu.npu_masked_causal_conv1d, causal, [torch.randn(5, 2, 4), torch.randn(3, 4)], mask)


def test_the_operator_of_the_causal_gradients():
    x, w = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((5, 2, 4), (3, 4)))
    mask, grad = torch.rand(2, 5) > 0.4, torch.randn(5, 2, 4, dtype=torch.float64)
    expected = torch.autograd.grad(causal(x, w, mask), (x, w), grad)
    args = (t.detach().npu() for t in (grad, x, w))
    got = torch_npu.npu_masked_causal_conv1d_backward(*args, mask=mask.npu())
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)
    leaves = [t.detach().npu().requires_grad_() for t in (x, w)]
    assert torch.autograd.gradcheck(torch_npu.npu_masked_causal_conv1d, leaves)


def test_refusals_of_the_causal_form():
    x, w = torch.randn(5, 2, 4).npu(), torch.randn(3, 4).npu()
    with pytest.raises(RuntimeError, match="weight must have 3 in dimension 0, got 2"):
        torch_npu.npu_masked_causal_conv1d(x, w[:2])
    with pytest.raises(RuntimeError, match="mask must have 2 in dimension 0, got 5"):
        torch_npu.npu_masked_causal_conv1d(x, w, mask=torch.ones(5, 2).bool().npu())


def with_states(x, weight, states, starts, computed):
    """Sequence by sequence: the sum over taps of rows that begin with the state, or with zeros; and the new states."""
    y, after = torch.empty_like(x), states.clone()
    for b, (begin, end) in enumerate(zip(starts, starts[1:], strict=False)):
        before = states[b] if computed[b] else torch.zeros_like(states[b])
        rows = torch.cat([before, x[begin:end]])
        y[begin:end] = sum(weight[k] * rows[k : k + end - begin] for k in range(3))
        after[b] = rows[-2:]
    return y, after


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_causal_convolution_with_states(dtype):
    torch.manual_seed(3)
    x, weight, states = torch.randn(9, 4).to(dtype), torch.randn(3, 4).to(dtype), torch.randn(3, 2, 4).to(dtype)
    starts, computed = [0, 4, 5, 9], [0, 3, 1]
    y, after = with_states(x.double(), weight.double(), states.double(), starts, computed)
    named = {
        "query_start_loc": torch.tensor(starts).int().npu(),
        "num_computed_tokens": torch.tensor(computed).int().npu(),
        "residual_connection": 1,
    }
    state = states.npu()
    got = torch_npu.npu_fused_causal_conv1d(x.npu(), weight.npu(), state, **named)
    assert_close(got, y + x.double(), dtype, "y")
    assert_close(state, after, dtype, "states")
    moved, state = x.npu(), states.npu()
    assert torch_npu.npu_fused_causal_conv1d_v2(moved, weight.npu(), state, **named) is None
    assert_close(moved, y + x.double(), dtype, "x")
    assert_close(state, after, dtype, "states")
    on_meta = [t.to("meta") for t in (x, weight, states)]
    meta = torch_npu.npu_fused_causal_conv1d(*on_meta, query_start_loc=named["query_start_loc"].to("meta"))
    assert meta.shape == x.shape and meta.dtype == dtype


def test_refusals_of_states():
    x, weight, states = torch.randn(6, 4).npu(), torch.randn(3, 4).npu(), torch.randn(2, 2, 4).npu()
    starts = torch.tensor([0, 2, 6]).int().npu()
    op = torch_npu.npu_fused_causal_conv1d
    with pytest.raises(ValueError, match="query_start_loc is needed with an x of two dimensions"):
        op(x, weight, states)
    with pytest.raises(ValueError, match="conv_mode pangu needs num_computed_tokens"):
        op(x, weight, states, query_start_loc=starts, conv_mode="pangu")
    with pytest.raises(RuntimeError, match="cache_indices must have 2 in dimension 0, got 3"):
        op(x, weight, states, query_start_loc=starts, cache_indices=torch.zeros(3).int().npu())
    with pytest.raises(ValueError, match="go together"):
        op(x, weight, states, query_start_loc=starts, initial_state_idx=torch.zeros(2).int().npu())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bias", torch.ones(4)),
        ("activation", "silu"),
        ("initial_state_mode", torch.tensor([0, 2], dtype=torch.int32)),
    ],
)
def test_what_the_convolution_of_states_leaves_out_is_warned_of(name, value, capfd):
    """CANN's page has these fields as not supported: the result is the same with and without them."""
    x, weight, states = torch.randn(6, 4).npu(), torch.randn(3, 4).npu(), torch.randn(2, 2, 4).npu()
    starts = torch.tensor([0, 2, 6]).int().npu()
    op = torch_npu.npu_fused_causal_conv1d
    expected = op(x, weight, states.clone(), query_start_loc=starts)
    given = {name: value.npu() if isinstance(value, torch.Tensor) else value}
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        got = op(x, weight, states.clone(), query_start_loc=starts, **given)
    finally:
        torch.set_warn_always(always)
    assert f"npu_fused_causal_conv1d: {name} has no effect: CANN's page" in capfd.readouterr().err
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
