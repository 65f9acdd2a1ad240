"""npu_fusion_attention on more than one block of softnpu/ops/attention_blocks.h, against formulas in float64."""

import pytest
import torch

import torch_npu
from tests.npu_ops.test_attention import FAR, band, plain

B, N, S, K, D = 2, 4, 301, 517, 16


def operands(kv_heads=N, dtype=torch.float32):
    torch.manual_seed(11)
    q, k, v, dy = (torch.randn(B, n, s, D) for n, s in [(N, S), (kv_heads, K), (kv_heads, K), (N, S)])
    return [t.to(dtype) for t in (q, k, v, dy)]


def gradients(function, q, k, v, dy, *more):
    leaves = [t.detach().requires_grad_() for t in (q, k, v, *more)]
    out = function(*leaves)
    return [out, *torch.autograd.grad(out, leaves, dy)]


def check(on_npu, reference, *more, kv_heads=N, dtype=torch.float32, tolerance=1e-5):
    q, k, v, dy = operands(kv_heads, dtype)
    got = gradients(on_npu, *(t.npu() for t in (q, k, v, dy, *more)))
    wanted = gradients(reference, *(t.double() for t in (q, k, v, dy, *more)))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=tolerance, atol=tolerance * b.abs().max().item())


def attention(*args, **kwargs):
    return torch_npu.npu_fusion_attention_v2(*args, N, "BNSD", scale=0.25, **kwargs)[0]


HIDDEN = torch.rand(S, K, generator=torch.Generator().manual_seed(1)) < 0.4
TRIANGLE = torch.ones(2048, 2048).triu(1).bool()
PREFIX = [100, 450]
MODES = {
    "all": ({}, None),
    "mask": ({"atten_mask": HIDDEN}, HIDDEN),
    "band": (
        {"atten_mask": torch.zeros(S, K, dtype=torch.bool), "pre_tokens": 40, "next_tokens": 9}, band(S, K, 40, 9, 0),
    ),
    "causal": ({"atten_mask": TRIANGLE, "sparse_mode": 2}, band(S, K, FAR, 0, 0)),
    "causal from below": ({"atten_mask": TRIANGLE, "sparse_mode": 3}, band(S, K, FAR, 0, K - S)),
    "band from below": (
        {"atten_mask": TRIANGLE, "sparse_mode": 4, "pre_tokens": 20, "next_tokens": -3}, band(S, K, 20, -3, K - S),
    ),
    "prefix": (
        {"atten_mask": TRIANGLE, "sparse_mode": 6, "prefix": PREFIX},
        band(S, K, FAR, 0, K - S) & (torch.arange(K) >= torch.tensor(PREFIX).view(B, 1, 1, 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kv_heads", [N, 2, 1])
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode, kv_heads):
    kwargs, hidden = MODES[mode]
    kwargs = {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in kwargs.items()}
    check(
        lambda q, k, v: attention(q, k, v, **kwargs),
        lambda q, k, v: plain(q, k, v, 0.25, hidden=hidden),
        kv_heads=kv_heads,
    )


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_half_precision(dtype, tolerance):
    check(
        lambda q, k, v: attention(q, k, v, atten_mask=TRIANGLE.npu(), sparse_mode=2),
        lambda q, k, v: plain(q, k, v, 0.25, hidden=band(S, K, FAR, 0, 0)),
        dtype=dtype,
        tolerance=tolerance,
    )


@pytest.mark.parametrize(
    "sizes",
    [(S, K), (N, S, K), (1, S, K), (B, N, S, K), (1, N, S, K), (B, 1, S, K), (1, 1, S, K), (B, N, 1, K)],
)
@pytest.mark.parametrize("pse_type", [0, 1])
def test_a_bias_of_any_shape_has_its_gradient(sizes, pse_type):
    check(
        lambda q, k, v, pse: attention(q, k, v, pse=pse, pse_type=pse_type),
        lambda q, k, v, pse: plain(q, k, v, 0.25, bias=pse, before_scale=pse_type == 1),
        torch.randn(sizes),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("sizes", [(N,), (B, N), (1, N)])
@pytest.mark.parametrize("pse_type", [2, 3])
def test_slopes_have_their_gradient(sizes, pse_type):
    distance = (torch.arange(K)[None, :] - torch.arange(S)[:, None]).abs().double()
    distance = distance.sqrt() if pse_type == 3 else distance
    check(
        lambda q, k, v, pse: attention(q, k, v, pse=pse, pse_type=pse_type),
        lambda q, k, v, pse: plain(q, k, v, 0.25, bias=-distance * pse[..., None, None], before_scale=False),
        torch.rand(sizes) * 0.02,
        tolerance=1e-4,
    )


def test_a_sink_and_its_gradient():
    def reference(q, k, v, sink):
        scores = torch.cat([q @ k.transpose(-1, -2) * 0.25, sink.view(1, N, 1, 1).expand(B, N, S, 1)], -1)
        return torch.softmax(scores, -1)[..., :-1] @ v

    check(lambda q, k, v, sink: attention(q, k, v, sink=sink), reference, torch.randn(N), tolerance=1e-4)


def test_a_ring_has_a_part_of_the_keys_each():
    """The gradient takes maximum, sum and result from the caller: parts of the keys add up to the whole."""
    q, k, v, dy = (t.npu() for t in operands())
    out, highest, total, *_ = torch_npu.npu_fusion_attention(q, k, v, N, "BNSD", scale=0.25)
    whole = torch_npu.npu_fusion_attention_grad(
        q, k, v, dy, N, "BNSD", softmax_max=highest, softmax_sum=total, attention_in=out, scale_value=0.25
    )
    parts = [
        torch_npu.npu_fusion_attention_grad(
            q, k_part.contiguous(), v_part.contiguous(), dy, N, "BNSD",
            softmax_max=highest, softmax_sum=total, attention_in=out, scale_value=0.25,
        )
        for k_part, v_part in zip(k.split(200, 2), v.split(200, 2), strict=True)
    ]  # fmt: skip
    torch.testing.assert_close(sum(p[0] for p in parts), whole[0], rtol=1e-4, atol=1e-5)
    for i in (1, 2):
        torch.testing.assert_close(torch.cat([p[i] for p in parts], 2), whole[i], rtol=1e-4, atol=1e-5)


def test_the_number_of_threads_changes_no_bit():
    q, k, v, dy = (t.npu() for t in operands(2))
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(gradients(lambda *x: attention(*x, atten_mask=TRIANGLE.npu(), sparse_mode=2), q, k, v, dy))
            torch.npu.synchronize()
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_dropout_in_blocks():
    """Equal scores, and values of one column each: the result says which weights were dropped, in both passes."""
    n = 300
    q = torch.zeros(1, 2, n, 8).npu()
    v = torch.eye(n).expand(1, 2, n, n).contiguous().npu().requires_grad_()
    torch.npu.manual_seed(4)
    out = torch_npu.npu_fusion_attention(q, q, v, 2, "BNSD", keep_prob=0.75)[0]
    kept = out.detach().cpu()
    assert set((kept * n * 0.75).round().unique().tolist()) == {0.0, 1.0}
    assert 0.72 < (kept != 0).float().mean() < 0.78
    assert not torch.equal(kept[0, 0] != 0, kept[0, 1] != 0)
    out.sum().backward()
    torch.testing.assert_close(v.grad.cpu(), kept.transpose(-1, -2).sum(-1, keepdim=True).expand(1, 2, n, n))


def test_a_half_gradient_is_not_taken_from_the_rounded_result():
    """Of large values the mean in bfloat16 is off by more than the differences that the gradient is made of."""
    q, k, v, dy = operands(dtype=torch.bfloat16)
    v = (v * 0.01 + 8).bfloat16()
    got = gradients(attention, *(t.npu() for t in (q, k, v, dy)))
    wanted = gradients(lambda *x: plain(*x, 0.25), *(t.double() for t in (q, k, v, dy)))
    for a, b in zip(got[1:3], wanted[1:3], strict=True):
        assert (a.cpu().double() - b).abs().max() < 0.02 * b.abs().max()
