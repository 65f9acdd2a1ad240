"""Normalization of a sum, before an activation, and rotary embedding of two operands."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.npu_ops.compare import check
from tests.npu_ops.test_norm import rms_norm, rotary


def test_add_rms_norm_with_the_gradient_through_the_sum():
    def reference(x1, x2, gamma):
        x = x1 + x2
        return *rms_norm(x, gamma), x

    check(torch_npu.npu_add_rms_norm, reference, [torch.randn(3, 8), torch.randn(3, 8), torch.rand(8)])


def test_add_rms_norm_variants():
    x1, x2, gamma = torch.randn(3, 8), torch.randn(3, 8), torch.rand(8)

    def cast(x1, x2, gamma):
        y, rstd = rms_norm(x1 + x2, gamma)
        return y, y, rstd, x1 + x2

    check(torch_npu.npu_add_rms_norm_cast, cast, [x1, x2, gamma], gradient=False)
    a, b = x1.npu(), x2.npu()
    versions = a._version, b._version
    rstd = torch_npu.npu_add_rms_norm_v2(a, b, gamma.npu())
    assert a._version > versions[0] and b._version > versions[1]  # the schema says that it writes both
    y, expected = rms_norm(x1 + x2, gamma)
    torch.testing.assert_close(a.cpu(), y)
    torch.testing.assert_close(b.cpu(), x1 + x2)
    torch.testing.assert_close(rstd.cpu(), expected)

    def gemma(x, gamma):
        return rms_norm(x, 1 + gamma)

    check(torch_npu.npu_gemma_rms_norm, gemma, [x1, gamma], gradient=False)


@pytest.mark.parametrize("with_sum", [False, True])
def test_add_layer_norm(with_sum):
    def reference(x1, x2, gamma, beta, epsilon, additional_output):
        x = x1 + x2
        y = F.layer_norm(x, gamma.shape, gamma, beta, epsilon)
        return y, None, None, (x if additional_output else None)

    args = [torch.randn(3, 8), torch.randn(3, 8), torch.rand(8), torch.randn(8), 1e-5, with_sum]
    check(torch_npu.npu_add_layer_norm, reference, args)


def test_deep_norm():
    def reference(x, gx, beta, gamma, alpha):
        return None, None, F.layer_norm(x * alpha + gx, gamma.shape, gamma, beta, 1e-6)

    args = [torch.randn(3, 8), torch.randn(3, 8), torch.randn(8), torch.rand(8), 0.7]
    check(torch_npu.npu_deep_norm, reference, args)


@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_silu(affine):
    def reference(x, weight, bias, group, eps):
        return F.silu(F.group_norm(x, group, weight, bias, eps)), None, None

    parameters = [torch.rand(6), torch.randn(6)] if affine else [None, None]
    check(torch_npu.npu_group_norm_silu, reference, [torch.randn(2, 6, 5), *parameters, 3, 1e-5], gradient=False)


def test_group_norm_swish():
    def reference(x, num_groups, weight, bias, eps, swish_scale):
        z = F.group_norm(x, num_groups, weight, bias, eps)
        return z * torch.sigmoid(swish_scale * z), None, None

    def statistics(x, num_groups, *_, **__):
        groups = x.reshape(x.shape[0], num_groups, -1)
        return None, groups.mean(-1), (groups.var(-1, unbiased=False) + 1e-4).rsqrt()

    kwargs, args = {"eps": 1e-4, "swish_scale": 1.5}, [torch.randn(2, 6, 5), 3, torch.rand(6), torch.randn(6)]
    check(torch_npu.npu_group_norm_swish, reference, args, kwargs)
    check(torch_npu.npu_group_norm_swish, statistics, args, kwargs, gradient=False)
    half = [torch.ones(sizes).half().npu() for sizes in ((2, 6, 5), 6, 6)]
    assert {t.dtype for t in torch_npu.npu_group_norm_swish(half[0], 3, *half[1:])} == {torch.float16}


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_apply_rotary_pos_emb(mode):
    def reference(query, key, cos, sin, layout, rotary_mode):
        return rotary(query, cos, sin, rotary_mode), rotary(key, cos, sin, rotary_mode)

    args = [torch.randn(2, 5, 3, 8), torch.randn(2, 5, 1, 8), torch.randn(2, 5, 1, 8), torch.randn(2, 5, 1, 8)]
    check(torch_npu.npu_apply_rotary_pos_emb, reference, [*args, "BSND", mode])


def test_interleave_rope():
    args = [torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 8), torch.randn(2, 1, 5, 8)]
    check(torch_npu.npu_interleave_rope, lambda x, c, s: rotary(x, c, s, "interleave-half"), args)


def test_wrong_shapes():
    x = torch.randn(3, 8).npu()
    with pytest.raises(RuntimeError, match="npu_add_rms_norm: x1 and x2 must have the same sizes, they have"):
        torch_npu.npu_add_rms_norm(x, x[:2], torch.ones(8).npu())
    with pytest.raises(RuntimeError, match="6 channels are not divisible by 4 groups"):
        torch_npu.npu_group_norm_silu(torch.randn(2, 6, 5).npu(), None, None, 4)
    with pytest.raises(ValueError, match="layout is one of BSND"):
        torch_npu.npu_apply_rotary_pos_emb(x, x, x, x, "SNBD")
