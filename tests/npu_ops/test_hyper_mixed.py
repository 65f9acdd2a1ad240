"""Hyper connections behind a layer: streams of residuals and its result."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import check


def reference(x, h_res, h_out, h_post):
    kept = x if h_res is None else torch.einsum("...ij,...id->...jd", h_res, x)
    return kept + h_post.unsqueeze(-1) * h_out.unsqueeze(-2)


def operands(*outer: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(*outer, 4, 6), torch.randn(*outer, 4, 4), torch.randn(*outer, 6), torch.randn(*outer, 4)]


@pytest.mark.parametrize("outer", [(3,), (2, 3)])
def test_streams_and_their_gradients(outer):
    check(torch_npu.npu_mhc_post, reference, operands(*outer))
    x, _, h_out, h_post = operands(*outer)
    check(torch_npu.npu_mhc_post, reference, [x, None, h_out, h_post])


def test_the_operator_of_the_gradients():
    leaves = [t.double().requires_grad_() for t in operands(2, 3)]
    grad = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    expected = torch.autograd.grad(reference(*leaves), leaves, grad)
    got = torch_npu.npu_mhc_post_backward(*(t.detach().npu() for t in (grad, *leaves)))
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)
    assert torch.autograd.gradcheck(torch_npu.npu_mhc_post, [t.detach().npu().requires_grad_() for t in leaves])


def test_types():
    x, h_res, h_out, h_post = (t.npu() for t in operands(3))
    with torch.autocast("npu", torch.float16):
        out = torch_npu.npu_mhc_post(x.half(), h_res, h_out.half(), h_post)
    expected = reference(x.half().float(), h_res, h_out.half().float(), h_post).half()
    assert out.dtype == torch.float16
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(RuntimeError, match="h_post must have 4 in dimension 1, got 3"):
        torch_npu.npu_mhc_post(x, h_res, h_out, h_post[:, :3])
