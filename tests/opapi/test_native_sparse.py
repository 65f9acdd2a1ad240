"""Native sparse attention: over compressed keys, over the best blocks, of one query over pages, and its cache."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand, refused, wide
from tests.opapi.test_chosen_keys import INF
from tests.references.chosen_keys import attend, counts


def shares(p, block, stride, select, blocks):
    """Of p [.., keys], by its definition."""
    out = torch.zeros(*p.shape[:-1], blocks, dtype=p.dtype)
    for j in range(blocks):
        for m in range(select // stride):
            for n in range(block // stride):
                if 0 <= select // stride * j - m - n < p.shape[-1]:
                    out[..., j] += p[..., select // stride * j - m - n]
    return out


def best_of(score, count):
    found = min(count, score.shape[-1])
    return torch.nn.functional.pad(score.topk(found, -1).indices, (0, count - found), value=-1).transpose(0, 1).int()


def weights(q, k, scale, hidden=None):
    s = torch.einsum("rhd,khd->hrk", q, k.repeat_interleave(q.shape[1] // k.shape[1], 1)) * scale
    return (s if hidden is None else s.masked_fill(hidden, -INF)).softmax(-1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_attention_over_compressed_keys(npu, dtype):
    rows, keys, blocks = [3, 2], [6, 4], [4, 3]
    q, k, v = (rand(*s, dtype=dtype) for s in ((5, 4, 6), (10, 2, 6), (10, 2, 5)))
    mask = torch.rand(3, 6, generator=torch.Generator().manual_seed(3)) > 0.7
    mask[:, 0] = False
    parts, row, key = [], 0, 0
    for r, n, b in zip(rows, keys, blocks, strict=True):
        part = [t.double() for t in (q[row : row + r], k[key : key + n], v[key : key + n])]
        m = mask[:r, :n]
        score = shares(weights(*part[:2], 0.4, m), 4, 2, 8, b).unflatten(0, (2, 2)).sum(1)
        parts.append((*attend(*part, 0.4, (~m).double().expand(2, *m.shape)), score))
        row, key = row + r, key + n
    sums = [torch.cat([p[i] for p in parts], 1).T.unsqueeze(-1).expand(5, 4, 8).float() for i in (1, 2)]
    inputs = {
        "query": q,
        "key": k,
        "value": v,
        "attenMaskOptional": mask,
        "actualSeqQLenOptional": [3, 5],
        "scaleValue": 0.4,
        "actualCmpSeqKvLenOptional": [6, 10],
        "actualSelSeqKvLenOptional": [4, 7],
        "headNum": 4,
        "inputLayout": "TND",
        "sparseMode": 1,
        "compressBlockSize": 4,
        "compressStride": 2,
        "selectBlockSize": 8,
        "selectBlockCount": 4,
    }
    op = "aclnnNsaCompressAttention"
    results = {
        "softmaxMaxOut": sums[0],
        "softmaxSumOut": sums[1],
        "attentionOutOut": torch.cat([p[0] for p in parts]).to(dtype),
    }
    given = inputs | {"topkIndicesOut": torch.full((5, 2, 4), 77, dtype=torch.int32)}
    index = compare(npu, op, given, results, **NEAR[dtype])["topkIndicesOut"]
    row = 0
    for p, r, b in zip(parts, rows, blocks, strict=True):
        got = index[row : row + r].long().transpose(0, 1)
        assert (got[..., b:] == -1).all()
        # Equal scores may come in either order.
        torch.testing.assert_close(p[3].gather(-1, got[..., :b]), p[3].topk(b, -1).values, **NEAR[dtype])
        row += r
    for changed, words in (
        ({"headNum": 2}, "headNum is 2, query has 4 heads"),
        ({"compressStride": 3}, "blocks of 4 every 3"),
        ({"topkMaskOptional": torch.ones(5, 2).bool()}, "topkMask is not implemented"),
        ({"actualSeqQLenOptional": [3, 4]}, "actualSeqQLen ends with 4, rows are 5"),
        ({"inputLayout": "BSND"}, "inputLayout BSND is not implemented; TND is"),
        ({"attenMaskOptional": mask[:2]}, r"attenMask must have sizes \[3, 6\], got \[2, 6\]"),
    ):
        refused(npu, op, given | changed, results, words)


CHOSEN = torch.tensor(
    [[[0, 2], [1, 0]], [[2, -1], [0, 1]], [[1, 2], [1, 0]], [[0, 1], [2, -1]], [[1, 0], [0, 2]]]
).int()


@pytest.mark.parametrize("dtype", FLOATS)
def test_attention_over_the_best_blocks_and_its_gradients(npu, dtype):
    rows, keys = [3, 2], [6, 5]
    q, k, v = (rand(*s, dtype=dtype) for s in ((5, 4, 6), (11, 2, 6), (11, 2, 5)))
    leaves, outs, row, key = wide(q, k, v), [], 0, 0
    for r, n in zip(rows, keys, strict=True):
        count = counts(CHOSEN[row : row + r], n, 2, r, causal=False)
        outs.append(attend(leaves[0][row : row + r], leaves[1][key : key + n], leaves[2][key : key + n], 0.4, count))
        row, key = row + r, key + n
    out = torch.cat([o[0] for o in outs])
    sums = [torch.cat([o[i] for o in outs], 1).T.unsqueeze(-1).expand(5, 4, 8).detach().float() for i in (1, 2)]
    inputs = {
        "query": q,
        "key": k,
        "value": v,
        "topkIndices": CHOSEN,
        "actualSeqQLenOptional": [3, 5],
        "scaleValue": 0.4,
        "actualSeqKvLenOptional": [6, 11],
        "headNum": 4,
        "inputLayout": "TND",
        "selectedBlockSize": 2,
        "selectedBlockCount": 2,
    }
    results = {"softmaxMaxOut": sums[0], "softmaxSumOut": sums[1], "attentionOut": out.detach().to(dtype)}
    compare(npu, "aclnnNsaSelectedAttention", inputs, results, **NEAR[dtype])
    grad = rand(5, 4, 5, dtype=dtype, seed=5)
    made = torch.autograd.grad(out, leaves, grad.double())
    backward = inputs | {
        "attentionOutGrad": grad,
        "softmaxMax": sums[0],
        "softmaxSum": sums[1],
        "attentionOut": out.detach().to(dtype),
    }
    expected = dict(zip(("dqOut", "dkOut", "dvOut"), (m.to(dtype) for m in made), strict=True))
    compare(npu, "aclnnNsaSelectedAttentionGrad", backward, expected, **NEAR[dtype])
    for changed, words in (
        ({"selectedBlockCount": 3}, r"topkIndices must have sizes .*got \[5, 2, 2\]"),
        ({"attenMaskOptional": torch.ones(3, 6).bool()}, "attenMask is not implemented"),
        ({"actualSeqKvLenOptional": None}, "the keys' actualSeqLen is needed"),
    ):
        refused(npu, "aclnnNsaSelectedAttention", inputs | changed, results, words)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_one_query_over_pages(npu, dtype, layout):
    table, lengths = torch.tensor([[3, 0], [4, 1]]).int(), [7, 5]
    q, k, v = rand(2, 4, 6, dtype=dtype), rand(5, 4, 2, 6, dtype=dtype), rand(5, 4, 2, 3, dtype=dtype)
    shaped = (lambda t: t) if layout == "TND" else (lambda t: t.unsqueeze(1))
    chosen = torch.tensor([[[0, 2], [1, -1]], [[1, 0], [2, 0]]]).int()
    outs, some, scores = [], [], []
    for b, n in enumerate(lengths):
        keys, values = (t[table[b].long()].flatten(0, 1)[:n].double() for t in (k, v))
        row = q[b : b + 1].double()
        outs.append(attend(row, keys, values, 0.4, torch.ones(2, 1, n, dtype=torch.float64))[0])
        some.append(attend(row, keys, values, 0.4, counts(chosen[b : b + 1], n, 3, 1, causal=False))[0])
        blocks = ((n - 1) * 2 + 4 + 7) // 8
        scores.append(shares(weights(row, keys, 0.4), 4, 2, 8, blocks).unflatten(0, (2, 2)).sum(1)[:, 0])
    common = {
        "query": shaped(q),
        "blockTableOptional": table,
        "layoutOptional": layout,
        "numHeads": 4,
        "numKeyValueHeads": 2,
        "selectBlockCount": 2,
        "pageBlockSize": 4,
        "scaleValue": 0.4,
    }
    inputs = common | {
        "key": k.flatten(2),
        "value": v,
        "actualCmpKvSeqLenOptional": lengths,
        "selectBlockSize": 8,
        "compressBlockSize": 4,
        "compressBlockStride": 2,
        "topKOutput": shaped(torch.full((2, 2, 2), 77, dtype=torch.int32)),
    }
    op, results = "aclnnNsaCompressAttentionInfer", {"output": shaped(torch.cat(outs)).to(dtype)}
    index = compare(npu, op, inputs, results, **NEAR[dtype])["topKOutput"].reshape(2, 2, 2)
    for b, score in enumerate(scores):
        torch.testing.assert_close(score.gather(-1, index[b].long()), score.topk(2, -1).values, **NEAR[dtype])
    refused(
        npu,
        op,
        inputs | {"actualQSeqLenOptional": [2, 1]},
        results,
        "several queries of a sequence are not implemented",
    )
    refused(npu, op, inputs | {"actualCmpKvSeqLenOptional": [9, 5]}, results, "a sequence of 9 keys, its pages hold 8")
    inputs = common | {
        "key": k,
        "value": v.flatten(2),
        "actualKvSeqLenOptional": lengths,
        "selectBlockSize": 3,
        "topkIndices": shaped(chosen),
    }
    op, results = "aclnnNsaSelectedAttentionInfer", {"output": shaped(torch.cat(some)).to(dtype)}
    compare(npu, op, inputs, results, **NEAR[dtype])
    refused(npu, op, inputs | {"blockTableOptional": None}, results, "blockTable is needed")


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_window_goes_into_the_cache(npu, dtype):
    pages, w = rand(5, 4, 2, 3, dtype=dtype), rand(4, 2, dtype=dtype)
    table, slots, lengths = torch.tensor([[3, 0], [4, 1], [2, 2]]).int(), torch.tensor([5, 0, 2]).int(), [6, 7, 3]
    cache = rand(6, 2, 3, dtype=dtype, seed=9)
    expected = cache.clone()
    rows = pages[table[0].long()].flatten(0, 1).double()
    expected[5] = (rows[2:6] * w.double().unsqueeze(-1)).sum(0).to(dtype)  # 6 = 4 + 2; 7 and 3 fill no window
    inputs = {
        "input": pages,
        "weight": w,
        "slotMapping": slots,
        "actSeqLenOptional": lengths,
        "blockTableOptional": table,
        "layoutOptional": "TND",
        "compressBlockSize": 4,
        "compressStride": 2,
        "actSeqLenType": 1,
        "pageBlockSize": 4,
    }
    got = npu.call("aclnnNsaCompressWithCache", **inputs, outputCache=cache)["outputCache"]
    torch.testing.assert_close(got, expected, **NEAR[dtype])
    op = "aclnnNsaCompressWithCache"
    refused(npu, op, inputs | {"actSeqLenType": 0}, {"outputCache": cache}, "actSeqLenType 0 is not implemented; 1 is")
    refused(npu, op, inputs | {"slotMapping": slots[:2]}, {"outputCache": cache}, "slotMapping must have sizes")
