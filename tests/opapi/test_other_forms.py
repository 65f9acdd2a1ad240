"""Other forms: quantization by rounding and by direction, rows of experts, slices, boxes, the next step of a server."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand
from tests.opapi.client import AclError

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["round", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("twice", [False, True])
def test_a_scale_with_a_choice_of_rounding(npu, dtype, mode, twice):
    x, scale, offset = (rand(3, 5, dtype=dtype) * 9).t(), rand(3, dtype=dtype), rand(3, dtype=dtype, seed=4)
    value = x.float() * scale.float()
    value = value * scale.float() + offset.float() if twice else value + offset.float()
    expected = getattr(torch, mode)(value).clamp(-128, 127).to(torch.int8)
    inputs = {"x": x, "scale": scale, "offset": offset, "sqrtMode": twice, "roundMode": mode, "dstType": 2}
    compare(npu, "aclnnAscendQuant", inputs, {"y": expected})


def test_what_is_clamped_and_what_is_refused(npu):
    x, scale = torch.tensor([[400.0, -400.0, 2.5]]), torch.ones(3)
    inputs = {"x": x, "scale": scale, "roundMode": "round", "dstType": 2}
    compare(npu, "aclnnAscendQuant", inputs, {"y": torch.tensor([[127, -128, 2]], dtype=torch.int8)})
    empty = {"x": torch.ones(0, 3), "scale": scale, "roundMode": "round", "dstType": 2}
    compare(npu, "aclnnAscendQuant", empty, {"y": torch.ones(0, 3, dtype=torch.int8)})
    y = torch.zeros(1, 3, dtype=torch.int8)
    with pytest.raises(AclError, match="dstType 29 is not implemented"):
        compare(npu, "aclnnAscendQuant", inputs | {"dstType": 29}, {"y": y})
    with pytest.raises(AclError, match="roundMode nearest is not"):
        compare(npu, "aclnnAscendQuant", inputs | {"roundMode": "nearest"}, {"y": y})
    with pytest.raises(AclError, match="dstType 2 is not implemented for y of Int"):
        compare(npu, "aclnnAscendQuant", inputs, {"y": y.int()})


@pytest.mark.parametrize("kind", [3, 29])
def test_eight_4_bit_results_in_a_number(npu, kind):
    x = torch.tensor([[0.0, 1, -1, 7, -8, 9, -9, 2.5], [3, 2, 1, 0, -1, -2, -3, -4]])
    inputs = {"x": x, "scale": torch.ones(8), "roundMode": "round", "dstType": kind}
    words = [sum((n & 15) << 4 * i for i, n in enumerate(row)) for row in x.round().clamp(-8, 7).long().tolist()]
    packed = [[word - 2**32 if word >= 2**31 else word] for word in words]
    compare(npu, "aclnnAscendQuant", inputs, {"y": torch.tensor(packed, dtype=torch.int32)})


@pytest.mark.parametrize("op", ["aclnnDynamicQuantV3", "aclnnDynamicQuantV4"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("mode, dims", [("pertoken", (2,)), ("pertensor", (0, 1, 2)), ("perchannel", (1,))])
def test_scales_of_rows_columns_and_everything(npu, op, dtype, mode, dims):
    x, smooth = rand(2, 3, 5, dtype=dtype), rand(3 if mode == "perchannel" else 5, dtype=dtype, seed=1)
    value = x.float() * (smooth.float()[:, None] if mode == "perchannel" else smooth.float())
    step = value.abs().amax(dims, keepdim=True) / 127
    scale = step.squeeze(dims) if mode != "pertensor" else step.reshape(1)
    inputs = {"x": x, "smoothScalesOptional": smooth, "dstType": 2, "isSymmetrical": True, "quantMode": mode}
    compare(npu, op, inputs, {"yOut": (value / step).round().to(torch.int8), "scaleOut": scale})
    step = (value.amax(dims, keepdim=True) - value.amin(dims, keepdim=True)) / 255
    offset = 127 - value.amax(dims, keepdim=True) / step
    expected = {
        "yOut": (value / step + offset).round().clamp(-128, 127).to(torch.int8),
        "scaleOut": step.reshape(scale.shape), "offsetOut": offset.reshape(scale.shape),
    }  # fmt: skip
    compare(npu, op, inputs | {"isSymmetrical": False}, expected)


def test_dynamic_scales_of_floating_types_and_groups(npu):
    x, smooth, groups = rand(4, 6), rand(2, 6, seed=2), torch.tensor([1, 4], dtype=torch.int32)
    value = x * smooth[[0, 1, 1, 1]]
    step = value.abs().amax(1, keepdim=True) / 448
    inputs = {
        "x": x,
        "smoothScalesOptional": smooth,
        "groupIndexOptional": groups,
        "dstType": 36,
        "isSymmetrical": True,
    }
    results = npu.call("aclnnDynamicQuantV3", **inputs, quantMode="pertoken", scaleOut=torch.zeros(4), offsetOut=None,
                       yOut=torch.zeros(4, 6, dtype=torch.float8_e4m3fn))  # fmt: skip
    torch.testing.assert_close(results["scaleOut"], step.squeeze(1))
    assert torch.equal(results["yOut"].float(), (value / step).to(torch.float8_e4m3fn).float())
    with pytest.raises(AclError, match="quantMode sideways is not"):
        npu.call("aclnnDynamicQuantV3", **inputs, quantMode="sideways", yOut=torch.zeros(4, 6, dtype=torch.int8),
                 scaleOut=torch.zeros(4), offsetOut=None)  # fmt: skip
    with pytest.raises(AclError, match="dstTypeMax 12 is not implemented"):
        npu.call("aclnnDynamicQuantV4", **inputs, quantMode="pertoken", dstTypeMax=12.0,
                 yOut=torch.zeros(4, 6, dtype=torch.int8), scaleOut=torch.zeros(4), offsetOut=None)  # fmt: skip


@pytest.mark.parametrize("out", [torch.int64, torch.uint64])
def test_the_bits_of_a_scale(npu, out):
    """1 + 2**-10 fits into 19 bits, 2**-11 of it is half of the last one, 2**-12 a quarter."""
    scale, offset = torch.tensor([1 + 2.0**-10, 1 + 2.0**-11, 1 + 2.0**-12]), torch.tensor([3.0, -1.0, 400.0])
    for mode, lasts in ((0, (1, 0, 0)), (1, (1, 1, 0))):
        bits = [0x3F800000 + (last << 13) | 1 << 46 for last in lasts]
        compare(npu, "aclnnTransQuantParamV3", {"scale": scale, "roundMode": mode},
                {"out": torch.tensor(bits, dtype=torch.int64).view(out)})  # fmt: skip
        with_offset = [b | (o & 0x1FF) << 37 for b, o in zip(bits, (3, -1, 255), strict=True)]
        compare(npu, "aclnnTransQuantParamV3", {"scale": scale, "offset": offset, "roundMode": mode},
                {"out": torch.tensor(with_offset, dtype=torch.int64).view(out)})  # fmt: skip
    with pytest.raises(AclError, match="roundMode 2 is not 0 or 1"):
        compare(npu, "aclnnTransQuantParamV3", {"scale": scale, "roundMode": 2}, {"out": torch.zeros(3, dtype=out)})


@pytest.mark.parametrize("op", ["aclnnWeightQuantBatchMatmulV3", "aclnnWeightQuantBatchMatmulNz"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_product_with_a_quantized_weight(npu, op, dtype):
    x, scale, offset, bias = (rand(*s, dtype=dtype) for s in ((3, 8), (1, 5), (1, 5), (5,)))
    weight = torch.randint(-128, 127, (8, 5), generator=torch.Generator().manual_seed(1), dtype=torch.int8)
    wide = (weight.float() + offset.float()) * scale.float()
    inputs = {
        "x": x,
        "weight": weight,
        "antiquantScale": scale,
        "antiquantOffsetOptional": offset,
        "biasOptional": bias,
    }
    expected = (x.float() @ wide + bias.float()).to(dtype)
    compare(npu, op, inputs, {"y": expected}, rtol=1e-2, atol=1e-3 if dtype == torch.float32 else 4)


@pytest.mark.parametrize("op", ["aclnnWeightQuantBatchMatmulV3", "aclnnWeightQuantBatchMatmulNz"])
def test_a_product_with_a_weight_of_four_bits(npu, op):
    """Eight of a row in each int32, the first in the lowest bits."""
    x, scale = rand(3, 4), rand(1, 8)
    weight = torch.randint(-8, 8, (4, 8), generator=torch.Generator().manual_seed(2))
    words = [sum((n & 15) << 4 * i for i, n in enumerate(row)) for row in weight.tolist()]
    packed = torch.tensor([[w - 2**32 if w >= 2**31 else w] for w in words], dtype=torch.int32)
    expected = {"y": x @ (weight * scale)}
    compare(npu, op, {"x": x, "weight": packed, "antiquantScale": scale}, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_experts_with_counts(npu, dtype):
    x = rand(4, 3, dtype=dtype)
    experts = torch.tensor([[2, 0], [1, 2], [0, 2], [2, 1]], dtype=torch.int32)
    flat = experts.flatten().tolist()
    order = sorted(range(8), key=lambda i: flat[i])
    rows = torch.stack([x[i // 2] for i in order])
    places = torch.tensor([order.index(i) for i in range(8)], dtype=torch.int32)
    for flag, counts in ((1, [2, 4, 8]), (2, [2, 2, 4])):
        inputs = {"x": x, "expertIdx": experts, "expertNumOptional": 3, "expertTokensCountOrCumsumFlagOptional": flag}
        outputs = {
            "expandedXOut": rows, "expandedRowIdxOut": places,
            "expertTokensCountOrCumsumOutOptional": torch.tensor(counts, dtype=torch.int32),
        }  # fmt: skip
        compare(npu, "aclnnMoeInitRoutingV2", inputs, outputs)
    compare(npu, "aclnnMoeInitRoutingV2", {"x": x, "expertIdx": experts},
            {"expandedXOut": rows, "expandedRowIdxOut": places})  # fmt: skip


def test_rows_of_experts_that_drop_and_pad(npu):
    x, experts = rand(4, 3), torch.tensor([[1], [0], [1], [1]], dtype=torch.int32)
    inputs = {"x": x, "expertIdx": experts, "expertNumOptional": 2, "expertCapacityOptional": 2,
              "dropPadModeOptional": 1, "expertTokensBeforeCapacityFlagOptional": True}  # fmt: skip
    zero = torch.zeros(3)
    outputs = {
        "expandedXOut": torch.stack([torch.stack([x[1], zero]), torch.stack([x[0], x[2]])]),
        "expandedRowIdxOut": torch.tensor([2, 0, 3, -1], dtype=torch.int32),
        "expertTokensBeforeCapacityOutOptional": torch.tensor([1, 3], dtype=torch.int32),
    }
    compare(npu, "aclnnMoeInitRoutingV2", inputs, outputs)
    with pytest.raises(AclError, match="dropPadMode 1 needs an expertNum"):
        compare(npu, "aclnnMoeInitRoutingV2", inputs | {"expertCapacityOptional": 0}, outputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_strided_slices(npu, dtype):
    x = (torch.arange(60).reshape(3, 4, 5) % 7).to(dtype)
    cases = [
        ([0, 1, 0], [3, 4, 5], [2, 1, 2], {}, x[0:3:2, 1:4, 0:5:2]),
        ([1, 0, 0], [2, 0, 0], [1, 1, 1], {"beginMask": 6, "endMask": 6}, x[1:2]),
        ([2, 0, 4], [0, 4, 0], [-1, 3, -2], {"endMask": 1}, x.flip(0)[:, ::3, [4, 2]]),
        ([-1, 0], [0, -1], [1, 1], {"shrinkAxisMask": 1}, x[-1, 0:-1]),
        ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsisMask": 1, "newAxisMask": 2}, x[..., None, 1:3]),
        ([2], [2], [1], {}, x[2:2]),
        ([0], [9], [1], {}, x),
    ]
    masks = dict.fromkeys(("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask"), 0)
    for begin, end, strides, given, expected in cases:
        inputs = {"self": x.transpose(0, 1).contiguous().transpose(0, 1), "begin": begin, "end": end,
                  "strides": strides}  # fmt: skip
        compare(npu, "aclnnStridedSlice", inputs | masks | given, {"out": expected.contiguous()})
    with pytest.raises(AclError, match="stride 0 is 0"):
        compare(npu, "aclnnStridedSlice", {"self": x, "begin": [0], "end": [1], "strides": [0]}, {"out": x[:1]})


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_gradient_of_repeated_slices(npu, dtype):
    """The two examples of the page, and a slice that was repeated no time."""
    gradient = rand(2, 6, dtype=dtype)
    for repeats, ends in (([1, 2, 2, 1], [0, 1, 3, 5, 6]), ([2], [0, 2, 4, 6]), ([3, 0, 3], [0, 3, 3, 6])):
        parts = [gradient.float()[:, a:b].sum(1) for a, b in zip(ends, ends[1:], strict=False)]
        expected = torch.stack(parts, 1).to(dtype)
        for index in (torch.int32, torch.int64):
            inputs = {"yGrad": gradient, "repeats": torch.tensor(repeats, dtype=index), "axis": -1}
            compare(npu, "aclnnRepeatInterleaveGrad", inputs, {"out": expected})
    with pytest.raises(AclError, match="adds up to 5, yGrad has 6"):
        compare(npu, "aclnnRepeatInterleaveGrad",
                {"yGrad": gradient, "repeats": torch.tensor([2, 3]), "axis": 1}, {"out": gradient[:, :2]})  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("steps, width", [(7, 3), (2, 4)])
def test_a_causal_convolution_and_its_gradients(npu, dtype, steps, width):
    x, weight = rand(steps, 2, 5, dtype=dtype), rand(width, 5, dtype=dtype)
    mask = torch.rand(2, steps, generator=torch.Generator().manual_seed(3)) > 0.3
    a, w = x.double().requires_grad_(), weight.double().requires_grad_()
    padded = torch.cat([torch.zeros(width - 1, 2, 5), a])
    out = sum(padded[k : k + steps] * w[k] for k in range(width)) * mask.t()[:, :, None]
    exact = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    inputs = {"x": x, "weight": weight, "maskOptional": mask}
    compare(npu, "aclnnMaskedCausalConv1d", inputs, {"out": out.detach().to(dtype)}, **exact)
    gradient = rand(steps, 2, 5, dtype=dtype, seed=8)
    dx, dw = torch.autograd.grad(out, (a, w), gradient.double())
    expected = {"gradXOut": dx.to(dtype), "gradWeightOut": dw.to(dtype)}
    compare(npu, "aclnnMaskedCausalConv1dBackward", inputs | {"gradY": gradient}, expected, **exact)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_overlaps_of_boxes(npu, dtype, mode):
    a = torch.tensor([[0, 0, 4, 4], [1, 1, 3, 2], [5, 5, 6, 7]], dtype=dtype)
    b = torch.tensor([[2, 2, 6, 6], [0, 0, 4, 4], [8, 8, 9, 9]], dtype=dtype)
    size = lambda p: (p[2] - p[0]) * (p[3] - p[1])

    def overlap(p, q):
        p, q = p.tolist(), q.tolist()
        both = max(min(p[2], q[2]) - max(p[0], q[0]), 0) * max(min(p[3], q[3]) - max(p[1], q[1]), 0)
        return both / ((size(q) if mode == "iof" else size(p) + size(q) - both) + 0.5)

    pairs = torch.tensor([[overlap(p, q) for q in b] for p in a])
    inputs = {"bBoxes": a, "gtBoxes": b, "mode": mode, "eps": 0.5}
    compare(npu, "aclnnIou", inputs, {"overlap": pairs.to(dtype)})
    rows = torch.tensor([[overlap(p, q)] for p, q in zip(a, b, strict=True)])
    compare(npu, "aclnnIou", inputs | {"aligned": True}, {"overlap": rows.to(dtype)})
    with pytest.raises(AclError, match="mode giou is not iou or iof"):
        compare(npu, "aclnnIou", inputs | {"mode": "giou"}, {"overlap": pairs.to(dtype)})


def test_the_next_step_of_a_server(npu):
    tokens, positions, lengths, slots = (torch.arange(4) + 10 * i for i in range(4))
    tables, sampled = torch.arange(24).reshape(4, 6) * 3, torch.tensor([[50], [51]])
    expected = [t.clone() for t in (tokens, positions, lengths, slots)]
    for i in range(2):
        old = int(lengths[i])
        values = (int(sampled[i]), old, old + 1, int(tables[i, old // 8]) * 8 + old % 8)
        for t, value in zip(expected, values, strict=True):
            t[i] = value
    inputs = {"inputTokens": tokens, "sampledTokenIds": sampled, "inputPositions": positions, "seqLens": lengths,
              "slotMapping": slots, "blockTables": tables, "numSeqs": 4, "blockSize": 8}  # fmt: skip
    results = npu.call("aclnnAdvanceStep", **inputs, numQueries=2)
    names = ("inputTokens", "inputPositions", "seqLens", "slotMapping")
    for name, e in zip(names, expected, strict=True):
        assert torch.equal(results[name], e)
    with pytest.raises(AclError, match="numQueries 5"):
        npu.call("aclnnAdvanceStep", **inputs, numQueries=5)


def test_the_next_step_with_guesses(npu):
    make = lambda first: torch.arange(first, first + 6).reshape(2, 3)
    tables, guesses = torch.tensor([[7, 3, 1, 8], [2, 5, 9, 4]]), torch.tensor([[1, 2], [3, 4]])
    accepted, positions = torch.tensor([2, 0]), make(4)
    inputs = {"inputTokens": make(100), "sampledTokenIds": make(200), "inputPositions": positions, "seqLens": make(5),
              "slotMapping": make(0), "blockTables": tables, "specToken": guesses, "acceptedNum": accepted}  # fmt: skip
    results = npu.call("aclnnAdvanceStepV2", **inputs, numSeqs=2, numQueries=2, blockSize=4)
    place = positions + 1 + accepted.unsqueeze(1)
    assert results["inputTokens"].tolist() == [[202, 1, 2], [203, 3, 4]]
    assert torch.equal(results["inputPositions"], place) and torch.equal(results["seqLens"], place + 1)
    assert torch.equal(results["slotMapping"], tables.gather(1, place // 4) * 4 + place % 4)


def test_the_third_static_form_scales_twice_rounds_as_told_and_packs(npu):
    x, scale = rand(2, 8), torch.tensor([0.5, 3.0])
    inputs = {"x": x * 4, "scale": scale, "offset": None, "sqrtMode": True, "roundMode": "floor", "axis": 0}
    expected = (x * 4 * scale.view(2, 1) ** 2).floor().clamp(-128, 127).to(torch.int8)
    compare(npu, "aclnnAscendQuantV3", inputs | {"dstType": 2}, {"y": expected})
    arguments = inputs | {"dstType": 29, "y": torch.zeros(2, 1, dtype=torch.int32)}
    packed = npu.call("aclnnAscendQuantV3", **arguments)["y"].long()
    four = torch.cat([(packed >> 4 * i) & 15 for i in range(8)], 1)
    assert torch.equal(
        torch.where(four > 7, four - 16, four), (x * 4 * scale.view(2, 1) ** 2).floor().clamp(-8, 7).long()
    )
