"""Activations, plain and gated, and scaled softmax."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.npu_ops.compare import check


def fast_gelu(x):
    return x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs()))


@pytest.mark.parametrize(
    "name, reference",
    [
        ("npu_fast_gelu", fast_gelu),
        ("fast_gelu", fast_gelu),
        ("npu_mish", F.mish),
        ("npu_silu", F.silu),
        ("npu_gelu", F.gelu),
    ],
)
@pytest.mark.parametrize("sizes", [(4, 6), (3,), (), (0, 3)])
def test_activation(name, reference, sizes):
    torch.manual_seed(1)
    check(getattr(torch_npu, name), reference, [torch.randn(sizes) * 3])


def test_gelu_by_tanh():
    check(torch_npu.npu_gelu, F.gelu, [torch.randn(4, 6)], {"approximate": "tanh"})
    with pytest.raises(ValueError, match="approximate is none or tanh, not sigmoid"):
        torch_npu.npu_gelu(torch.randn(2).npu(), approximate="sigmoid")


def test_silu_in_place():
    x = torch.randn(4)
    on = x.npu()
    assert torch_npu.npu_silu_(on) is on
    torch.testing.assert_close(on.cpu(), F.silu(x))


@pytest.mark.parametrize("dim, approximate, left", [(-1, 1, False), (0, 0, True), (1, 0, False)])
def test_geglu(dim, approximate, left):
    def reference(x, dim, approximate, activate_left):
        a, b = x.chunk(2, dim)
        a, b = (b, a) if activate_left else (a, b)
        gelu = F.gelu(b, approximate="tanh" if approximate else "none")
        return a * gelu, gelu.detach()

    kwargs = {"dim": dim, "approximate": approximate, "activate_left": left}
    check(torch_npu.npu_geglu, reference, [torch.randn(4, 6, 8)], kwargs)


def test_gelu_mul():
    def reference(x):
        a, b = x.chunk(2, -1)
        return F.gelu(a) * b

    check(torch_npu.npu_gelu_mul, reference, [torch.randn(3, 8)], gradient=False)


def test_clipped_swiglu():
    def reference(x, interleaved, **_):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        a, b = a.clamp(max=7.0), b.clamp(-7.0, 7.0)
        return a * torch.sigmoid(1.702 * a) * (b + 1)

    for interleaved in (True, False):
        check(
            torch_npu.npu_clipped_swiglu,
            reference,
            [torch.randn(5, 8) * 6],
            {"interleaved": interleaved},
            gradient=False,
        )


@pytest.mark.parametrize("triangle", [False, True])
def test_scaled_masked_softmax(triangle):
    def reference(x, mask, scale, fixed_triu_mask):
        hidden = torch.ones(x.shape[-2:]).triu(1).bool() if fixed_triu_mask else mask
        return torch.softmax((x * scale).masked_fill(hidden, -10000.0), -1)

    mask = torch.rand(2, 1, 4, 4) < 0.3
    kwargs = {"scale": 0.5, "fixed_triu_mask": triangle}
    check(torch_npu.npu_scaled_masked_softmax, reference, [torch.randn(2, 3, 4, 4), mask], kwargs)
