"""hifloat8 in attention of inference, through the C ABI: caches and results, the indexer and rows of bytes."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import NEAR, compare, rand, refused
from tests.opapi.client import CODES
from tests.opapi.test_chosen_keys import ALL, BAND, INDEX
from tests.opapi.test_low_bits import ATTENTION, VERSIONS, attended
from tests.references.chosen_keys import attend, counts
from tests.references.hifloat8 import LARGEST, clamped, codes, values
from tests.references.indexer import best, scores

BF16 = {"rtol": 2e-2, "atol": 2e-2}
SCALES = ("keyAntiquantScaleOptional", "valueAntiquantScaleOptional")
NO_SUM = {"softmaxLse": torch.zeros(0)}


def small(*sizes: int, seed: int = 0) -> torch.Tensor:
    """Codes of numbers around one, as uint8."""
    return codes(rand(*sizes, seed=seed))


def factors(*sizes: int, seed: int = 0) -> torch.Tensor:
    return rand(*sizes, seed=seed).abs() + 0.25


LAY = {
    "BNSD": lambda t: t,
    "BSND": lambda t: t.transpose(1, 2).contiguous(),
    "BSH": lambda t: t.transpose(1, 2).flatten(2).contiguous(),
}


@pytest.mark.parametrize("op", VERSIONS)
@pytest.mark.parametrize("mode", [0, 1, "one"])
@pytest.mark.parametrize("layout", LAY)
def test_caches(npu, op, mode, layout):
    q, k, v = rand(2, 4, 3, 64).bfloat16(), small(2, 2, 5, 64), small(2, 2, 5, 64, seed=1)
    sizes = {0: (1, 2, 1, 64), 1: (1, 2, 5), "one": (1,)}[mode]
    scales = [factors(*sizes, seed=s) if mode == 1 else factors(*sizes, seed=s).bfloat16() for s in (2, 3)]
    wide = [s.double()[0][:, None, :, None] if mode == 1 else s.double() for s in scales]
    expected = attended(q, *(values(t) * f for t, f in zip((k, v), wide, strict=True)))
    lay = LAY[layout]
    inputs = ATTENTION | {"query": lay(q), "inputLayout": layout, "keyAntiquantMode": int(mode == 1)}
    inputs |= {"key": [lay(k).view(CODES)], "value": [lay(v).view(CODES)], "valueAntiquantMode": int(mode == 1)}
    inputs |= dict(zip(SCALES, scales, strict=True))
    out = {"attentionOut": lay(expected).bfloat16()} | NO_SUM
    compare(npu, op, inputs, out, **BF16)
    refused(npu, op, inputs | {SCALES[0]: None}, out, "key of Bits8 has a scale and no offset")
    refused(npu, op, inputs | {"query": lay(small(2, 4, 3, 64)).view(CODES)}, out, "query has data type hifloat8")


@pytest.mark.parametrize("op", VERSIONS)
def test_a_paged_cache_and_one_of_packed_sequences(npu, op):
    q, pages = rand(2, 4, 1, 64).bfloat16(), [small(4, 2, 4, 64, seed=s) for s in (0, 1)]  # [blocks, heads, block, ..]
    table, lengths = torch.tensor([[2, 0], [3, -1]]).int(), [6, 3]
    scales = [factors(2, 64, seed=s).bfloat16() for s in (2, 3)]
    rows = [
        [
            torch.cat(list(values(p)[used]), 1)[:, :n] * s.double().unsqueeze(1)
            for p, s in zip(pages, scales, strict=True)
        ]
        for used, n in (([2, 0], 6), ([3], 3))
    ]
    expected = torch.cat([attended(q[b : b + 1], rows[b][0][None], rows[b][1][None]) for b in range(2)])
    inputs = ATTENTION | {"query": q, "inputLayout": "BNSD", "blockTableOptional": table.clamp_min(0), "blockSize": 4}
    inputs |= {"key": [pages[0].view(CODES)], "value": [pages[1].view(CODES)], "actualSeqLengthsKvOptional": lengths}
    inputs |= dict(zip(SCALES, scales, strict=True))
    compare(npu, op, inputs, {"attentionOut": expected.bfloat16()} | NO_SUM, **BF16)
    k, v = (torch.cat(list(values(p)), 1)[:, :9] for p in pages)  # [heads, 9, ..]: two sequences of 4 and 5 keys
    exact = [s.double().unsqueeze(1) for s in scales]
    parts = [
        attended(q[b : b + 1], (k[:, f:t] * exact[0])[None], (v[:, f:t] * exact[1])[None])[0].transpose(0, 1)
        for b, (f, t) in enumerate([(0, 4), (4, 9)])
    ]
    packed = lambda p: torch.cat(list(p), 1)[:, :9].transpose(0, 1).contiguous().view(CODES)
    inputs = ATTENTION | {"query": q.flatten(0, 1).view(2, 4, 64), "inputLayout": "TND"}
    inputs |= {"key": [packed(pages[0])], "value": [packed(pages[1])]} | dict(zip(SCALES, scales, strict=True))
    inputs |= {"actualSeqLengthsOptional": [1, 2], "actualSeqLengthsKvOptional": [4, 9]}
    compare(npu, op, inputs, {"attentionOut": torch.cat(parts).bfloat16()} | NO_SUM, **BF16)


@pytest.mark.parametrize("op", VERSIONS)
@pytest.mark.parametrize("column", [True, False])
def test_a_result_is_rounded_and_clamped(npu, op, column):
    q, k, v = (rand(2, n, 3, 64, seed=n + s) for n, s in ((4, 0), (2, 1), (2, 2)))
    scale = factors(4, 1, 64) * 300 if column else torch.tensor([1e6])
    exact = attended(q, k.double(), v.double()) * scale.double()
    inputs = ATTENTION | {"query": q, "key": [k], "value": [v], "inputLayout": "BNSD", "quantScale2Optional": scale}
    out = {"attentionOut": torch.zeros(exact.shape, dtype=torch.uint8).view(CODES)} | NO_SUM
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures[op]} | inputs
    got = values(npu.call(op, **arguments | out)["attentionOut"])
    wanted = values(clamped(exact))
    assert (got == wanted).double().mean() > 0.98 and (column or wanted.abs().max() == LARGEST)
    torch.testing.assert_close(
        got, wanted, rtol=0.5, atol=0
    )  # a sum in another order may lie beside a half: the next number
    refused(npu, op, inputs | {"quantScale2Optional": None}, out, "attentionOut of Bits8 needs quantScale2")


@pytest.mark.parametrize("paged", [False, True])
def test_the_best_keys(npu, paged):
    q, k, w = small(2, 3, 4, 6), small(2, 5, 1, 6), rand(2, 3, 4).bfloat16()
    sq, sk = factors(2, 3, 4), factors(2, 5, 1)
    wide = [values(q) * sq.double().unsqueeze(-1), values(k) * sk.double().unsqueeze(-1), w.double()]
    expected = torch.stack([best(scores(wide[0][b], wide[1][b, :, 0], wide[2][b]), 3)[0] for b in range(2)])
    inputs = {"query": q.view(CODES), "key": k.view(CODES), "weights": w, "queryDequantScale": sq}
    inputs |= {"keyDequantScale": sk, "sparseCount": 3, "sparseMode": 3, **BAND}
    if paged:  # a sequence in each page, the second first
        inputs |= {"key": k.flip(0).view(CODES), "keyDequantScale": sk.flip(0), "layoutKeyOptional": "PA_BSND"}
        inputs |= {"blockTableOptional": torch.tensor([[1], [0]]).int()}
        inputs |= {"actualSeqLengthsKeyOptional": torch.tensor([5, 5]).int()}
    op, out = "aclnnQuantLightningIndexer", {"out": expected.unsqueeze(2)}
    compare(npu, op, inputs, out)
    refused(npu, op, inputs | {"key": k.float().to(torch.float8_e4m3fn)}, out, "key has data type float8_e4m3fn")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_bytes(npu, dtype):
    q, turned = rand(2, 3, 4, 10, dtype=dtype), rand(2, 7, 1, 2, dtype=dtype)
    indices = INDEX.expand(2, 3, 1, 3).contiguous()
    numbers, scales = [small(2, 7, 1, 8, seed=s) for s in (0, 1)], [factors(2, 7, 1, 2, seed=s) for s in (2, 3)]
    row = lambda n, s: torch.cat([n, turned.contiguous().view(torch.uint8), s.view(torch.uint8)], -1).view(CODES)
    k, v = (values(n) * s.double().repeat_interleave(4, -1) for n, s in zip(numbers, scales, strict=True))
    k = torch.cat([k, turned.double()], -1)
    out = torch.stack([attend(q[b].double(), k[b], v[b], 0.3, counts(indices[b], 7, 1, 3))[0] for b in range(2)])
    key, value = (row(n, s) for n, s in zip(numbers, scales, strict=True))
    inputs = {"query": q, "key": key, "value": value, "sparseIndices": indices, "scaleValue": 0.3}
    inputs |= {"keyQuantMode": 2, "valueQuantMode": 2, "sparseBlockSizeOptional": 1, "sparseModeOptional": 3}
    inputs |= {"preTokensOptional": ALL, "nextTokensOptional": ALL, "attentionModeOptional": 2}
    inputs |= {"quantScaleRepoModeOptional": 1, "tileSizeOptional": 4, "ropeHeadDimOptional": 2}
    compare(npu, "aclnnKvQuantSparseFlashAttention", inputs, {"attentionOut": out.to(dtype)}, **NEAR[dtype])
