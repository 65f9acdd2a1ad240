"""Attention over chosen keys: by index, of bytes, by blocks of a mask, and over two sets of keys; with gradients."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand, refused, wide
from tests.references.chosen_keys import attend, counts, opened

ALL = 2**63 - 1
BAND = {"preTokens": ALL, "nextTokens": ALL}
INF = float("inf")
INDEX = torch.tensor([[[0, 3, -1]], [[2, 1, -1]], [[3, 0, 1]]]).int()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("block", [1, 2])
def test_keys_by_index_and_their_gradients(npu, dtype, mode, block):
    q, k, v = rand(2, 3, 4, 6, dtype=dtype), rand(2, 7, 1, 6, dtype=dtype), rand(2, 7, 1, 5, dtype=dtype)
    qr, kr = rand(2, 3, 4, 2, dtype=dtype, seed=1), rand(2, 7, 1, 2, dtype=dtype, seed=2)
    indices = INDEX.expand(2, 3, 1, 3).contiguous()
    leaves = wide(q, k, v, qr, kr)
    parts = [
        attend(
            torch.cat([leaves[0][b], leaves[3][b]], -1),
            torch.cat([leaves[1][b], leaves[4][b]], -1),
            leaves[2][b],
            0.3,
            counts(indices[b], 7, block, 3, mode == 3),
        )
        for b in range(2)
    ]
    out, largest, total = (torch.stack([p[i] for p in parts]) for i in range(3))
    largest, total = (
        t.detach().transpose(1, 2).unsqueeze(1).float() for t in (largest, total)
    )  # [batch, 1, rows, heads]
    inputs = {
        "query": q,
        "key": k,
        "value": v,
        "sparseIndices": indices,
        "queryRopeOptional": qr,
        "keyRopeOptional": kr,
        "scaleValue": 0.3,
        "sparseMode": mode,
        **BAND,
    }
    forward = inputs | {"sparseBlockSizeOptional": block, "attentionMode": 2, "returnSoftmaxLse": True}
    sums = {"softmaxMax": largest, "softmaxSum": total}
    results = {"attentionOut": out.detach().to(dtype)} | sums
    for op in ("aclnnSparseFlashAttention", "aclnnSparseFlashAttentionV2"):
        compare(npu, op, forward, results, **NEAR[dtype])
    grad = rand(2, 3, 4, 5, dtype=dtype, seed=3)
    made = torch.autograd.grad(out, leaves, grad.double())
    names = ("dQueryOut", "dKeyOut", "dValueOut", "dQueryRopeOutOptional", "dKeyRopeOutOptional")
    expected = {n: g.to(dtype) for n, g in zip(names, made, strict=True)}
    backward = inputs | sums | {"dOut": grad, "out": out.detach().to(dtype), "sparseBlockSize": block}
    compare(npu, "aclnnSparseFlashAttentionGrad", backward, expected, **NEAR[dtype])
    again = backward | {n: torch.zeros(0) for n in sums}
    compare(npu, "aclnnSparseFlashAttentionGrad", again, expected, **NEAR[dtype])


def test_packed_rows_sinks_and_an_absent_value(npu):
    q, k, sinks = rand(3, 4, 6), rand(7, 1, 6), rand(4)
    indices = torch.tensor([[[0, 3]], [[2, -1]], [[1, 0]]]).int()
    outs, row, key = [], 0, 0
    leaves = wide(q, k)
    for rows, keys in ((2, 4), (1, 3)):
        part = leaves[1][key : key + keys]
        count = counts(indices[row : row + rows], keys, 1, rows)
        outs.append(attend(leaves[0][row : row + rows], part, part, 0.5, count, sinks.double()))
        row, key = row + rows, key + keys
    out = torch.cat([o[0] for o in outs])
    sums = [torch.cat([o[i] for o in outs], 1).T.unsqueeze(0).detach().float() for i in (1, 2)]
    inputs = {
        "query": q,
        "key": k,
        "sparseIndices": indices,
        "scaleValue": 0.5,
        "sparseMode": 3,
        **BAND,
        "actualSeqLengthsQueryOptional": torch.tensor([2, 3]).int(),
        "actualSeqLengthsKvOptional": torch.tensor([4, 7]).int(),
    }
    forward = inputs | {
        "sinksOptional": sinks,
        "sparseBlockSizeOptional": 1,
        "layoutQueryOptional": "TND",
        "layoutKvOptional": "TND",
        "returnSoftmaxLse": True,
    }
    results = {"attentionOut": out.detach().float(), "softmaxMax": sums[0], "softmaxSum": sums[1]}
    compare(npu, "aclnnSparseFlashAttentionV2", forward, results, **NEAR[torch.float32])
    none = torch.zeros(0)
    quiet = forward | {"returnSoftmaxLse": False}
    compare(
        npu,
        "aclnnSparseFlashAttentionV2",
        quiet,
        results | {"softmaxMax": none, "softmaxSum": none},
        rtol=1e-4,
        atol=1e-5,
    )
    grad = rand(3, 4, 6, seed=4)
    made = torch.autograd.grad(out, leaves, grad.double())
    backward = inputs | {
        "dOut": grad,
        "out": out.detach().float(),
        "softmaxMax": sums[0],
        "softmaxSum": sums[1],
        "sparseBlockSize": 1,
        "layoutOptional": "TND",
    }
    expected = {"dQueryOut": made[0].float(), "dKeyOut": made[1].float()}
    compare(npu, "aclnnSparseFlashAttentionGrad", backward, expected, **NEAR[torch.float32])


def test_pages_of_keys(npu):
    q, k = rand(2, 1, 4, 6), rand(2, 8, 1, 6)
    indices = torch.tensor([[[[0, 4, 7]]], [[[4, 2, -1]]]]).int()
    pages, table, lengths = torch.zeros(5, 4, 1, 6), torch.tensor([[3, 0], [4, 1]]).int(), [8, 5]
    for b in range(2):
        for i in range(2):
            pages[int(table[b, i])] = k[b, 4 * i : 4 * i + 4]
    out = torch.stack(
        [
            attend(q[b].double(), *[k[b, :n].double()] * 2, 0.5, counts(indices[b], n, 1, 1))[0]
            for b, n in enumerate(lengths)
        ]
    )
    inputs = {
        "query": q,
        "key": pages,
        "value": pages,
        "sparseIndices": indices,
        "scaleValue": 0.5,
        "sparseMode": 3,
        **BAND,
        "blockTableOptional": table,
        "layoutKvOptional": "PA_BSND",
        "sparseBlockSizeOptional": 1,
        "actualSeqLengthsKvOptional": torch.tensor(lengths).int(),
        "softmaxMax": torch.zeros(0),
        "softmaxSum": torch.zeros(0),
    }
    compare(npu, "aclnnSparseFlashAttention", inputs, {"attentionOut": out.float()}, **NEAR[torch.float32])


@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("stored", [torch.int8, torch.float8_e4m3fn])
def test_rows_of_bytes(npu, dtype, stored):
    q, turned = rand(2, 3, 4, 10, dtype=dtype), rand(2, 7, 1, 2, dtype=dtype)
    indices = INDEX.expand(2, 3, 1, 3).contiguous()
    generator = torch.Generator().manual_seed(15)
    numbers = [torch.randint(-20, 20, (2, 7, 1, 8), generator=generator).float().to(stored) for _ in range(2)]
    scales = [torch.rand(2, 7, 1, 2, generator=generator) for _ in range(2)]

    def row_bytes(n, s):
        return torch.cat([n.view(torch.int8), turned.contiguous().view(torch.int8), s.view(torch.int8)], -1).view(
            stored
        )

    k, v = (n.double() * s.double().repeat_interleave(4, -1) for n, s in zip(numbers, scales, strict=True))
    k = torch.cat([k, turned.double()], -1)
    out = torch.stack([attend(q[b].double(), k[b], v[b], 0.1, counts(indices[b], 7, 1, 3))[0] for b in range(2)])
    key, value = (row_bytes(n, s) for n, s in zip(numbers, scales, strict=True))
    inputs = {
        "query": q,
        "key": key,
        "value": value,
        "sparseIndices": indices,
        "scaleValue": 0.1,
        "keyQuantMode": 2,
        "valueQuantMode": 2,
        "sparseBlockSizeOptional": 1,
        "sparseModeOptional": 3,
        "preTokensOptional": ALL,
        "nextTokensOptional": ALL,
        "attentionModeOptional": 2,
        "quantScaleRepoModeOptional": 1,
        "tileSizeOptional": 4,
        "ropeHeadDimOptional": 2,
    }
    op, results = "aclnnKvQuantSparseFlashAttention", {"attentionOut": out.to(dtype)}
    compare(npu, op, inputs, results, **NEAR[dtype])
    refused(npu, op, inputs | {"key": key[..., :16]}, results, "a row of key has 20 bytes, not 16")
    refused(npu, op, inputs | {"keyQuantMode": 1}, results, "keyQuantMode 1 is not implemented; 2 is")


def test_refused_choices_of_keys(npu):
    q, k, indices = rand(2, 3, 4, 6), rand(2, 7, 1, 6), INDEX.expand(2, 3, 1, 3).contiguous()
    inputs = {
        "query": q,
        "key": k,
        "value": k,
        "sparseIndices": indices,
        "sparseMode": 3,
        "sparseBlockSizeOptional": 1,
        **BAND,
    }
    inputs |= {"softmaxMax": torch.zeros(0), "softmaxSum": torch.zeros(0)}
    out = {"attentionOut": rand(2, 3, 4, 6)}
    for changed, words in (
        ({"attentionMode": 2}, "attentionMode 2 goes with queryRope and keyRope"),
        ({"attentionMode": 1}, "attentionMode 1 is not implemented; 0 or 2 is"),
        (
            {"sparseIndices": indices[:, :2].contiguous()},
            r"sparseIndices must have sizes \[2, 3, 1, -1\], got \[2, 2, 1, 3\]",
        ),
        ({"sparseBlockSizeOptional": 0}, "sparseBlockSize is 0"),
        ({"sparseMode": 4}, "sparseMode 4 is not implemented; 0 or 3 is"),
        ({"preTokens": 5}, "preTokens 5 and nextTokens"),
        ({"key": k[..., :5].contiguous(), "value": k}, "key has 5 columns, not the 6 of query"),
        ({"layoutKvOptional": "PA_BSND"}, "blockTable goes with keys of PA_BSND"),
        ({"layoutKvOptional": "BSH"}, "the keys' layout BSH is not implemented"),
        ({"returnSoftmaxLse": True}, r"softmaxMax must have sizes .*got \[0\]"),
    ):
        refused(npu, "aclnnSparseFlashAttention", inputs | changed, out, words)
    refused(
        npu,
        "aclnnSparseFlashAttention",
        inputs,
        {"attentionOut": rand(2, 3, 4, 5)},
        r"attentionOut must have sizes .*got \[2, 3, 4, 5\]",
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_of_a_mask_and_their_gradients(npu, dtype, packed):
    rows, keys = [5, 3], [4, 7]
    q, k, v = rand(2, 4, 5, 6, dtype=dtype), rand(2, 2, 7, 6, dtype=dtype), rand(2, 2, 7, 6, dtype=dtype, seed=1)
    mask = (torch.rand(2, 4, 3, 3, generator=torch.Generator().manual_seed(12)) > 0.4).to(torch.int8)
    mask[0, 0, 1] = 0  # rows that see nothing give zeros
    leaves = wide(q, k, v)
    outs, sums = [], []
    for b in range(2):
        turned = [t[b, :, :n].transpose(0, 1) for t, n in zip(leaves, (rows[b], keys[b], keys[b]), strict=True)]
        o, largest, total = attend(*turned, 0.4, opened(mask[b], (2, 3), rows[b], keys[b]))
        outs.append(o)
        sums.append((largest + total.log()).T.unsqueeze(-1).detach())

    def laid(parts, like):
        """Parts of [rows, heads, ..] as one tensor of the layout."""
        if packed:
            return torch.cat(parts)
        return torch.stack([torch.nn.functional.pad(p.transpose(0, 1), (0, 0, 0, like - p.shape[0])) for p in parts])

    def given(t, lengths):
        return torch.cat([t[b, :, :n].transpose(0, 1) for b, n in enumerate(lengths)]) if packed else t

    layout = "TND" if packed else "BNSD"
    inputs = {
        "query": given(q, rows),
        "key": given(k, keys),
        "value": given(v, keys),
        "blockSparseMaskOptional": mask,
        "blockShapeOptional": [2, 3],
        "actualSeqLengthsOptional": rows,
        "actualSeqLengthsKvOptional": keys,
        "qInputLayout": layout,
        "kvInputLayout": layout,
        "numKeyValueHeads": 2,
        "scaleValue": 0.4,
    }
    out, lse = laid(outs, 5), laid(sums, 5).float()
    op, results = "aclnnBlockSparseAttention", {"attentionOut": out.detach().to(dtype), "softmaxLseOptional": lse}
    compare(npu, op, inputs | {"softmaxLseFlag": 1}, results, **NEAR[dtype])
    grad = rand(*out.shape, dtype=dtype, seed=3)
    made = torch.autograd.grad(out, leaves, grad.double())
    expected = dict(
        zip(
            ("dq", "dk", "dv"),
            (given(m, n).to(dtype) for m, n in zip(made, (rows, keys, keys), strict=True)),
            strict=True,
        )
    )
    backward = inputs | {"dout": grad, "attentionOut": out.detach().to(dtype)}
    for kept in (lse, torch.zeros(0)):
        compare(npu, op + "Grad", backward | {"softmaxLse": kept}, expected, **NEAR[dtype])
    for changed, words in (
        ({"numKeyValueHeads": 1}, "numKeyValueHeads is 1, key has 2 heads"),
        ({"blockShapeOptional": [1, 3]}, "blockSparseMask must have sizes"),
        ({"actualSeqLengthsKvOptional": None}, "actualSeqLengths and actualSeqLengthsKv go together"),
        ({"maskType": 1}, "maskType 1 is not implemented"),
        ({"blockTableOptional": torch.zeros(1, 1).int()}, "blockTable is not implemented"),
        ({"qInputLayout": "BSH"}, "qInputLayout BSH is not implemented; TND or BNSD is"),
        ({"kvInputLayout": "BSND"}, "kvInputLayout is qInputLayout"),
    ):
        refused(npu, op, inputs | changed, results, words)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("masked", [False, True])
def test_two_sets_of_keys_and_their_gradients(npu, dtype, masked):
    b, h, n, m, k, d = 2, 3, 2, 3, 5, 4
    given = [rand(b, h, n, m, d, dtype=dtype), *(rand(b, h, n, k, d, dtype=dtype, seed=s) for s in (1, 2))]
    given += [rand(b, h, k, m, d, dtype=dtype, seed=s) for s in (3, 4)]
    mask = None
    if masked:
        mask = torch.rand(b, 1, n, 1, k, generator=torch.Generator().manual_seed(3)) > 0.7
        mask[..., 0] = False
    q, k1, v1, k2, v2 = leaves = wide(*given)
    s = (torch.einsum("bhnmd,bhnkd->bhnmk", q, k1) + torch.einsum("bhnmd,bhkmd->bhnmk", q, k2)) * 0.5
    s = s if mask is None else s.masked_fill(mask, -INF)
    p = s.softmax(-1)
    out = torch.einsum("bhnmk,bhnkd->bhnmd", p, v1) + torch.einsum("bhnmk,bhkmd->bhnmd", p, v2)
    largest = s.amax(-1, keepdim=True)
    sums = [t.detach().float().expand(b, h, n, m, 8) for t in (largest, (s - largest).exp().sum(-1, keepdim=True))]
    inputs = dict(zip(("query", "key1", "value1", "key2", "value2"), given, strict=True)) | {"attenMaskOptional": mask}
    results = {"softmaxMaxOut": sums[0], "softmaxSumOut": sums[1], "attentionOutOut": out.detach().to(dtype)}
    compare(npu, "aclnnFusedFloydAttention", inputs | {"scaleValueOptional": 0.5}, results, **NEAR[dtype])
    grad = rand(b, h, n, m, d, dtype=dtype, seed=5)
    made = torch.autograd.grad(out, leaves, grad.double())
    expected = {f"d{x}Out": g.to(dtype) for x, g in zip(("q", "k1", "v1", "k2", "v2"), made, strict=True)}
    backward = inputs | {
        "dy": grad,
        "softmaxMax": sums[0],
        "softmaxSum": sums[1],
        "attentionIn": out.detach().to(dtype),
        "scaleValue": 0.5,
    }
    compare(npu, "aclnnFusedFloydAttentionGrad", backward, expected, **NEAR[dtype])
    wrong = inputs | {"scaleValueOptional": 0.5, "key1": given[1][:, :, :, :3].contiguous()}
    refused(npu, "aclnnFusedFloydAttention", wrong, results, r"value1 must have sizes .*got \[2, 3, 2, 5, 4\]")
