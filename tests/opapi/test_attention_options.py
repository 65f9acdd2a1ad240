"""What only some versions of aclnnFlashAttentionScore take: rope columns, prefixes, shifts made from slopes, sinks."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand
from tests.opapi.client import AclError
from tests.opapi.test_attention import BATCH, CAUSAL_RIGHT, HEADS, M, N, common, eight, operands, reference

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def leaves(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.clone().requires_grad_() for t in tensors]


def check(npu, versions, more, result, wanted, grads) -> None:
    """The forward versions against `result`, the backward ones against the gradients by output name."""
    (forward, backward), (q, k, v, dy) = versions, wanted
    out, most, total = (t.detach() for t in result)
    expected = {"attentionOutOut": out, "softmaxMaxOut": eight(most), "softmaxSumOut": eight(total)}
    for op in forward:
        renamed = {"pseShiftOptional": "realShiftOptional", "sinkInOptional": "sinkOptional"}
        inputs = {"query": q, "key": k, "value": v} | {renamed.get(name, name): x for name, x in more.items()}
        compare(npu, "aclnn" + op, inputs, expected, **CLOSE)
    for op in backward:
        compare(npu, "aclnn" + op, {"query": q, "keyIn": k, "value": v, "dy": dy} | more, grads, **CLOSE)


@pytest.mark.parametrize("sparse", [5, 6])
def test_a_prefix_is_seen_by_every_query(npu, sparse):
    q, k, v = leaves(*operands())
    prefix = [4, 6]
    hidden = torch.stack([CAUSAL_RIGHT & (torch.arange(M) >= p) for p in prefix])[:, None]
    result = reference(q, k, v, 0.35, hidden=hidden)
    dy = rand(*result[0].shape, seed=3)
    grads = dict(zip(("dqOut", "dkOut", "dvOut"), torch.autograd.grad(result[0], (q, k, v), dy), strict=True))
    # Mode 5 gives the whole mask, mode 6 a fixed one that stands for it.
    mask = hidden.expand(BATCH, 1, N, M).contiguous() if sparse == 5 else torch.ones(3072, 2048, dtype=torch.bool)
    more = common("BNSD", attenMaskOptional=mask, prefixOptional=prefix, sparseMode=sparse, pseType=1)
    versions = ("FlashAttentionScoreV2", "FlashAttentionScoreV3"), ("FlashAttentionScoreGradV2",)
    check(npu, versions, more, result, [t.detach() for t in (q, k, v)] + [dy], grads)


@pytest.mark.parametrize("kind", [2, 3])
@pytest.mark.parametrize("slopes_of_each_sequence", [False, True])
def test_slopes_make_the_shift_from_the_distance(npu, kind, slopes_of_each_sequence):
    """Added after the scale: minus the slope times the distance (2), or times its square root (3)."""
    q, k, v = leaves(*operands())
    slopes = rand(BATCH, HEADS, seed=7).abs() if slopes_of_each_sequence else rand(HEADS, seed=7).abs()
    distance = ((torch.arange(M) + 2)[None] - (torch.arange(N) + 5)[:, None]).abs().float()
    shift = -slopes.view(-1, HEADS, 1, 1) * (distance if kind == 2 else distance.sqrt())
    result = reference(q, k, v, 0.35, shift=shift / 0.35)
    dy = rand(*result[0].shape, seed=3)
    grads = dict(zip(("dqOut", "dkOut", "dvOut"), torch.autograd.grad(result[0], (q, k, v), dy), strict=True))
    more = common("BNSD", pseShiftOptional=slopes, pseType=kind, qStartIdxOptional=[5], kvStartIdxOptional=[2])
    versions = ("FlashAttentionScoreV2", "FlashAttentionScoreV3"), ("FlashAttentionScoreGradV2",)
    check(npu, versions, more, result, [t.detach() for t in (q, k, v)] + [dy], grads)


def test_a_shift_may_be_added_after_the_scale(npu):
    q, k, v = leaves(*operands())
    shift = rand(BATCH, HEADS, N, M, seed=4).requires_grad_()
    result = reference(q, k, v, 0.35, shift=shift / 0.35)
    dy = rand(*result[0].shape, seed=3)
    names = ("dqOut", "dkOut", "dvOut", "dpseOut")
    grads = dict(zip(names, torch.autograd.grad(result[0], (q, k, v, shift), dy), strict=True))
    more = common("BNSD", pseShiftOptional=shift.detach(), pseType=0)
    versions = ("FlashAttentionScoreV2", "FlashAttentionScoreV3"), ("FlashAttentionScoreGradV2",)
    check(npu, versions, more, result, [t.detach() for t in (q, k, v)] + [dy], grads)


def test_rope_columns_join_query_and_key(npu):
    q, k, v = leaves(*operands())
    q_rope, k_rope = leaves(rand(BATCH, HEADS, N, 3, seed=8), rand(BATCH, HEADS, M, 3, seed=9))
    sink = rand(HEADS, seed=5).requires_grad_()
    result = reference(torch.cat((q, q_rope), 3), torch.cat((k, k_rope), 3), v, 0.35, sink=sink)
    dy = rand(*result[0].shape, seed=3)
    names = ("dqOut", "dkOut", "dvOut", "dqRopeOut", "dkRopeOut", "dsinkOut")
    grads = dict(zip(names, torch.autograd.grad(result[0], (q, k, v, q_rope, k_rope, sink), dy), strict=True))
    more = common("BNSD", queryRopeOptional=q_rope.detach(), keyRopeOptional=k_rope.detach(),
                  sinkInOptional=sink.detach(), pseType=1)  # fmt: skip
    versions = ("FlashAttentionScoreV4",), ("FlashAttentionScoreGradV4",)
    check(npu, versions, more, result, [t.detach() for t in (q, k, v)] + [dy], grads)


@pytest.mark.parametrize("layout, shape, words", [
    ("BSH", (2, 3, 2), "has no columns for 4 heads"), ("BNSD", (2, 3, 8), "has 4 dimensions, an operand 3"),
])  # fmt: skip
def test_operands_that_are_not_of_the_layout(npu, layout, shape, words):
    x = torch.ones(shape)
    with pytest.raises(AclError, match=words):
        compare(npu, "aclnnFlashAttentionScore", {"query": x, "key": x, "value": x} | common(layout),
                {"attentionOutOut": x})  # fmt: skip


def packed(parts: list[torch.Tensor]) -> torch.Tensor:
    """[1, heads, rows, columns] of each sequence → [tokens, heads, columns]."""
    return torch.cat([p[0].transpose(0, 1) for p in parts])


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_packed_sequences_in_every_version(npu, version):
    q_ends, kv_ends = [4, 10], [5, 12]
    d, rope = 8, 3
    q, k, v = leaves(rand(10, HEADS, d), rand(12, HEADS, d, seed=1), rand(12, HEADS, d, seed=2))
    q_rope, k_rope = leaves(rand(10, HEADS, rope, seed=8), rand(12, HEADS, rope, seed=9))
    sink = rand(HEADS, seed=5).requires_grad_()
    turned, sunk = version in (3, 5), version == 5
    query, key = (torch.cat((q, q_rope), 2), torch.cat((k, k_rope), 2)) if turned else (q, k)
    results = []
    for a, b, c, e in ((0, 4, 0, 5), (4, 10, 5, 12)):
        parts = (x.transpose(0, 1)[None] for x in (query[a:b], key[c:e], v[c:e]))
        results.append(reference(*parts, 0.35, sink=sink if sunk else None))
    out, most, total = (packed(list(parts)) for parts in zip(*results, strict=True))
    dy = rand(*out.shape, seed=3)
    leaf = {"dqOut": q, "dkOut": k, "dvOut": v}
    leaf |= {"dqRopeOut": q_rope, "dkRopeOut": k_rope} if turned else {}
    leaf |= {"dsinkOut": sink} if sunk else {}
    grads = dict(zip(leaf, torch.autograd.grad(out, tuple(leaf.values()), dy), strict=True))

    more = common("TND", actualSeqQLenOptional=q_ends, actualSeqKvLenOptional=kv_ends)
    forward, backward = "VarLenScoreV", "UnpaddingScoreGradV"
    known = {p.name for p in npu.signatures[f"aclnnFlashAttention{forward}{version}"]}
    inputs = {"query": q.detach(), "key": k.detach(), "value": v.detach(), "pseType": 1}
    inputs |= {"queryRope": q_rope.detach(), "keyRope": k_rope.detach()} if turned else {}
    inputs |= {"sinkOptional": sink.detach()} if sunk else {}
    expected = {"attentionOutOut": out, "softmaxMaxOut": eight(most), "softmaxSumOut": eight(total)}
    expected = {name: t.detach() for name, t in expected.items()}
    inputs = {name: x for name, x in (inputs | more).items() if name in known}
    compare(npu, f"aclnnFlashAttention{forward}{version}", inputs, expected, **CLOSE)

    known = {p.name for p in npu.signatures[f"aclnnFlashAttention{backward}{version}"]}
    inputs = {"query": q.detach(), "keyIn": k.detach(), "value": v.detach(), "dy": dy, "pseType": 1}
    inputs |= {"queryRope": q_rope.detach(), "keyInRope": k_rope.detach()} if turned else {}
    inputs |= {"sinkInOptional": sink.detach()} if sunk else {}
    inputs = {name: x for name, x in (inputs | more).items() if name in known}
    compare(npu, f"aclnnFlashAttention{backward}{version}", inputs, grads, **CLOSE)
