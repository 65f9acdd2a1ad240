"""aclnnFlashAttentionScore and its family against attention written out: layouts, masks, dropout, gradients."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand

BATCH, HEADS, N, M, D = 2, 4, 6, 9, 8
FAR = 2147483647


def reference(q, k, v, scale, *, shift=None, hidden=None, weights=None, sink=None):
    """[batch, heads, rows, columns]; returns the output, and the maximum and sum of each row."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q @ k.transpose(2, 3) + (0 if shift is None else shift)) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    most = scores.amax(3, keepdim=True)
    if sink is not None:
        most = torch.maximum(most, sink.view(1, -1, 1, 1))
    p = (scores - most).exp()
    total = p.sum(3, keepdim=True) + (0 if sink is None else (sink.view(1, -1, 1, 1) - most).exp())
    p = p / total
    return (p if weights is None else p * weights) @ v, most, total


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """From [batch, heads, rows, columns]."""
    if layout == "BNSD":
        return x.contiguous()
    if layout == "BSND":
        return x.transpose(1, 2).contiguous()
    rows = x.permute(2, 0, 1, 3) if layout == "SBH" else x.transpose(1, 2)
    return rows.flatten(2).contiguous()


def operands(kv_heads: int = HEADS, batch: int = BATCH):
    return rand(batch, HEADS, N, D), rand(batch, kv_heads, M, D, seed=1), rand(batch, kv_heads, M, D, seed=2)


def eight(x: torch.Tensor) -> torch.Tensor:
    return x.detach().expand(*x.shape[:-1], 8).contiguous()


def common(layout: str, **more) -> dict:
    return {"scaleValue": 0.35, "keepProb": 1.0, "preTokens": FAR, "nextTokens": FAR, "headNum": HEADS,
            "inputLayout": layout, **more}  # fmt: skip


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize("layout", ["BSH", "SBH", "BNSD", "BSND"])
def test_layouts_forward_and_backward(npu, layout, kv_heads):
    q, k, v = (x.requires_grad_() for x in operands(kv_heads))
    out, most, total = reference(q, k, v, 0.35)
    dy = rand(*out.shape, seed=3)
    grads = torch.autograd.grad(out, (q, k, v), dy)
    inputs = {"query": q, "key": k, "value": v}
    inputs = {name: laid_out(x.detach(), layout) for name, x in inputs.items()}
    expected = {"attentionOutOut": laid_out(out.detach(), layout)}
    expected |= {"softmaxMaxOut": eight(most), "softmaxSumOut": eight(total)}
    compare(npu, "aclnnFlashAttentionScore", inputs | common(layout), expected, rtol=1e-4, atol=1e-5)
    inputs = {"query": inputs["query"], "keyIn": inputs["key"], "value": inputs["value"], "dy": laid_out(dy, layout)}
    expected = dict(zip(("dqOut", "dkOut", "dvOut"), (laid_out(g, layout) for g in grads), strict=True))
    compare(npu, "aclnnFlashAttentionScoreGradV4", inputs | common(layout, pseType=1), expected, rtol=1e-4, atol=1e-5)


CAUSAL_LEFT = torch.ones(N, M, dtype=torch.bool).triu(1)
CAUSAL_RIGHT = torch.ones(N, M, dtype=torch.bool).triu(1 + M - N)
DISTANCE = torch.arange(M)[None] - torch.arange(N)[:, None]


@pytest.mark.parametrize("sparse, mask, hidden, more", [
    (0, CAUSAL_LEFT, CAUSAL_LEFT, {}),
    (1, rand(BATCH, 1, N, M) > 0.8, rand(BATCH, 1, N, M) > 0.8, {}),
    (0, torch.zeros(N, M, dtype=torch.bool), (DISTANCE > 1) | (DISTANCE < -2), {"preTokens": 2, "nextTokens": 1}),
    (2, torch.ones(2048, 2048, dtype=torch.bool).triu(1), CAUSAL_LEFT, {}),
    (3, torch.ones(2048, 2048, dtype=torch.bool).triu(1), CAUSAL_RIGHT, {}),
    (4, torch.ones(2048, 2048, dtype=torch.bool).triu(1), (DISTANCE - 3 > 0) | (DISTANCE - 3 < -2),
     {"preTokens": 2, "nextTokens": 0}),
])  # fmt: skip
def test_masks(npu, sparse, mask, hidden, more):
    q, k, v = operands()
    out, _, _ = reference(q, k, v, 0.35, hidden=hidden)
    inputs = {"query": q, "key": k, "value": v, "attenMaskOptional": mask, "sparseMode": sparse}
    found = common("BNSD") | more | inputs
    compare(npu, "aclnnFlashAttentionScoreV4", found | {"pseType": 1}, {"attentionOutOut": out}, rtol=1e-4, atol=1e-5)


def test_a_row_that_sees_nothing_is_zero(npu):
    q, k, v = operands()
    hidden = torch.zeros(N, M, dtype=torch.bool)
    hidden[2] = True
    found = {"query": q, "key": k, "value": v, "attenMaskOptional": hidden, "sparseMode": 1} | common("BNSD")
    out = reference(q, k, v, 0.35, hidden=hidden)[0].nan_to_num(0)
    compare(npu, "aclnnFlashAttentionScore", found, {"attentionOutOut": out}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", range(1, 17))
@pytest.mark.parametrize("more", [0, 32])  # the vendor's plugin leaves room behind the mask
def test_dropout_takes_the_bits_that_dropout_gen_mask_makes(npu, batch, more):
    q, k, v = (x.requires_grad_() for x in operands(batch=batch))
    count = batch * HEADS * N * M
    bits = torch.full(((count + 127) // 128 * 16 + more,), 77, dtype=torch.uint8)
    bits = npu.call("aclnnDropoutGenMask", shape=[count], prob=0.2, seed=batch, offset=0, out=bits)["out"]
    kept = ((bits[:, None] >> torch.arange(8)) & 1).flatten()[:count].view(batch, HEADS, N, M) / 0.8
    out, _, _ = reference(q, k, v, 0.35, weights=kept)
    dy = rand(*out.shape, seed=3)
    grads = torch.autograd.grad(out, (q, k, v), dy)
    more = common("BNSD") | {"keepProb": 0.8, "dropMaskOptional": bits}
    inputs = {"query": q.detach(), "key": k.detach(), "value": v.detach()}
    compare(npu, "aclnnFlashAttentionScore", inputs | more, {"attentionOutOut": out.detach()}, rtol=1e-4, atol=1e-5)
    inputs = {"query": q.detach(), "keyIn": k.detach(), "value": v.detach(), "dy": dy}
    expected = dict(zip(("dqOut", "dkOut", "dvOut"), grads, strict=True))
    compare(npu, "aclnnFlashAttentionScoreGrad", inputs | more, expected, rtol=1e-4, atol=1e-5)


def test_shift_and_sink_have_gradients(npu):
    q, k, v = (x.requires_grad_() for x in operands())
    shift, sink = rand(BATCH, HEADS, N, M, seed=4).requires_grad_(), rand(HEADS, seed=5).requires_grad_()
    out, _, _ = reference(q, k, v, 0.35, shift=shift, sink=sink)
    dy = rand(*out.shape, seed=3)
    grads = torch.autograd.grad(out, (q, k, v, shift, sink), dy)
    more = common("BNSD", pseType=1) | {"sinkInOptional": sink.detach(), "pseShiftOptional": shift.detach()}
    inputs = {"query": q.detach(), "keyIn": k.detach(), "value": v.detach(), "dy": dy}
    expected = dict(zip(("dqOut", "dkOut", "dvOut", "dpseOut", "dsinkOut"), grads, strict=True))
    compare(npu, "aclnnFlashAttentionScoreGradV3", inputs | more, expected, rtol=1e-4, atol=1e-5)


def test_packed_sequences(npu):
    """Two sequences after each other in the layout TND: each attends to itself, causally."""
    q_ends, kv_ends = [4, 10], [5, 12]
    q, k, v = rand(10, HEADS, D), rand(12, HEADS, D, seed=1), rand(12, HEADS, D, seed=2)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    outs, most = [], []
    for a, b, c, d in ((0, 4, 0, 5), (4, 10, 5, 12)):
        parts = (x.transpose(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d]))
        hidden = torch.ones(b - a, d - c, dtype=torch.bool).triu(1 + (d - c) - (b - a))
        out, maximum, _ = reference(*parts, 0.35, hidden=hidden)
        outs.append(out[0].transpose(0, 1))
        most.append(maximum[0].transpose(0, 1))
    out = torch.cat(outs)
    dy = rand(*out.shape, seed=3)
    grads = torch.autograd.grad(out, (q, k, v), dy)
    more = common("TND", sparseMode=3) | {"actualSeqQLenOptional": q_ends, "actualSeqKvLenOptional": kv_ends}
    more |= {"attenMaskOptional": torch.ones(2048, 2048, dtype=torch.bool).triu(1)}
    inputs = {"query": q.detach(), "key": k.detach(), "value": v.detach()}
    expected = {"attentionOutOut": out.detach(), "softmaxMaxOut": eight(torch.cat(most))}
    compare(npu, "aclnnFlashAttentionVarLenScore", inputs | more, expected, rtol=1e-4, atol=1e-5)
    inputs = {"query": q.detach(), "keyIn": k.detach(), "value": v.detach(), "dy": dy}
    expected = dict(zip(("dqOut", "dkOut", "dvOut"), grads, strict=True))
    compare(npu, "aclnnFlashAttentionUnpaddingScoreGrad", inputs | more, expected, rtol=1e-4, atol=1e-5)
