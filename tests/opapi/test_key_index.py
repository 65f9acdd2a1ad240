"""The indexer of sparse attention: the best keys of each row, their gradients, and the loss it is trained with."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand, refused, wide
from tests.opapi.test_chosen_keys import ALL, BAND, INF
from tests.references.indexer import best, ends, scores, softmax_of

LENGTHS = [(3, 5), (4, 7), (1, 2)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 3])
def test_best_keys_of_packed_sequences_and_their_gradients(npu, dtype, mode):
    parts = [(rand(r, 4, 6, dtype=dtype), rand(n, 6, dtype=dtype), rand(r, 4, dtype=dtype)) for r, n in LENGTHS]
    q, k, w = (torch.cat(t) for t in zip(*parts, strict=True))
    lengths = [ends([x[i] for x in LENGTHS]) for i in (0, 1)]
    leaves = [wide(*p) for p in parts]
    rows = [scores(*leaf, mode == 3) for leaf in leaves]
    found = [best(s.detach(), 4) for s in rows]
    index, values = (torch.cat(t).unsqueeze(1) for t in zip(*found, strict=True))
    inputs = {
        "query": q,
        "key": k.unsqueeze(1),
        "weights": w,
        "actualSeqLengthsQueryOptional": lengths[0],
        "actualSeqLengthsKeyOptional": lengths[1],
        "layoutQueryOptional": "TND",
        "layoutKeyOptional": "TND",
        "sparseCount": 4,
        "sparseMode": mode,
        "returnValues": True,
        **BAND,
    }
    op = "aclnnLightningIndexer"
    outputs = {
        "sparseIndicesOut": torch.full((8, 1, 4), 77, dtype=torch.int32),
        "sparseValuesOut": rand(8, 1, 4, dtype=dtype),
    }
    got = compare(npu, op, inputs | outputs, {})
    torch.testing.assert_close(got["sparseValuesOut"], values.to(dtype), **NEAR[dtype])
    assert torch.equal(got["sparseIndicesOut"] < 0, index < 0)
    if dtype == torch.float32:
        assert torch.equal(got["sparseIndicesOut"], index)
    quiet = inputs | {"returnValues": False, "sparseValuesOut": torch.zeros(0, dtype=dtype)}
    compare(npu, op, quiet, {"sparseIndicesOut": got["sparseIndicesOut"]})
    dy = rand(8, 4, dtype=dtype, seed=2)
    total, row = 0, 0
    for (r, _), s in zip(LENGTHS, rows, strict=True):
        i = index[row : row + r, 0].long()
        total = total + torch.where(i >= 0, s.gather(1, i.clamp_min(0)) * dy[row : row + r].double(), 0).sum()
        row += r
    made = torch.autograd.grad(total, [t for leaf in leaves for t in leaf])
    dq, dk, dw = (torch.cat(made[i::3]).to(dtype) for i in range(3))
    backward = {
        "query": q,
        "key": k.unsqueeze(1),
        "dy": dy.unsqueeze(1),
        "sparseIndices": index,
        "weights": w,
        "headNum": 4,
        "actualSeqQLenOptional": lengths[0],
        "actualSeqKvLenOptional": lengths[1],
        "inputLayout": "TND",
        "sparseMode": mode,
        **BAND,
    }
    expected = {"dqOut": dq, "dkOut": dk.unsqueeze(1), "dweightsOut": dw}
    compare(npu, "aclnnLightningIndexerGrad", backward, expected, **NEAR[dtype])
    compare(npu, "aclnnLightningIndexerGrad", backward | {"headNum": 0}, expected, **NEAR[dtype])  # the vendor's plugin
    refused(npu, "aclnnLightningIndexerGrad", backward | {"headNum": 3}, expected, "headNum is 3, query has 4 heads")
    flat = backward | {"dy": dy, "sparseIndices": index.squeeze(1)}
    compare(npu, "aclnnLightningIndexerGrad", flat, expected, **NEAR[dtype])
    for changed, words in (
        ({"sparseCount": 0}, "sparseCount is 0"),
        ({"weights": w[:, :3].contiguous()}, r"weights must have sizes .*got \[8, 3\]"),
        ({"actualSeqLengthsKeyOptional": None}, "the keys' lengths are needed"),
        ({"sparseMode": 1}, "sparseMode 1 is not implemented"),
    ):
        refused(npu, op, inputs | outputs | changed, {}, words)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_best_keys_of_quantized_operands(npu, dtype):
    generator = torch.Generator().manual_seed(6)
    whole = lambda *s: torch.randint(-20, 20, s, generator=generator).float()
    q, k, w = whole(2, 3, 4, 6).to(dtype), whole(2, 5, 1, 6).to(dtype), rand(2, 3, 4)
    sq, sk = (torch.rand(*s, generator=generator) for s in ((2, 3, 4), (2, 5, 1)))
    expected = torch.stack(
        [
            best(
                scores(q[b].double() * sq[b].unsqueeze(-1), (k.double() * sk.unsqueeze(-1))[b, :, 0], w[b].double()), 3
            )[0]
            for b in range(2)
        ]
    )
    inputs = {
        "query": q,
        "key": k,
        "weights": w,
        "queryDequantScale": sq,
        "keyDequantScale": sk,
        "sparseCount": 3,
        "sparseMode": 3,
        **BAND,
    }
    op, results = "aclnnQuantLightningIndexer", {"out": expected.unsqueeze(2)}
    compare(npu, op, inputs, results)
    refused(npu, op, inputs | {"queryQuantMode": 3}, results, "queryQuantMode 3 is not implemented; 0 is")
    refused(npu, op, inputs | {"keyDequantScale": sk[:, :3]}, results, "keyDequantScale must have sizes")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_loss_of_the_indexer_and_its_gradients(npu, dtype, packed, sparse):
    heads = 4
    q, k = rand(2, 3, heads, 6, dtype=dtype), rand(2, 5, heads, 6, dtype=dtype)
    qr, kr = rand(2, 3, heads, 2, dtype=dtype, seed=1), rand(2, 5, heads, 2, dtype=dtype, seed=1)
    qi, ki, w = rand(2, 3, 2, 4, dtype=dtype), rand(2, 5, 1, 4, dtype=dtype), rand(2, 3, 2, dtype=dtype)
    indices = torch.tensor([[0, 2], [3, 1], [4, 0]]).int().expand(2, 3, 2)
    leaves = wide(qi, ki, w)
    total, largest, sums, index_sums = 0, [], [], []
    for b in range(2):
        p, m, s = softmax_of(torch.cat([q[b], qr[b]], -1).double(), torch.cat([k[b], kr[b]], -1).double(), 0.4)
        largest.append(m)
        sums.append(s)
        index, mass = scores(leaves[0][b], leaves[1][b, :, 0], leaves[2][b]), p.sum(0)
        if sparse:
            named = torch.zeros(3, 5).scatter_(1, indices[b].long(), 1.0) > 0
            index, mass = index.masked_fill(~named, -INF), mass * named
        base = index.detach().amax(-1, keepdim=True)
        index_sums.append((base[:, 0], (index.detach() - base).exp().sum(-1)))
        mass = mass / mass.sum(-1, keepdim=True)
        log = torch.where(mass > 0, index.log_softmax(-1), 0)
        total = total + torch.where(mass > 0, mass * (mass.clamp_min(1e-300).log() - log), 0).sum()
    made = torch.autograd.grad(total, leaves)
    flat = (lambda t: t.flatten(0, 1)) if packed else (lambda t: t)
    by_head = lambda t: (t.transpose(0, 1).flatten(1, 2) if packed else t).float()
    maxima, all_sums = (by_head(torch.stack(t).unsqueeze(-1)) for t in (largest, sums))  # [batch, heads, rows, 1]
    index_max, index_sum = (by_head(torch.stack(t).unsqueeze(1)) for t in zip(*index_sums, strict=True))
    layout = {"layout": "TND" if packed else "BSND", "sparseMode": 3}
    layout |= {"actualSeqLengthsQuery": [3, 6], "actualSeqLengthsKey": [5, 10]} if packed else {}
    inputs = {
        "query": flat(q),
        "key": flat(k),
        "queryIndex": flat(qi),
        "keyIndex": flat(ki),
        "weights": flat(w),
        "softmaxMax": maxima,
        "softmaxSum": all_sums,
        "queryRope": flat(qr),
        "keyRope": flat(kr),
        "scaleValue": 0.4,
        **layout,
    }
    names = ("dQueryIndex", "dKeyIndex", "dWeights")
    expected = {n: flat(g).to(dtype) for n, g in zip(names, made, strict=True)} | {
        "loss": total.detach().float().reshape(1)
    }
    near = NEAR[dtype]
    if sparse:
        inputs |= {"sparseIndices": flat(indices.unsqueeze(-2)).contiguous(), "pre_tokens": ALL, "next_tokens": ALL}
        compare(npu, "aclnnSparseLightningIndexerGradKLLoss", inputs, expected, **near)
        renamed = {"weights": "weight", "pre_tokens": "preTokens", "next_tokens": "nextTokens", "dWeights": "dWeight"}
        renamed |= {n: n + "Optional" for n in ("queryRope", "keyRope", "actualSeqLengthsQuery", "actualSeqLengthsKey")}
        second = [{renamed.get(n, n): v for n, v in d.items()} for d in (inputs, expected)]
        op = "aclnnSparseLightningIndexerGradKLLossV2"
        compare(npu, op, *second, **near)
        refused(npu, op, second[0] | {"sinksOptional": rand(4)}, second[1], "sinks is not implemented")
        return
    inputs |= BAND | {"softmaxMaxIndex": index_max, "softmaxSumIndex": index_sum}
    op = "aclnnDenseLightningIndexerGradKLLoss"
    compare(npu, op, inputs, expected, **near)
    refused(npu, op, inputs | {"queryRope": None}, expected, "queryRope and keyRope go together")
    refused(npu, op, inputs | {"softmaxSum": rand(3)}, expected, "softmaxSum must have sizes")
    lse = {
        "queryIndex": flat(qi),
        "keyIndex": flat(ki),
        "weight": flat(w),
        "sparseMode": 3,
        "layoutOptional": layout["layout"],
        **BAND,
    }
    lse |= {"actualSeqLengthsQueryOptional": [3, 6], "actualSeqLengthsKeyOptional": [5, 10]} if packed else {}
    results = {"softmaxMaxOut": index_max, "softmaxSumOut": index_sum}
    compare(npu, "aclnnDenseLightningIndexerSoftmaxLse", lse, results, **near)
    refused(
        npu,
        "aclnnDenseLightningIndexerSoftmaxLse",
        lse,
        {"softmaxMaxOut": rand(2)} | {"softmaxSumOut": rand(2)},
        "softmaxMax must have sizes",
    )
