"""What phase one says of data types: ops/types.yaml."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.client import AclError
from tests.opapi.test_exercised import run_with_log
from tests.opapi.types import every, opapi

F, H = torch.ones(4), torch.ones(4).half()
N, C = torch.ones(4, dtype=torch.int64), torch.ones(4) * 1j
MASK = torch.full((16,), 255, dtype=torch.uint8)

C4 = torch.ones(1, 1, 2, 4) * 1j
ATTENTION = dict.fromkeys(["realShiftOptional", "dropMaskOptional", "paddingMaskOptional", "attenMaskOptional",
                           "prefixOptional", "softmaxMaxOut", "softmaxSumOut", "softmaxOutOut"]) | {
    "scaleValue": 1.0, "keepProb": 1.0, "preTokens": 9, "nextTokens": 9, "headNum": 1, "inputLayout": "BNSD",
    "innerPrecise": 0, "sparseMode": 0}  # fmt: skip

# A call → the words of its refusal.
REFUSED = {
    "a type without a kernel": ("DropoutV3Grad", {"gradY": N, "mask": MASK, "scale": 1.0, "gradX": N},
                                "gradY has data type int64, which the operator does not take"),
    "in place": ("InplaceExp", {"selfRef": N}, "selfRef has data type int64"),
    "a result without a kernel": ("Exp", {"self": N, "out": N}, "out has data type int64"),
    "a result below its operands": ("Mul", {"self": F, "other": N, "out": N},
                                    "out has data type int64, which does not hold the operands' float32"),
    "a real result of complex operands": ("Add", {"self": C, "other": F, "alpha": 1, "out": F},
                                          "out has data type float32, which does not hold the operands' complex64"),
    "a magnitude in integers": ("Abs", {"self": C, "out": N}, "does not hold the operands' complex64"),
    "complex numbers into real ones": ("Roll", {"x": C, "shifts": [1], "dims": [0], "out": F},
                                       "out has data type float32, which does not hold the operands' complex64"),
    "a kernel of real numbers": ("SwiGlu", {"x": C, "dim": 0, "out": C[:2]}, "x has data type complex64"),
    "attention, of a family's row": ("FlashAttentionScore", ATTENTION | {"query": C4, "key": C4, "value": C4,
                                                                         "attentionOutOut": C4},
                                     "query has data type complex64, which the operator does not take"),
    "a complex mask": ("MaskedScale", {"self": F, "mask": C, "scale": 1.0, "out": F}, "mask has data type complex64"),
    "integers without a common type": ("BitwiseAndTensor", {"self": N, "other": N.to(torch.uint16), "out": N},
                                       "uint16 and int64 have no common data type"),
    "a comparison without a common type": ("EqTensor", {"self": N, "other": N.to(torch.uint16), "out": N.bool()},
                                           "uint16 and int64 have no common data type"),
    "a judgement without a common type": ("Equal", {"self": F, "other": F.to(torch.float8_e5m2), "out": F.bool()},
                                          "float8_e5m2 and float32 have no common data type"),
    "operands of one type": ("Lerp", {"self": F, "end": H, "weight": F, "out": F},
                             "end has data type float16, where others have float32"),
    "members of two lists": ("ForeachMulList", {"x1": [F, F], "x2": [F, H], "out": [F, F]},
                             "x2 has data type float16, where others have float32"),
    "weights wider than their input": ("LayerNorm",
                                       {"input": F, "normalizedShape": [4], "weightOptional": H, "biasOptional": H,
                                        "eps": 1e-5, "out": F, "meanOutOptional": None, "rstdOutOptional": None},
                                       "weightOptional has data type float16, where others have float32"),
    "operands of which none is floating": ("MseLoss", {"self": N, "target": N, "reduction": 1, "out": F[0]},
                                           "the operands' int64 is not computed"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_phase_one_refuses(npu, case):
    op, arguments, words = REFUSED[case]
    with pytest.raises(AclError, match=words) as error:
        npu.prepare("aclnn" + op, **arguments)
    assert error.value.status == 161002


def test_half_inputs_take_float_weights(npu):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).half()
    y = npu.call("aclnnLayerNorm", input=x, normalizedShape=[4], weightOptional=F, biasOptional=F, eps=1e-5,
                 out=torch.empty_like(x), meanOutOptional=None, rstdOutOptional=None)["out"]  # fmt: skip
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(x.float(), [4], F, F).half(), rtol=2e-3, atol=2e-3)


def test_lists_of_several_types(npu):
    """Members of one list need not have one type: each is compared with the other list's."""
    out = npu.call("aclnnForeachMulList", x1=[F * 2, H * 2], x2=[F * 3, H * 3], out=[F * 0, H * 0])["out"]
    assert torch.equal(out[0], F * 6) and torch.equal(out[1], H * 6)


def test_an_operand_without_dimensions_counts_where_it_stands_higher(npu):
    """As PyTorch promotes: an int64 of no dimensions beside uint16 is one of its numbers."""
    x, seven = torch.tensor([3, 7, 60000]).to(torch.uint16), torch.tensor(7)
    mask = torch.zeros(3, dtype=torch.bool)
    assert npu.call("aclnnEqTensor", self=x, other=seven, out=mask)["out"].tolist() == [False, True, False]
    assert npu.call("aclnnMul", self=x, other=seven, out=x.clone())["out"].tolist() == [21, 49, 60000 * 7 % 65536]
    with pytest.raises(AclError, match="uint16 and bool have no common data type"):
        npu.prepare("aclnnMul", self=mask, other=x[0], out=x.clone())


def test_empty_members_of_a_list_have_any_type(npu):
    nothing = torch.empty(0, dtype=torch.bool)
    out = npu.call("aclnnStack", tensors=[nothing, nothing], dim=1, out=torch.empty(0, 2, dtype=torch.bool))["out"]
    assert out.shape == (0, 2)
    x, i = torch.arange(12.0).view(3, 4), torch.tensor([2, 0])
    assert torch.equal(
        npu.call("aclnnIndex", self=x, indices=[torch.empty(0), i], out=torch.empty(3, 2))["out"], x[:, i]
    )


# What a type decides together with something else, so that the type alone cannot be refused.
TOGETHER = {
    "aclnnFlashAttentionScore": "a dropout mask of bool has a byte an element, one of uint8 a bit",
    "aclnnFlashAttentionScoreGrad": "a dropout mask of bool has a byte an element, one of uint8 a bit",
    "aclnnAddcdiv": "a divisor of whole numbers is zero",
    "aclnnInplaceFillScalar": "a value that the type does not hold",
    "aclnnIndex": "a mask has the shape of what it indexes",
    "aclnnIndexPutImpl": "a mask has the shape of what it indexes",
    "aclnnDropoutGenMask": "a mask of bool has a byte an element, one of uint8 a bit",
    "aclnnDropoutGenMaskV2": "a mask of bool has a byte an element, one of uint8 a bit",
    "aclnnDropoutGenMaskV2Tensor": "a mask of bool has a byte an element, one of uint8 a bit",
}


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_nothing_that_phase_one_takes_is_refused_later(tmp_path):
    late = [t for t in every([run_with_log(tmp_path)], (r.name for r in opapi.rows())) if t.step == "launch"]
    rest = [f"{t.op}({t.types}): {t.words}" for t in late if t.op not in TOGETHER]
    assert not rest, "\n".join(rest)
    assert {t.op for t in late} == set(TOGETHER)
