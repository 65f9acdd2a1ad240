"""Types whose elements an operator only moves, judged by the same move of their bits."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, garbage
from tests.opapi.client import AclError
from tests.references.mx import E1M2, E2M1, E4M3, GRIDS, packed, quantized

E8M0 = torch.float8_e8m0fnu

BITS = {
    torch.bool: torch.uint8,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e8m0fnu: torch.uint8,
    torch.complex32: torch.int32,
    torch.int8: torch.int8,
    torch.int32: torch.int32,
    torch.int64: torch.int64,
    torch.float32: torch.int32,
}
CACHED = [dtype for dtype in BITS if not dtype.is_complex]


def values(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Any bits that are no NaN: large numbers too, that no other type holds."""
    generator = torch.Generator().manual_seed(3)
    wide = torch.randint(-(2**62), 2**62, sizes, generator=generator)
    if dtype == torch.bool:
        return wide % 2 == 0
    if dtype.is_floating_point or dtype.is_complex:
        return (wide % 7 + 1).to(torch.float32).to(dtype)
    return wide.to(BITS[dtype]).view(dtype)


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    assert torch.equal(got.contiguous().view(BITS[got.dtype]), wanted.contiguous().view(BITS[got.dtype]))


def moved(dtype: torch.dtype, function, *tensors: torch.Tensor) -> torch.Tensor:
    return function(*(t.view(BITS[dtype]) for t in tensors)).contiguous().view(dtype)


index = torch.tensor([2, 0, 3])
MOVES = {
    "aclnnReflectionPad1d": ((2, 5), {"padding": [2, 1]}, lambda x: torch.cat([x[:, [2, 1]], x, x[:, [3]]], 1)),
    "aclnnReplicationPad1d": ((2, 5), {"padding": [2, 1]}, lambda x: torch.cat([x[:, [0, 0]], x, x[:, [4]]], 1)),
    "aclnnReflectionPad2d": (
        (1, 3, 4), {"padding": [1, 0, 2, 0]}, lambda x: x[:, [2, 1, 0, 1, 2]][:, :, [1, 0, 1, 2, 3]],
    ),
    "aclnnReplicationPad3d": (
        (1, 2, 3, 4), {"padding": [1, 0, 0, 1, 0, 0]}, lambda x: x[:, :, [0, 1, 2, 2]][:, :, :, [0, 0, 1, 2, 3]],
    ),
    "aclnnGather": ((4, 3), {"dim": 0, "index": index.view(1, 3)}, lambda x: x.gather(0, index.view(1, 3))),
    "aclnnIndexSelect": ((4, 3), {"dim": 0, "index": index}, lambda x: x[index]),
    "aclnnTake": ((4, 3), {"index": index}, lambda x: x.flatten()[index]),
    "aclnnTril": ((4, 3), {"diagonal": 0}, torch.tril),
    "aclnnTriu": ((4, 3), {"diagonal": 1}, lambda x: x.triu(1)),
    "aclnnIm2col": (
        (1, 2, 3, 4),
        {"kernelSize": [2, 2], "dilation": [1, 1], "padding": [1, 0], "stride": [1, 2]},
        lambda x: torch.nn.functional.unfold(x.double(), (2, 2), padding=(1, 0), stride=(1, 2)).to(x.dtype)
        if x.dtype != torch.int64
        else torch.stack([
            torch.nn.functional.unfold(part.double(), (2, 2), padding=(1, 0), stride=(1, 2)).long()
            for part in (x >> 32, x & 0xFFFFFFFF)
        ]).mul(torch.tensor([2**32, 1]).view(2, 1, 1, 1)).sum(0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.parametrize("op", MOVES)
def test_moves(npu, op, dtype, strided):
    sizes, attributes, reference = MOVES[op]
    x = values(dtype, *sizes)
    expected = moved(dtype, reference, x)
    given = x.transpose(-1, -2).contiguous().transpose(-1, -2) if strided else x
    same(npu.call(op, self=given, out=garbage(expected), **attributes)["out"], expected)


@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_rows_are_written(npu, dtype):
    x, rows, into = values(dtype, 4, 3), values(dtype, 3, 3).flip(0), torch.tensor([2, 0, 3])
    expected = x.clone().view(BITS[dtype])
    expected[into] = rows.view(BITS[dtype])
    expected = expected.view(dtype)
    call = npu.call("aclnnIndexCopy", selfRef=x, dim=0, index=into, source=rows, outRef=garbage(x))
    same(call["outRef"], expected)
    same(npu.call("aclnnInplaceIndexCopy", selfRef=x, dim=0, index=into, source=rows)["selfRef"], expected)


@pytest.mark.parametrize("dtype", CACHED, ids=str)
def test_caches(npu, dtype):
    """Blocks of two rows: slots 3 and 0 are written, then the rows of block 1 and 0 are read."""
    cache, rows = values(dtype, 3, 2, 1, 4), values(dtype, 2, 1, 4).flip(0)
    written = npu.call(
        "aclnnScatterPaKvCache",
        key=rows, keyCacheRef=cache, value=rows, valueCacheRef=cache.clone(), slotMapping=torch.tensor([3, 0]),
        compressLensOptional=None, compressSeqOffsetOptional=None, seqLensOptional=None, cacheModeOptional="Norm",
        scatterModeOptional="", stridesOptional=None, offsetsOptional=None,
    )  # fmt: skip
    expected = cache.clone().view(BITS[dtype])
    expected[1, 1], expected[0, 0] = rows[0].view(BITS[dtype]), rows[1].view(BITS[dtype])
    same(written["keyCacheRef"], expected.view(dtype))
    same(written["valueCacheRef"], expected.view(dtype))
    read = npu.call(
        "aclnnGatherPaKvCache",
        keyCache=cache, valueCache=cache, blockTables=torch.tensor([[1, 0]], dtype=torch.int32),
        seqLens=torch.tensor([3], dtype=torch.int32), keyRef=garbage(values(dtype, 3, 1, 4)),
        valueRef=garbage(values(dtype, 3, 1, 4)), seqOffsetOptional=None, cacheMode="Norm", isSeqLensCumsum=False,
    )  # fmt: skip
    flat = cache.view(BITS[dtype])
    same(read["keyRef"], torch.stack([flat[1, 0], flat[1, 1], flat[0, 0]]).view(dtype))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.int32])
def test_order_of_wide_unsigned_integers(npu, dtype):
    """The largest have the sign bit of the integer of their size."""
    x = values(dtype, 7)
    plain = sorted((int(v), i) for i, v in enumerate(x.tolist()))
    call = npu.call(
        "aclnnTopk", self=x, k=3, dim=0, largest=True, sorted=True, valuesOut=garbage(x[:3]),
        indicesOut=torch.zeros(3, dtype=torch.int64),
    )  # fmt: skip
    assert call["valuesOut"].tolist() == [v for v, _ in plain[:-4:-1]]
    assert call["indicesOut"].tolist() == [i for _, i in plain[:-4:-1]]
    call = npu.call(
        "aclnnKthvalue", self=x, k=2, dim=0, keepdim=False, valuesOut=garbage(x[0]),
        indicesOut=torch.zeros((), dtype=torch.int64),
    )  # fmt: skip
    assert (call["valuesOut"].item(), call["indicesOut"].item()) == plain[1]


FOUR = [E2M1, E1M2]


def four(kind: torch.dtype, *sizes: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Elements of 4 bits, and their values."""
    grid = torch.tensor(GRIDS[kind] + [-g for g in GRIDS[kind][1:]], dtype=torch.double)
    value = grid[torch.randint(0, len(grid), sizes, generator=torch.Generator().manual_seed(seed))]
    return packed(value, kind), value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("kind", FOUR)
def test_4_bit_elements_become_numbers(npu, kind, dtype):
    x, value = four(kind, 3, 8)
    compare(npu, "aclnnCast", {"self": x, "dtype": 0}, {"out": value.to(dtype)})
    with pytest.raises(AclError, match=r"out has the sizes \[3, 6\], \[3, 8\] are expected"):
        npu.prepare("aclnnCast", self=x, dtype=0, out=torch.zeros(3, 6))


@pytest.mark.parametrize("kind", FOUR)
def test_pairs_are_joined_padded_and_cleared(npu, kind):
    (a, x), (b, y) = four(kind, 2, 8), four(kind, 2, 8, seed=2)
    for dim in (0, 1):
        compare(npu, "aclnnCat", {"tensors": [a, b], "dim": dim}, {"out": packed(torch.cat([x, y], dim), kind)})
    wide = torch.nn.functional.pad(x, (2, 4, 1, 0), value=-1.5)
    compare(npu, "aclnnConstantPadNd", {"self": a, "pad": [2, 4, 1, 0], "value": -1.5}, {"out": packed(wide, kind)})
    got = npu.call("aclnnInplaceZero", selfRef=a)["selfRef"]
    assert not got.any()
    compare(npu, "aclnnNpuFormatCast", {"srcTensor": a}, {"dstTensor": a})
    for values, words in (
        ({"pad": [1, 0], "value": 0.0}, "no single one is added"),
        ({"pad": [2, 0], "value": 0.3}, "value 0.3 is no number"),
    ):
        with pytest.raises(AclError, match=words):
            npu.prepare("aclnnConstantPadNd", self=a, out=a, **values)
    with pytest.raises(AclError, match="4-bit floats do not mix"):
        npu.prepare("aclnnCat", tensors=[a, torch.zeros(2, 8)], dim=0, out=packed(torch.cat([x, y]), kind))
    with pytest.raises(AclError, match="is no copy of one of"):
        npu.prepare("aclnnNpuFormatCast", srcTensor=a, dstTensor=torch.zeros(2, 8))


def test_a_weight_is_prepared(npu):
    """Memory is ND: the numbers stay."""
    (a, _), scale = four(E2M1, 6, 96), torch.arange(24, dtype=torch.uint8).view(6, 2, 2).view(torch.float8_e8m0fnu)
    weight, turned, bias = a.t(), scale.transpose(0, 1), torch.arange(6).half()
    inputs = {"weight": weight, "weightScale": turned, "biasOptional": bias, "xDtype": 36, "xScaleDtype": 37}
    inputs |= {"kGroupSize": 32}
    left = {"weightOffsetOptional": None, "outWeightOffsetOptional": None}
    results = {
        "outWeight": torch.zeros(6, 48, dtype=torch.uint8).view(a.dtype).t(),
        "outBiasOptional": torch.zeros(6).half(),
    }
    results["outWeightScale"] = torch.zeros_like(scale).transpose(0, 1)
    got = npu.call("aclnnWeightQuantPreprocess", **left | inputs | results)
    for name, wanted in (("outWeight", weight), ("outWeightScale", turned), ("outBiasOptional", bias)):
        turn = (1, 0) if wanted.dim() == 2 else (1, 0, 2) if wanted.dim() == 3 else (0,)
        assert torch.equal(*(t.permute(turn).contiguous().view(torch.uint8) for t in (got[name], wanted))), name
    for change, words in (
        ({"xDtype": 35}, "xDtype Float8_e5m2 and xScaleDtype Float8_e8m0fnu: float8_e4m3fn"),
        ({"kGroupSize": 64}, "kGroupSize 64 is not 32"),
        ({"weight": four(E2M1, 96, 6)[0]}, "weight of strides .* is not transposed"),
        ({"weightScale": turned[:1]}, "weightScale has the sizes"),
        ({"outWeight": four(E2M1, 5, 96)[0].t()}, "is no copy of one of"),
        ({"biasOptional": None}, "biasOptional and outBiasOptional are given together"),
    ):
        with pytest.raises(AclError, match=words):
            npu.prepare("aclnnWeightQuantPreprocess", **left | inputs | results | change)


@pytest.mark.parametrize("kind", FOUR)
def test_pairs_in_caches(npu, kind):
    (cache, into), (rows, of) = four(kind, 3, 2, 1, 8), four(kind, 2, 1, 8, seed=2)
    into[1, 1], into[0, 0] = of[0], of[1]
    common = dict.fromkeys(["compressLensOptional", "compressSeqOffsetOptional", "seqLensOptional"])
    common |= {"key": rows, "keyCacheRef": cache, "slotMapping": torch.tensor([3, 0])}
    more = {"value": rows, "valueCacheRef": cache.clone(), "cacheModeOptional": "Norm", "scatterModeOptional": ""}
    more |= {"stridesOptional": None, "offsetsOptional": None}
    written = npu.call("aclnnScatterPaKvCache", **common, **more)
    want = packed(into, kind).view(torch.uint8)
    assert torch.equal(written["keyCacheRef"], want) and torch.equal(written["valueCacheRef"], want)
    arguments = {p.name: None if "*" in p.type else 0 for p in npu.signatures["aclnnScatterPaCache"]}
    written = npu.call("aclnnScatterPaCache", **arguments | common | {"cacheMode": "Norm"})
    assert torch.equal(written["keyCacheRef"], want)


@pytest.mark.parametrize("kind", [*FOUR, E4M3])
def test_rows_of_experts_with_their_powers(npu, kind):
    x, scale, _ = quantized(4, 96, kind=kind)
    x, scale = x.view(torch.uint8), scale.view(torch.uint8)
    counts, order = torch.tensor([[1, 2], [1, 0]]), [0, 3, 1, 2]
    arguments = {p.name: 0 if "*" not in p.type else None for p in npu.signatures["aclnnMoeReRouting"]}
    got = npu.call("aclnnMoeReRouting", **arguments | {
        "tokens": x.view(kind), "expertTokenNumPerRank": counts, "perTokenScalesOptional": scale.view(E8M0),
        "permuteTokens": garbage(x.view(kind)), "permutePerTokenScales": garbage(scale.view(E8M0)),
        "permuteTokenIdx": torch.zeros(4, dtype=torch.int32), "expertTokenNum": torch.zeros(2, dtype=torch.int64),
        "expertTokenNumTypeOptional": 1, "idxTypeOptional": 0})  # fmt: skip
    assert torch.equal(got["permuteTokens"].view(torch.uint8), x[order])
    assert torch.equal(got["permutePerTokenScales"].view(torch.uint8), scale[order])
    if kind == E1M2:
        return
    experts = torch.tensor([[1, 0], [0, 1], [1, 2], [2, 0]], dtype=torch.int32)
    order = torch.argsort(experts.flatten(), stable=True) // 2
    op = "aclnnMoeInitRoutingV3"
    values = {p.name: 0 if "*" not in p.type else None for p in npu.signatures[op]} | {
        "x": x.view(kind), "expertIdx": experts, "scaleOptional": scale.view(E8M0), "activeNum": 8,
        "expertNum": 3, "expertTokensNumType": 1, "expertTokensNumFlag": True, "quantMode": -1,
        "activeExpertRangeOptional": [0, 3], "expandedXOut": garbage(x[order].view(kind)),
        "expandedRowIdxOut": torch.zeros(8, dtype=torch.int32),
        "expertTokensCountOrCumsumOut": torch.zeros(3, dtype=torch.int64),
        "expandedScaleOut": garbage(scale[order].view(E8M0))}  # fmt: skip
    got = npu.call(op, **values)
    assert torch.equal(got["expandedXOut"].view(torch.uint8), x[order])
    assert torch.equal(got["expandedScaleOut"].view(torch.uint8), scale[order])
    for change, words in (
        ({"quantMode": 1}, "is quantized already"),
        ({"expandedXOut": torch.zeros(8, 96)}, "and nothing is quantized"),
    ):
        with pytest.raises(AclError, match=words):
            npu.prepare(op, **values | change)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("name", ["Ge", "Gt", "Le", "Lt"])
def test_comparisons_of_wide_unsigned_integers(npu, name, dtype):
    x = values(dtype, 9)
    y = torch.tensor(x.tolist()[::-1], dtype=dtype)
    than = {"Ge": lambda a, b: a >= b, "Gt": lambda a, b: a > b, "Le": lambda a, b: a <= b, "Lt": lambda a, b: a < b}[
        name
    ]
    want = torch.tensor([than(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    compare(npu, f"aclnn{name}Tensor", {"self": x, "other": y}, {"out": want})
    compare(npu, f"aclnn{name}Tensor", {"self": x, "other": y}, {"out": want.to(dtype)})
    same(npu.call(f"aclnnInplace{name}Tensor", selfRef=x, other=y)["selfRef"], want.to(dtype))
    for number in (int(x[4]) % 2**62, 7, -1):
        want = torch.tensor([than(a, number) for a in x.tolist()])
        compare(npu, f"aclnn{name}Scalar", {"self": x, "other": number}, {"out": want})
        same(npu.call(f"aclnnInplace{name}Scalar", selfRef=x, other=number)["selfRef"], want.to(dtype))
    either = torch.tensor([True, False, True]), torch.tensor([False, False, True])
    compare(
        npu,
        "aclnnLogicalOr",
        dict(zip(("self", "other"), either, strict=True)),
        {"out": (either[0] | either[1]).to(dtype)},
    )
