"""Backward operators and old names that are compositions of PyTorch's operators."""

from __future__ import annotations

import pytest
import torch

import torch_npu


def assert_equal(got, expected):
    torch.testing.assert_close(
        got.cpu(), expected.cpu() if isinstance(expected, torch.Tensor) else expected, rtol=1e-4, atol=1e-5
    )


def gradients(f, *operands):
    leaves = [t.detach().clone().requires_grad_() for t in operands]
    out = f(*leaves)
    grad = torch.randn(out.shape, dtype=out.dtype)
    return grad, torch.autograd.grad(out, leaves, grad)


def test_products():
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    grad, expected = gradients(torch.matmul, a, b)
    assert_equal(torch_npu.npu_bmm_v2_mat1_backward(grad.npu(), a.npu(), b.npu(), a.shape), expected[0])
    assert_equal(torch_npu.npu_bmm_v2_mat2_backward(grad.npu(), a.npu(), b.npu(), b.shape), expected[1])
    a, b, dy = (t.requires_grad_() for t in (torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)))
    first = torch.autograd.grad(a @ b, (a, b), dy, create_graph=True)
    seeds = [torch.randn(t.shape) for t in first]
    second = torch.autograd.grad(first, (dy, a, b), seeds)
    got = torch_npu.matmul_double_backward(*(t.detach().npu() for t in (*seeds, dy, a, b)), [True, True, True])
    for g, e in zip(got, second, strict=True):
        assert_equal(g, e)


def test_convolutions():
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    grad, expected = gradients(lambda x, w, b: torch.conv2d(x, w, b, 1, 1, 2), x, w, torch.randn(4))
    args = [t.npu() for t in (grad, x, w)]
    got = torch_npu.slow_conv_dilated2d_backward(*args, [3, 3], [1, 1], [1, 1], [2, 2], [True] * 3)
    for g, e in zip(got, expected, strict=True):
        assert_equal(g, e)
    w = torch.randn(3, 4, 3, 3)
    grad, expected = gradients(lambda x, w, b: torch.conv_transpose2d(x, w, b, 2, 1, 1), x, w, torch.randn(4))
    args = [t.npu() for t in (grad, x, w)]
    got = torch_npu.slow_conv_transpose2d_backward(*args, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], [True] * 3)
    for g, e in zip(got, expected, strict=True):
        assert_equal(g, e)
    w = torch.randn(3, 1, 3, 3)
    grad, expected = gradients(lambda x, w: torch.conv2d(x, w, None, 1, 1, 1, 3), x, w)
    args = [t.npu() for t in (grad, x, w)]
    got = torch.ops.npu._conv_depthwise2d_backward(*args, [3, 3], [1, 1], [1, 1], [1, 1], [True, True])
    for g, e in zip(got, expected, strict=True):
        assert_equal(g, e)


def test_renorm():
    x = torch.randn(3, 4) * 3
    grad, (expected,) = gradients(lambda x: torch.renorm(x, 2, 0, 1.5), x)
    assert_equal(torch_npu.npu_renorm_backward(grad.npu(), x.npu(), 2, 0, 1.5), expected)


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_spectra(size, normalization):
    x = torch.randn(2, size)
    grad, (expected,) = gradients(lambda x: torch._fft_r2c(x, [1], normalization, True), x)
    assert_equal(torch_npu.fft_r2c_backward(grad.npu(), [1], normalization, True, size), expected)
    half = torch.randn(2, size // 2 + 1, dtype=torch.complex64)
    grad, (expected,) = gradients(lambda x: torch._fft_c2r(x, [1], normalization, size), half)
    assert_equal(torch_npu.fft_c2r_backward(grad.npu(), [1], normalization), expected)


def test_short_time_spectra():
    x, window = torch.randn(2, 40), torch.hann_window(8)
    f = lambda x: torch.stft(x, 8, 4, 8, window, center=False, return_complex=True)
    grad, (expected,) = gradients(f, x)
    got = torch_npu.stft_backward(grad.npu(), x.npu(), 8, 4, 8, window.npu(), False, None, True)
    assert_equal(got, expected)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_repeats(dim):
    x = torch.randn(3, 2)
    repeats = torch.tensor([2, 0, 1]) if dim == 0 else torch.tensor([1, 3]) if dim == 1 else torch.tensor([2])
    grad, (expected,) = gradients(lambda x: torch.repeat_interleave(x, repeats, dim), x)
    assert_equal(torch_npu.repeat_interleave_backward_tensor(grad.npu(), x.npu(), repeats.npu(), dim), expected)


def test_layer_norm():
    x, w, b = torch.randn(3, 8), torch.randn(8), torch.randn(8)
    grad, expected = gradients(lambda x, w, b: torch.layer_norm(x, [8], w, b), x, w, b)
    _, mean, rstd = torch.native_layer_norm(x, [8], w, b, 1e-5)
    got = torch_npu.npu_layernorm_grad(*(t.npu() for t in (grad, x)), [8], *(t.npu() for t in (mean, rstd, w, b)))
    for g, e in zip(got, expected, strict=True):
        assert_equal(g, e)


def test_softmax_times_values():
    logits, values = torch.randn(2, 3, 5), torch.randn(2, 5, 4)
    grad, (expected,) = gradients(lambda x: x.softmax(-1) @ values, logits)
    ours = logits.npu()
    torch_npu.npu_attn_softmax_(ours)
    torch_npu.npu_attn_softmax_backward_(ours, grad.npu(), values.npu())
    assert_equal(ours, expected)


def test_norm_of_a_sum_on_copies():
    a, b, gamma = torch.randn(3, 8), torch.randn(3, 8), torch.randn(8)
    rstd, y, x = torch_npu.npu_add_rms_norm_v2_functional(a.npu(), b.npu(), gamma.npu())
    scale = (x.cpu().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    assert_equal(x, a + b)
    assert_equal(rstd, scale)
    assert_equal(y, (a + b) * scale * gamma)


def test_statistics_of_all_ranks():
    x, y = torch.randn(2, 3, 2), torch.randn(4, 3, 2) + 1  # of one rank and of the other
    parts = [torch_npu.batch_norm_reduce(t.npu(), 1e-5) for t in (x, y)]
    sums, squares = (torch.stack(list(each)) for each in zip(*parts, strict=True))
    counts, running = torch.tensor([4.0, 8.0]), [torch.zeros(3), torch.ones(3)]
    ours = [t.npu() for t in running]
    got = torch_npu.batch_norm_gather_stats_update(x.npu(), sums, squares, *ours, 0.1, 1e-5, counts.npu())
    everything = torch.cat([x, y]).transpose(0, 1).flatten(1)
    assert_equal(got[0], everything.mean(1))
    assert_equal(got[1], (everything.var(1, correction=0) + 1e-5).rsqrt())
    assert_equal(ours[0], 0.1 * everything.mean(1))
    assert_equal(ours[1], 0.9 + 0.1 * everything.var(1))


def test_exponential_draws_differ_and_have_their_mean():
    torch.manual_seed(3)
    x = torch.empty(4000).npu()
    torch_npu.npu_sim_exponential_(x, 2.0)
    assert abs(x.mean().item() - 0.5) < 0.05 and x.min().item() >= 0


def test_quantization_into_a_result():
    x, scale, zero = torch.randn(3, 4) * 9, torch.tensor([0.5, 1.0, 2.0, 4.0]), torch.tensor([1, 2, 3, 4])
    out = torch.empty(3, 4, dtype=torch.int8).npu()
    torch.ops.npu._quantize_per_channel_impl.out(x.npu(), scale.npu(), zero.npu(), 1, torch.qint8, result=out)
    assert torch.equal(out.cpu(), (torch.round(x / scale) + zero).clamp(-128, 127).to(torch.int8))
    torch.ops.npu._quantize_per_tensor_impl.out(x.npu(), scale[:1].npu(), zero[:1].npu(), torch.qint8, result=out)
    assert torch.equal(out.cpu(), (torch.round(x / 0.5) + 1).clamp(-128, 127).to(torch.int8))


def test_elements_by_begin_end_and_stride():
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    index = lambda *args: torch_npu.npu_indexing(x.npu(), *args).cpu()
    assert torch.equal(index([0, 1, 0, 1], [2, 3, 4, 5], [1, 1, 2, 2]), x[0:2, 1:3, 0:4:2, 1:5:2])
    assert torch.equal(index([1, 1], [2, 2], [1, 1], 0b10, 0b01), x[1:, :2])
    assert torch.equal(index([1, 0, 2], [2, 0, 3], [1, 1, 1], 0, 0, 0b010), x[1:2, ..., 2:3])
    assert torch.equal(index([0, 1], [0, 2], [1, 1], 0, 0, 0, 0b01), x[None, 1:2])
    assert torch.equal(index([1, 0], [2, 2], [1, 1], 0, 0, 0, 0, 0b01), x[1, 0:2])
    out = torch.empty(0).npu()
    torch.ops.npu.npu_indexing.out(x.npu(), [0], [1], [1], out=out)
    assert torch.equal(out.cpu(), x[:1])


def test_bits_of_signs():
    """The values of the documentation's example."""
    x = torch.tensor([5, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2], dtype=torch.float32).npu()
    packed = torch_npu.npu_sign_bits_pack(x, 2)
    assert packed.cpu().tolist() == [[159], [15]] and packed.dtype == torch.uint8
    back = torch_npu.npu_sign_bits_unpack(packed.flatten(), 2, torch.float16)
    assert back.cpu().tolist() == [[1, 1, 1, 1, 1, -1, -1, 1], [1, 1, 1, 1, -1, -1, -1, -1]]


def test_a_hint():
    torch_npu.npu_prefetch(torch.ones(4).npu(), None, 16)
    with pytest.raises(ValueError, match="max_size is 0"):
        torch_npu.npu_prefetch(torch.ones(4).npu(), None, 0)


def test_the_gradient_of_a_renorm_has_a_gradient():
    torch.manual_seed(2)
    grad, x = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64) * 3
    op = lambda g, t: torch_npu.npu_renorm_backward(g, t, 2, 0, 1.0)
    assert torch.autograd.gradcheck(op, [t.npu().requires_grad_() for t in (grad, x)], atol=1e-4, rtol=1e-3)


def test_a_second_gradient_that_is_not_there_is_refused():
    a, b, g = (torch.randn(2, 2).npu().requires_grad_() for _ in range(3))
    with pytest.raises(NotImplementedError, match="derivative for npu::matmul_double_backward is not implemented"):
        torch.ops.npu.matmul_double_backward(a, b, g, a, b, [True, True, True])


def test_autocast_leaves_gradients_alone():
    a, b, g = torch.randn(2, 3, 4).npu(), torch.randn(2, 4, 5).npu(), torch.randn(2, 3, 5).npu()
    calls = [
        lambda: torch_npu.npu_bmm_v2_mat1_backward(g, a, b, [2, 3, 4]),
        lambda: torch_npu.npu_bmm_v2_mat2_backward(g, a, b, [2, 4, 5]),
        lambda: torch_npu.npu_attn_softmax_backward_(a.clone(), g, b),
        lambda: torch_npu.npu_linear_backward(g[0], torch.randn(3, 4).npu() * 0 + 1, b[0].t())[0],
    ]
    for call in calls:
        expected = call()
        with torch.autocast("npu", torch.float16):
            got = call()
        assert got.dtype == torch.float32 and torch.equal(got.cpu(), expected.cpu())


def test_gradients_in_inference_mode():
    """They are differentiated inside, where that mode is off."""
    x, boxes, seeds = torch.randn(2, 40), torch.rand(4, 3), [torch.randn(3, 4), torch.randn(4, 5)]
    window, spectrum = torch.hann_window(8), torch.randn(2, 5, 9, dtype=torch.complex64)
    calls = [
        lambda to: torch_npu.npu_renorm_backward(to(torch.ones(2, 40)), to(x), 2.0, 0, 1.0),
        lambda to: torch_npu.npu_giou_backward(to(torch.ones(3, 1)), to(boxes), to(boxes + 0.1), True)[0],
        lambda to: torch_npu.stft_backward(to(spectrum), to(x), 8, 4, 8, to(window), False, True, True),
        lambda to: torch_npu.matmul_double_backward(
            *map(to, seeds), to(torch.ones(3, 5)), to(seeds[0]), to(seeds[1]), [True] * 3
        )[0],
    ]
    for call in calls:
        expected = call(lambda t: t.npu())
        with torch.inference_mode():
            assert_equal(call(lambda t: t.npu()), expected)
