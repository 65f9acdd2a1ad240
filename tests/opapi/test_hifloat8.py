"""hifloat8 through the C ABI: every code, every rounding of 16-bit floats, and the functions that read and write it."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import refused
from tests.opapi.client import CODES
from tests.opapi.test_mx_products import near
from tests.references import hifloat8
from tests.references.hifloat8 import NUMBER, clamped, codes, values

ALL = torch.arange(256).to(torch.uint8)


def garbage(*sizes: int) -> torch.Tensor:
    return torch.full(sizes, 0x55, dtype=torch.uint8).view(CODES)


def some(*sizes: int, seed: int = 1) -> torch.Tensor:
    """Codes of finite numbers."""
    generator = torch.Generator().manual_seed(seed)
    finite = ALL[torch.tensor(hifloat8.VALUES).isfinite()]
    return finite[torch.randint(len(finite), sizes, generator=generator)]


def rand(*sizes: int, seed: int = 2, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def call(npu, op: str, given: dict) -> dict:
    """What is not given is null."""
    return npu.call(op, **{p.name: given.get(p.name) for p in npu.signatures[op]})


def cast(npu, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    number = {CODES: NUMBER, torch.float32: 0, torch.float16: 1, torch.bfloat16: 27, torch.float64: 11}[out.dtype]
    got = npu.call("aclnnCast", self=x, dtype=number, out=out)["out"]
    return got.view(torch.uint8) if out.dtype == CODES else got


def test_the_definition_s_corners() -> None:
    """What the paper says in words, of the reference itself."""
    finite = [v for v in hifloat8.ASCENDING if v]
    assert (finite[0], finite[-1], len(finite)) == (2.0**-22, 2.0**15, 126)
    assert [hifloat8.VALUES[c] for c in (0x00, 0x07, 0x08, 0x10, 0x18, 0x6E, 0x7E)] == [
        0,
        2**-16,
        1,
        2,
        0.5,
        2**15,
        2**-15,
    ]
    assert [hifloat8.encoded(v) for v in (2.0**-23, 40959.9, 40960.0, -40960.0, -0.0)] == [0x01, 0x6E, 0x6F, 0xEF, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_every_code_is_read_and_comes_back(npu, dtype) -> None:
    expected = torch.tensor(hifloat8.VALUES, dtype=torch.float64)
    got = cast(npu, ALL.view(CODES), torch.zeros(256, dtype=dtype))
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(cast(npu, got, garbage(256)), ALL)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_number_of_16_bits_becomes_the_nearest_code(npu, dtype) -> None:
    x = torch.arange(65536).to(torch.int32).to(torch.uint16).view(dtype)
    assert torch.equal(cast(npu, x, garbage(65536)), codes(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_halves_are_rounded_away_from_zero_and_what_is_beside_them_is_not(npu, dtype) -> None:
    ends = [*hifloat8.ASCENDING, 49152.0]
    halves = torch.tensor([(a + b) / 2 for a, b in zip(ends, ends[1:], strict=False)], dtype=dtype)
    beside = [torch.nextafter(halves, torch.tensor(v, dtype=dtype)) for v in (0.0, torch.inf)]
    x = torch.cat([halves, *beside])
    x = torch.cat([x, -x, torch.tensor([torch.inf, -torch.inf, torch.nan, 1e-40, 3e38, -0.0], dtype=dtype)])
    assert torch.equal(cast(npu, x, garbage(len(x))), codes(x))


def test_integers_and_a_strided_tensor_become_codes(npu) -> None:
    x = torch.tensor([[0, 17, -17, 40959], [40960, -(2**40), 2**53 + 1, 19]])
    assert torch.equal(cast(npu, x, garbage(2, 4)), codes(x))
    assert torch.equal(cast(npu, x.t(), garbage(2, 4).t()), codes(x.t()))
    back = cast(npu, codes(x).view(CODES).t(), torch.zeros(4, 2, dtype=torch.float32))
    assert torch.equal(back.double(), values(codes(x).t()))


MOVES = {
    "aclnnCat": ({"tensors": [some(2, 3), some(2, 3, seed=5)], "dim": 0}, "out"),
    "aclnnConstantPadNd": ({"self": some(2, 3), "pad": [1, 2], "value": 1.25}, "out"),
    "aclnnReflectionPad1d": ({"self": some(2, 4), "padding": [1, 2]}, "out"),
    "aclnnReplicationPad2d": ({"self": some(2, 3, 4), "padding": [1, 2, 0, 1]}, "out"),
    "aclnnRepeat": ({"self": some(2, 3), "repeats": [2, 2]}, "out"),
}
EXPECTED = {
    "aclnnCat": lambda tensors, dim: torch.cat(tensors, dim),
    "aclnnConstantPadNd": lambda self, pad, value: torch.constant_pad_nd(self, pad, hifloat8.encoded(value)),
    "aclnnReflectionPad1d": lambda self, padding: torch._C._nn.reflection_pad1d(self.int(), padding).byte(),
    "aclnnReplicationPad2d": lambda self, padding: torch._C._nn.replication_pad2d(self.float(), padding).byte(),
    "aclnnRepeat": lambda self, repeats: self.repeat(repeats),
}


@pytest.mark.parametrize("op", MOVES)
def test_codes_are_moved_as_they_are(npu, op) -> None:
    inputs, name = MOVES[op]
    expected = EXPECTED[op](**inputs)
    told = {
        n: [t.view(CODES) for t in v]
        if isinstance(v, list) and torch.is_tensor(v[0])
        else v.view(CODES)
        if torch.is_tensor(v)
        else v
        for n, v in inputs.items()
    }
    got = npu.call(op, **told, **{name: garbage(*expected.shape)})[name]
    assert torch.equal(got.view(torch.uint8), expected)


def scaled(x: torch.Tensor, dims: tuple[int, ...], largest: float) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(dims, keepdim=True) / largest
    return codes(x / scale), scale


@pytest.mark.parametrize("mode, dims", [("pertoken", (-1,)), ("perchannel", (-2,)), ("pertensor", (0, 1))])
@pytest.mark.parametrize("largest", [0.0, 15.0, 224.0, 32768.0])
def test_dynamic_quantization_scales_to_the_largest_or_what_is_named(npu, mode, dims, largest) -> None:
    x = rand(5, 7)
    y, scale = scaled(x, dims, largest or hifloat8.LARGEST)
    given = {"x": x, "dstType": NUMBER, "isSymmetrical": True, "quantMode": mode, "dstTypeMax": largest}
    given |= {"yOut": garbage(5, 7), "scaleOut": torch.zeros(scale.numel())}
    got = call(npu, "aclnnDynamicQuantV4", given)
    torch.testing.assert_close(got["scaleOut"], scale.flatten())
    assert torch.equal(got["yOut"].view(torch.uint8), y)


X, SCALE = rand(6, 8) * 1000, rand(8, seed=3).abs() + 0.5
GELU = {"approximate": "none", "quantMode": "static", "outScaleOptional": None}
# What an operator is given beside roundMode and dstType, its result, and what that stands for.
QUANT = {
    "aclnnAscendQuantV3": ({"x": X, "scale": SCALE, "sqrtMode": False, "axis": -1}, "y", X * SCALE),
    "aclnnQuantize": ({"x": X, "scales": SCALE, "dtype": NUMBER, "axis": 1}, "out", X / SCALE),
    "aclnnQuantMax": ({"x": X, "scale": SCALE[:1], "amax": torch.zeros(1)}, "y", X * SCALE[0]),
    "aclnnGeluQuant": ({"self": X, "inputScaleOptional": SCALE} | GELU, "y", torch.nn.functional.gelu(X) * SCALE),
}


@pytest.mark.parametrize("op", QUANT)
def test_quantization_by_given_numbers_clamps(npu, op) -> None:
    inputs, name, expected = QUANT[op]
    given = inputs | {"roundMode": "round", "dstType": NUMBER, name: garbage(6, 8)}
    got = call(npu, op, given)[name]
    assert torch.equal(got.view(torch.uint8), clamped(expected))


def test_quantization_of_blocks(npu) -> None:
    x = rand(4, 130) * 10
    most = torch.stack([x[:, :128].abs().amax(1), x[:, 128:].abs().amax(1)], 1)
    for op, largest in (
        ("aclnnDynamicBlockQuant", 0),
        ("aclnnDynamicBlockQuantV2", 0),
        ("aclnnDynamicBlockQuantV2", 224),
    ):
        scale = most / (largest or hifloat8.LARGEST)
        inputs = {"x": x, "minScale": 0.0, "roundModeOptional": "round", "dstType": NUMBER, "rowBlockSize": 1}
        inputs |= {"colBlockSize": 128} | ({"dstTypeMax": float(largest)} if op.endswith("V2") else {})
        got = npu.call(op, **inputs, yOut=garbage(4, 130), scaleOut=torch.zeros(4, 2))
        torch.testing.assert_close(got["scaleOut"], scale)
        assert torch.equal(got["yOut"].view(torch.uint8), codes(x / scale.repeat_interleave(128, 1)[:, :130]))


@pytest.mark.parametrize("op", ["aclnnRmsNormQuant", "aclnnAddRmsNormQuant"])
def test_quantization_behind_a_norm(npu, op) -> None:
    x, gamma, scale = rand(4, 32), rand(32, seed=5), rand(32, seed=6).abs() + 0.5
    normed = x.double() / (x.double() ** 2).mean(-1, keepdim=True).add(1e-6).sqrt() * gamma
    if op == "aclnnRmsNormQuant":
        inputs = {
            "x": x,
            "gamma": gamma,
            "beta": torch.zeros(32),
            "scale": scale[:1],
            "offset": torch.zeros(1),
            "epsilon": 1e-6,
        }
        got, expected = npu.call(op, **inputs, y=garbage(4, 32))["y"], normed / scale[0]
    else:
        inputs = {
            "x1": x,
            "x2": torch.zeros(4, 32),
            "gamma": gamma,
            "scales1": scale,
            "axis": -1,
            "epsilon": 1e-6,
            "divMode": True,
        }
        inputs |= dict.fromkeys(["scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional"])
        results = {"y1Out": garbage(4, 32), "y2Out": garbage(4, 32), "xOut": torch.zeros(4, 32)}
        got, expected = npu.call(op, **inputs, **results)["y1Out"], normed / scale
    near_codes(got, expected)


def test_a_second_result_of_a_norm_without_a_scale_is_zero(npu) -> None:
    x = rand(64, 1024)
    given = {"x1": x, "x2": x, "gamma": torch.ones(1024), "scales1": torch.ones(1024), "axis": -1, "epsilon": 1e-6}
    given |= {"divMode": True, "y1Out": garbage(64, 1024), "y2Out": garbage(64, 1024), "xOut": torch.zeros(64, 1024)}
    assert not call(npu, "aclnnAddRmsNormQuant", given)["y2Out"].view(torch.uint8).any()


def near_codes(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Where arithmetic in float32 and in float64 lie on two sides of a half, the next number."""
    wanted = values(clamped(expected))
    torch.testing.assert_close(values(got), wanted, rtol=0.13, atol=0)
    assert (values(got) == wanted).double().mean() > 0.97


def test_a_cache_of_codes_is_written_and_read(npu) -> None:
    rows, cache = some(3, 2, 4), some(2, 4, 2, 4, seed=9)
    slots = torch.tensor([5, 0, 2], dtype=torch.int32)
    expected = cache.clone()
    expected.view(8, 2, 4)[slots.long()] = rows
    told = {"key": rows.view(CODES), "slotMapping": slots, "cacheMode": "Norm", "keyCacheRef": cache.view(CODES)}
    left = {
        p.name: None
        for p in npu.signatures["aclnnScatterPaCache"]
        if p.name.endswith("Optional") or p.name == "scatterMode"
    }
    got = npu.call("aclnnScatterPaCache", **left, **told)["keyCacheRef"]
    assert torch.equal(got.view(torch.uint8), expected)
    update = {
        "data": cache.view(2, 4, 8).view(CODES),
        "indices": torch.tensor([1, 2]),
        "updates": some(2, 2, 8, seed=8).view(CODES),
    }
    moved = npu.call("aclnnInplaceScatterUpdate", **update, axis=-2)["data"].view(torch.uint8)
    assert torch.equal(moved[0, 1:3], some(2, 2, 8, seed=8)[0]) and torch.equal(moved[1, 2:4], some(2, 2, 8, seed=8)[1])
    written = npu.call(
        "aclnnScatterNdUpdate",
        varRef=some(5, 3).view(CODES),
        indices=torch.tensor([[4], [1]]),
        updates=some(2, 3, seed=7).view(CODES),
    )
    assert torch.equal(written["varRef"].view(torch.uint8)[[4, 1]], some(2, 3, seed=7))


def test_convolutions_of_codes(npu) -> None:
    x, w = some(1, 2, 6, 6), some(3, 2, 3, 3, seed=4)
    x, w = (t.where(values(t).abs().lt(100), torch.zeros_like(t)) for t in (x, w))
    expected = torch.nn.functional.conv2d(values(x), values(w))
    settings = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "transposed": False, "outputPadding": [0, 0]}
    inputs = {"input": x.view(CODES), "weight": w.view(CODES), "bias": None, "groups": 1, "cubeMathType": 0}
    got = npu.call("aclnnConvolution", **inputs, **settings, output=garbage(1, 3, 4, 4))["output"]
    near_codes(got, expected)
    # A bias is a float; of other types it is the operands'.
    bias = rand(3, seed=5, dtype=torch.float16)
    added = npu.call("aclnnConvolution", **inputs | {"bias": bias}, **settings, output=garbage(1, 3, 4, 4))["output"]
    near_codes(added, expected + bias.double().view(3, 1, 1))
    rows, kernel = some(5, 2, 4), some(3, 4, 6, seed=4)
    rows, kernel = (t.where(values(t).abs().lt(100), torch.zeros_like(t)) for t in (rows, kernel))
    bias = rand(6, seed=6)
    tbc = torch.conv_tbc(values(rows), values(kernel), bias.double(), 1)
    given = {"self": rows.view(CODES), "weight": kernel.view(CODES), "bias": bias, "pad": 1, "cubeMathType": 0}
    near_codes(npu.call("aclnnConvTbc", **given, output=garbage(*tbc.shape))["output"], tbc)
    plain = {"self": torch.ones(5, 2, 4), "weight": torch.ones(3, 4, 6), "pad": 1, "bias": bias.half()}
    refused(npu, "aclnnConvTbc", plain, {"output": torch.zeros(5, 2, 6)}, "bias is of Half for an operand of Float")


def test_what_phase_one_refuses(npu) -> None:
    """Other roundings, another number of a type, other sizes."""
    given, name, _ = QUANT["aclnnAscendQuantV3"]
    good = given | {"roundMode": "round", "dstType": NUMBER}
    for op, inputs in (
        ("aclnnAscendQuantV3", good),
        ("aclnnGeluQuant", QUANT["aclnnGeluQuant"][0] | {"dstType": NUMBER}),
    ):
        for word in ("rint", "hybrid"):
            refused(
                npu, op, inputs | {"roundMode": word}, {"y": garbage(6, 8)}, "hifloat8 has the rounding round alone"
            )
    refused(npu, "aclnnAscendQuantV3", good, {"y": garbage(6, 9)}, "of the output is not the operand's")
    dynamic = {"x": X, "isSymmetrical": True, "quantMode": "pertoken", "dstType": 36}
    results = {"yOut": garbage(6, 8), "scaleOut": torch.zeros(6)}
    refused(npu, "aclnnDynamicQuantV4", dynamic, results, "dstType is 36 for yOut of Bits8")
    for most in (-1.0, 65536.0):
        given = dynamic | {"dstType": NUMBER, "dstTypeMax": most}
        refused(npu, "aclnnDynamicQuantV4", given, results, f"dstTypeMax {most:g} is not 0 to 32768")


BLOCKS = {"x": X, "rowBlockSize": 1, "colBlockSize": 128}, {"yOut": garbage(6, 8), "scaleOut": torch.zeros(6, 1)}
MOST = {"y": garbage(6, 8), "amax": torch.zeros(1)}
# Inputs, results, and the name of the rounding.
ROUNDED = {
    "aclnnDynamicBlockQuant": (*BLOCKS, "roundModeOptional"),
    "aclnnDynamicBlockQuantV2": (*BLOCKS, "roundModeOptional"),
    "aclnnQuantMax": ({"x": X, "scale": SCALE[:1]}, MOST, "roundMode"),
    "aclnnGroupedQuantMax": ({"x": X, "scale": SCALE[:1], "groupList": torch.tensor([6])}, MOST, "roundMode"),
    "aclnnDequantSwigluQuantV2": (
        {"x": X.half(), "quantModeOptional": "dynamic", "activateDim": -1},
        {"yOut": garbage(6, 4), "scaleOut": torch.zeros(6)},
        "roundModeOptional",
    ),
}


@pytest.mark.parametrize("op", ROUNDED)
def test_another_rounding_and_another_type_are_refused(npu, op) -> None:
    inputs, results, name = ROUNDED[op]
    given = inputs | {name: "round", "dstType": NUMBER}
    refused(npu, op, given | {name: "hybrid"}, results, "roundMode hybrid is not implemented for hifloat8; round is")
    refused(npu, op, given | {"dstType": 36}, results, "the type 36 is not that of the result, 34")
    if op.endswith("BlockQuantV2"):
        whole = results | {"yOut": torch.zeros(6, 8, dtype=torch.int8)}
        refused(npu, op, given | {"dstType": 2, "dstTypeMax": 1000.0}, whole, "dstTypeMax 1000 goes with hifloat8")
        refused(npu, op, given | {"dstTypeMax": -5.0}, results, "dstTypeMax -5 is not 0 to 32768")


@pytest.mark.parametrize("grad", [False, True])
def test_attention_refuses_modes_and_tokens_that_leave_out_keys(npu, grad) -> None:
    one, column, row = torch.ones(1, 2, 1, 1), torch.ones(1, 2, 4, 1), torch.zeros(1, 2, 4, 8).bfloat16()
    key = "keyIn" if grad else "key"
    given = {n: some(1, 2, 4, 8).view(CODES) for n in ("query", key, "value")}
    given |= {"dScaleQ": one, "dScaleK": one, "dScaleV": one, "scaleValue": 1.0, "headNum": 2, "inputLayout": "BNSD"}
    given |= {"preTokens": 2**31 - 1, "nextTokens": 4, "sparseMode": 0}
    out = {"softmaxMaxOut": column, "softmaxSumOut": column, "attentionOutOut": row}
    if grad:
        given |= {"dy": given["query"], "dScaleDy": one, "softmaxMax": column, "softmaxSum": column, "outDtype": 1}
        given |= {"attentionIn": row}
        out = {"dqOut": row, "dkOut": row, "dvOut": row}
    op = "aclnnQuantFlashAttentionScore" + ("Grad" if grad else "")
    call(npu, op, given | out)
    for name, number in (("sparseMode", 2), ("preTokens", 3), ("nextTokens", 0)):
        refused(npu, op, given | {name: number}, out, f"{name} {number} is not implemented")


def test_products_of_groups_of_codes(npu) -> None:
    x, w = some(5, 16), some(2, 16, 6, seed=3)
    x, w = (t.where(values(t).abs().lt(100), torch.zeros_like(t)) for t in (x, w))
    scale, rows, ends = rand(2, 6, seed=7).abs(), rand(5, seed=8).abs(), torch.tensor([2, 5])
    product = torch.cat([values(x)[:2] @ values(w)[0] * scale[0], values(x)[2:] @ values(w)[1] * scale[1]])
    expected = product * rows.double().unsqueeze(1)
    left = {p.name: None for p in npu.signatures["aclnnGroupedMatmulV5"] if "Optional" in p.name}
    inputs = {
        "x": [x.view(CODES)],
        "weight": [w.view(CODES)],
        "scaleOptional": [scale],
        "perTokenScaleOptional": [rows],
    }
    inputs |= {"groupListOptional": ends, "splitItem": 2, "groupType": 0, "groupListType": 0, "actType": 0}
    got = npu.call("aclnnGroupedMatmulV5", **left | inputs, out=[torch.zeros(5, 6)])["out"][0]
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    other = inputs | {"weight": [values(w).to(torch.float8_e4m3fn)], "out": [torch.zeros(5, 6)]}
    refused(npu, "aclnnGroupedMatmulV5", left | other, {}, "x is of Bits8, weight of Float8_e4m3fn")


def test_products_of_codes(npu) -> None:
    a, b = some(3, 40), some(40, 6, seed=4)
    a_scale, b_scale = rand(3, seed=7).abs(), rand(6, seed=8).abs()
    expected = (values(a) @ values(b)) * a_scale.double().unsqueeze(1) * b_scale.double()
    inputs = {"x1": a.view(CODES), "x2": b.view(CODES), "x1Scale": a_scale, "x2Scale": b_scale}
    for dtype in (torch.float32, torch.bfloat16):
        near(npu, "aclnnQuantMatmulV5", inputs, expected, dtype)
    turned = inputs | {"x2": b.t().contiguous().view(CODES), "transposeX2": True}
    near(npu, "aclnnQuantMatmulV5", turned, expected, torch.float32)
    out = {"out": torch.zeros(3, 6, dtype=torch.float16)}
    refused(npu, "aclnnQuantMatmulV5", inputs | {"x2": b.view(torch.int8)}, out, "x2 of Char|x1 is of Bits8, x2 of")
    other = inputs | {"x2": values(b).to(torch.float8_e4m3fn)}
    refused(npu, "aclnnQuantMatmulV5", other, out, "x1 is of Bits8, x2 of Float8_e4m3fn")


def test_a_weight_of_codes(npu) -> None:
    x, w, scale = rand(3, 40, dtype=torch.float16), some(40, 6), (rand(6, seed=5).abs() / 2**10).half()
    inputs = {"x": x, "weight": w.view(CODES), "antiquantScale": scale}
    expected = x.double() @ (values(w) * scale.double())
    near(npu, "aclnnWeightQuantBatchMatmulV2", inputs, expected, torch.float16, "y")


def test_what_does_not_list_it_refuses_it(npu) -> None:
    refused(npu, "aclnnAbs", {"self": some(4).view(CODES)}, {"out": torch.zeros(4)}, "self has data type hifloat8")
    refused(npu, "aclnnCos", {"input": some(4).view(CODES)}, {"out": torch.zeros(4)}, "input has data type hifloat8")
