"""The dropout family: a bit mask for each element, and byte masks."""

from __future__ import annotations

import pytest
import torch

import torch_npu


@pytest.mark.parametrize("count", [1000, 130, 0])
def test_bit_mask_dropout_and_its_gradient(count):
    torch.manual_seed(4)
    x = torch.rand(count).npu().add_(1).requires_grad_()
    out, mask = torch_npu._npu_dropout(x, 0.25)
    assert mask.dtype == torch.uint8 and mask.numel() == (count + 127) // 128 * 16
    bits = (mask.cpu().unsqueeze(1) >> torch.arange(8) & 1).flatten()[:count].bool()
    torch.testing.assert_close(out.detach().cpu(), torch.where(bits, x.detach().cpu() / 0.75, 0))
    out.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), bits / 0.75)
    if count > 100:
        assert 0.6 < bits.float().mean() < 0.9


def test_the_mask_is_drawn_from_seed_and_offset():
    x = torch.ones(300).npu()
    draw = lambda seed: torch_npu._npu_dropout_gen_mask(x, [300], 0.5, seed, 0)
    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), draw(4))
    out, mask = torch_npu.npu_dropout_do_mask(x, draw(3), 0.5)
    assert set(out.cpu().tolist()) == {0.0, 2.0} and torch.equal(mask, draw(3))


def test_byte_mask_dropout():
    x = torch.ones(400).npu().requires_grad_()
    out, mask = torch_npu._dropout_with_byte_mask(x, 0.5)
    assert mask.dtype == torch.uint8 and torch.equal(out, mask * 2.0)
    out.sum().backward()
    assert torch.equal(x.grad, mask * 2.0)
    assert torch.equal(torch_npu.dropout_with_byte_mask(x, 0.5, False), x)


def test_dropout_of_a_softmax_of_a_sum():
    a, b = torch.randn(3, 8).npu().requires_grad_(), torch.randn(3, 8).npu().requires_grad_()
    mask, softmax, out = torch_npu.npu_dropout_with_add_softmax(a, b, 0.5, 0.3, -1)
    torch.testing.assert_close(softmax, torch.softmax(b + a * 0.5, -1))
    torch.testing.assert_close(out, softmax * mask / 0.7)
    g = torch.randn(3, 8).npu()
    expected = torch.autograd.grad(out, (a, b), g)
    got = torch_npu.npu_dropout_with_add_softmax_backward(g, mask, softmax, 0.5, 0.3, -1)
    for x, y in zip(got, expected, strict=True):
        torch.testing.assert_close(x, y)


def test_wrong_masks_and_probabilities():
    x = torch.ones(300).npu()
    with pytest.raises(RuntimeError, match="probability has to be between 0 and 1, but got 2"):
        torch_npu._npu_dropout(x, 2.0)
    with pytest.raises(RuntimeError, match="has 8 bytes, 48 are needed"):
        torch_npu.npu_dropout_backward(x, torch.ones(8, dtype=torch.uint8).npu(), 0.5)
