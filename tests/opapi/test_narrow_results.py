"""Quantization to 8-bit floats and to 4-bit integers, of which an int32 holds eight."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import garbage, rand

FLOAT8 = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def nibbles(packed: torch.Tensor) -> torch.Tensor:
    parts = torch.stack([(packed.long() >> 4 * i) & 15 for i in range(8)], -1).flatten(-2)
    return torch.where(parts >= 8, parts - 16, parts)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_rows_in_8_bit_floats(npu, dtype):
    x, smooth = rand(3, 2, 16), rand(16).abs() + 0.1
    step = (x * smooth).abs().amax(-1) / FLOAT8[dtype]
    wanted = (x * smooth / step.unsqueeze(-1)).clamp(-FLOAT8[dtype], FLOAT8[dtype]).to(dtype)
    got = npu.call("aclnnDynamicQuant", x=x, smoothScalesOptional=smooth, yOut=garbage(wanted), scaleOut=garbage(step))
    torch.testing.assert_close(got["scaleOut"], step)
    assert torch.equal(got["yOut"].float(), wanted.float())
    assert got["yOut"].float().abs().amax() == FLOAT8[dtype]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_rows_in_4_bit_integers(npu, asymmetric):
    x = rand(5, 24)
    packed = torch.zeros(5, 3, dtype=torch.int32)
    step = (x.amax(-1) - x.amin(-1)) / 15 if asymmetric else x.abs().amax(-1) / 7
    shift = 7 - x.amax(-1) / step if asymmetric else None
    got = npu.call(
        "aclnnDynamicQuantV2", x=x, smoothScalesOptional=None, groupIndexOptional=None, dstType=29, yOut=packed,
        scaleOut=garbage(step), offsetOut=garbage(step) if asymmetric else None,
    )  # fmt: skip
    torch.testing.assert_close(got["scaleOut"], step)
    scaled = x / step.unsqueeze(-1) + (shift.unsqueeze(-1) if asymmetric else 0)
    assert (nibbles(got["yOut"]) - scaled.round().clamp(-8, 7)).abs().max() == 0
    assert nibbles(got["yOut"]).amin() < 0 < nibbles(got["yOut"]).amax()


def test_static_results(npu):
    x, scale, zero = rand(4, 16), torch.full((1,), 0.05), torch.zeros(1)
    for dtype, most in FLOAT8.items():
        wanted = (x / scale).clamp(-most, most).to(dtype)
        got = npu.call("aclnnQuantize", x=x, scales=scale, zeroPoints=zero, dtype=0, axis=1, out=garbage(wanted))["out"]
        assert torch.equal(got.float(), wanted.float()) and got.float().frac().abs().max() > 0
        got = npu.call(
            "aclnnRmsNormQuant", x=x, gamma=torch.ones(16), beta=torch.zeros(16), scale=scale, offset=zero,
            epsilon=1e-6, y=garbage(wanted),
        )["y"]  # fmt: skip
        normed = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        torch.testing.assert_close(
            got.float(), (normed / scale).clamp(-most, most).to(dtype).float(), rtol=0.13, atol=0
        )
    packed = npu.call(
        "aclnnGroupQuant", x=x, scale=torch.tensor([2.0, 3.0]).view(2, 1).expand(2, 16).contiguous(),
        groupIndex=torch.tensor([1, 4]), offsetOptional=None, dstType=29, y=torch.zeros(4, 2, dtype=torch.int32),
    )["y"]  # fmt: skip
    factor = torch.tensor([2.0, 3.0, 3.0, 3.0]).unsqueeze(1)
    assert torch.equal(nibbles(packed), (x * factor).round().clamp(-8, 7).long())


def test_rows_of_experts_keep_8_bit_floats(npu):
    x, experts = rand(3, 8).to(torch.float8_e4m3fn), torch.tensor([[1], [0], [1]], dtype=torch.int32)
    scale = torch.tensor([1.0, 2.0, 4.0]).to(torch.float8_e8m0fnu)
    got = npu.call(
        "aclnnMoeInitRoutingV3", x=x, expertIdx=experts, scaleOptional=scale, offsetOptional=None, activeNum=3,
        expertCapacity=0, expertNum=2, dropPadMode=0, expertTokensNumType=1, expertTokensNumFlag=True, quantMode=-1,
        activeExpertRangeOptional=[0, 2], rowIdxType=0, expandedXOut=garbage(x),
        expandedRowIdxOut=torch.zeros(3, dtype=torch.int32), expertTokensCountOrCumsumOut=torch.zeros(2).long(),
        expandedScaleOut=garbage(scale),
    )  # fmt: skip
    order = torch.tensor([1, 0, 2])
    assert torch.equal(got["expandedXOut"].float(), x.float()[order])
    assert torch.equal(got["expandedScaleOut"].float(), scale.float()[order])


def test_cross_entropy_of_32_bit_classes(npu):
    logits, target = rand(5, 7), torch.tensor([0, 6, 3, -100, 2], dtype=torch.int32)
    wanted = torch.nn.functional.cross_entropy(logits, target.long())
    got = npu.call(
        "aclnnCrossEntropyLoss", input=logits, target=target, weightOptional=None, reductionOptional="mean",
        ignoreIndex=-100, labelSmoothing=0.0, lseSquareScaleForZloss=0.0, returnZloss=False,
        lossOut=torch.zeros(1), logProbOut=garbage(logits), zlossOut=None, lseForZlossOut=None,
    )  # fmt: skip
    torch.testing.assert_close(got["lossOut"].squeeze(), wanted)


def test_tokens_of_bytes_are_permuted(npu):
    tokens, indices = torch.arange(6, dtype=torch.int8).view(3, 2), torch.tensor([[1], [0], [1]])
    got = npu.call(
        "aclnnMoeTokenPermute", tokens=tokens, indices=indices, numOutTokens=3, paddedMode=False,
        permuteTokensOut=torch.zeros_like(tokens), sortedIndicesOut=torch.zeros(3, dtype=torch.int32),
    )  # fmt: skip
    assert torch.equal(got["permuteTokensOut"], tokens[torch.tensor([1, 0, 2])])
