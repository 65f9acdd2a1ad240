"""Values that no tensor has: an error of the stream, never a crash. Each was found by tests/opapi/fuzz.py --launch."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.client import AclError

FAR = -(2**31)


def test_one_hot_along_a_dimension_that_is_not_there(npu):
    one = torch.ones(1)
    with pytest.raises(AclError, match="Dimension out of range"):
        npu.call("aclnnOneHot", self=torch.tensor([1, 0]), numClasses=3, onValue=one, offValue=one, axis=FAR,
                 out=torch.zeros(2, 3))  # fmt: skip


@pytest.mark.parametrize("dim, batch_dims, words", [
    (FAR, 0, "Dimension out of range"),
    (0, 2**31 - 1, "is not a number of dimensions"),
    (0, FAR, "is not a number of dimensions"),
])  # fmt: skip
def test_gather_over_dimensions_that_are_not_there(npu, dim, batch_dims, words):
    with pytest.raises(AclError, match=words):
        npu.call("aclnnGatherV3", self=torch.ones(2, 3), dim=dim, index=torch.tensor([0, 1]), batchDims=batch_dims,
                 mode=0, out=torch.zeros(2, 3))  # fmt: skip


def test_a_range_longer_than_integers_count(npu):
    far = 2**63 - 1
    with pytest.raises(AclError, match="is more than an integer counts"):
        npu.call("aclnnRange", start=-far - 1, end=far, step=-1, out=torch.zeros(3, dtype=torch.int64))


def test_more_chunks_than_the_output_has(npu):
    with pytest.raises(AclError, match="chunks do not make an output of"):
        npu.call("aclnnChunkCat", tensors=[torch.ones(4, 2)], dim=0, numChunks=2**31 - 1, out=torch.zeros(2, 4))
    y = npu.call("aclnnChunkCat", tensors=[torch.ones(4, 2)], dim=0, numChunks=2, out=torch.zeros(2, 4))
    assert torch.equal(y["out"], torch.ones(2, 4))


def test_an_integer_range_whose_step_rounds_to_zero(npu):
    with pytest.raises(AclError, match="the step is 0"):
        npu.call("aclnnRange", start=0, end=3, step=0.5, out=torch.zeros(3, dtype=torch.int64))


def test_lists_of_other_lengths(npu):
    three = [torch.ones(2)] * 3
    with pytest.raises(AclError, match="lists of 3 and of 2 members") as error:
        npu.call("aclnnForeachMulList", x1=three, x2=three[:2], out=three)
    assert error.value.status == 161002
    with pytest.raises(AclError, match="momentum buffers has 2 members, not 3"):
        npu.call("aclnnFusedSgd", paramsRef=three, gradsRef=three, momentumBufferListOptionalRef=three[:2],
                 gradScaleOptional=None, weightDecay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False,
                 maximize=False, isFirstStep=True)  # fmt: skip


def test_a_list_with_a_member_that_is_null(npu):
    with pytest.raises(AclError, match="member 1 of a list of tensors is null") as error:
        npu.call("aclnnForeachAbs", x=[torch.ones(2), None], out=[torch.zeros(2)] * 2)
    assert error.value.status == 161001


@pytest.mark.parametrize("function", ["aclnnSort", "aclnnTopk"])
def test_indices_that_are_no_integers(npu, function):
    more = {"aclnnSort": {"stable": False, "descending": False}, "aclnnTopk": {"k": 4, "largest": True, "sorted": True}}
    with pytest.raises(AclError, match="indicesOut has data type") as error:
        npu.call(
            function, self=torch.ones(4), dim=0, valuesOut=torch.ones(4), indicesOut=torch.ones(4), **more[function]
        )
    assert error.value.status == 161002


def test_a_mask_that_names_no_element_of_its_window(npu):
    image, window = (
        torch.ones(1, 1, 4, 4),
        {"kernelSize": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]},
    )
    with pytest.raises(AclError, match="names element 9 of a window of 4"):
        npu.call("aclnnMaxPool2dWithMaskBackward", gradOutput=torch.ones(1, 1, 2, 2), self=image,
                 indices=torch.full((1, 1, 4, 64), 9, dtype=torch.int16).view(torch.int8)[..., :64].contiguous(),
                 ceilMode=False, gradInput=torch.zeros(1, 1, 4, 4), **window)  # fmt: skip


@pytest.mark.parametrize("mask", [torch.zeros(4, dtype=torch.uint8), torch.ones(63) > 0], ids=["bits", "bools"])
def test_a_mask_shorter_than_what_it_drops(npu, mask):
    with pytest.raises(AclError, match=f"a mask of {mask.numel()} elements for 64"):
        npu.call("aclnnDropoutV3Grad", gradY=torch.ones(64), mask=mask, scale=2.0, gradX=torch.zeros(64))
    with pytest.raises(AclError, match="an output of 63 elements for 64"):
        npu.call("aclnnDropoutV3Grad", gradY=torch.ones(64), mask=torch.ones(64) > 0, scale=2.0, gradX=torch.zeros(63))


@pytest.mark.parametrize("op, arguments, words", [
    ("PreluBackward", {"gradOutput": torch.tensor(1.0), "self": torch.tensor(1.0), "weight": torch.ones(3),
                       "gradInput": torch.tensor(0.0), "gradWeight": torch.zeros(3)}, "3 weights for a number"),
    ("DeepNormGrad", {"dy": torch.ones(3), "x": torch.ones(3), "gx": torch.ones(3), "gamma": torch.ones(2, 3),
                      "mean": torch.ones(1), "rstd": torch.ones(1), "alpha": 1.0, "dxOut": torch.ones(3),
                      "dgxOut": torch.ones(3), "dbetaOut": torch.ones(3), "dgammaOut": torch.ones(3)}, "a gamma of"),
    ("Randperm", {"n": 2**31, "seed": 0, "offset": 0, "out": torch.zeros(3, dtype=torch.int64)}, "for an output of 3"),
    ("TransformBiasRescaleQkv", {"qkv": torch.ones(1, 2, 6), "qkvBias": torch.ones(6), "numHeads": 0,
                                 "qOut": torch.ones(1), "kOut": torch.ones(1), "vOut": torch.ones(1)}, "of 0 heads"),
    ("ThnnFusedLstmCellBackward",
     {"gradHyOptional": torch.ones(2, 3), "gradCOptional": torch.ones(2, 3), "cx": torch.ones(2, 3),
      "cy": torch.ones(2, 3), "storage": torch.ones(2, 11), "hasBias": False, "gradGatesOut": torch.ones(2, 12),
      "gradCxOut": torch.ones(2, 3), "gradBiasOut": None}, "parameter storage has sizes"),
    ("ApplyAdamWV2", {"varRef": torch.ones(3), "mRef": torch.ones(2), "vRef": torch.ones(3),
                      "maxGradNormOptionalRef": None, "grad": torch.ones(3), "step": torch.ones(1), "lr": 0.1,
                      "beta1": 0.9, "beta2": 0.9, "weightDecay": 0.0, "eps": 1e-8, "amsgrad": False,
                      "maximize": False}, "an operand has sizes"),
])  # fmt: skip
def test_shapes_that_do_not_belong_together(npu, op, arguments, words):
    with pytest.raises(AclError, match=words):
        npu.call("aclnn" + op, **arguments)


def test_an_operand_that_the_signature_lets_be_null_and_the_kernel_needs(npu):
    with pytest.raises(AclError, match="returned 161001.* x "):
        npu.call("aclnnClippedSwiglu", x=None, groupIndexOptional=None, dim=-1, alpha=1.0, limit=7.0, bias=1.0,
                 interleaved=True, out=torch.zeros(2, 3))  # fmt: skip


@pytest.mark.parametrize("index", [-1, 4, 2**40])
def test_places_of_a_maximum_that_the_input_does_not_have(npu, index):
    x, y = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1, 1)
    place = torch.full((1, 1, 1, 1), index)
    window = dict(kernelSize=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1], ceilMode=False)
    with pytest.raises(AclError, match=f"index {index} is out of range for 4 elements"):
        npu.call("aclnnAdaptiveMaxPool2dBackward", gradOutput=y, self=x, indices=place, gradInput=x)
    with pytest.raises(AclError, match=f"index {index} is out of range for 4 elements"):
        npu.call("aclnnMaxPool2dWithIndicesBackward", gradOutput=y, self=x, indices=place, **window, gradInput=x)
    if index == 2**40:  # no int32
        return
    x, y, place = x[None], y[None], torch.full((1, 1, 1, 1, 1), index, dtype=torch.int32)
    window = {name: value[:1] * 3 if isinstance(value, list) else value for name, value in window.items()}
    with pytest.raises(AclError, match=f"index {index} is out of range for 4 elements"):
        npu.call("aclnnAdaptiveMaxPool3dBackward", gradOutput=y, self=x, indices=place, gradInput=x)
    with pytest.raises(AclError, match=f"index {index} is out of range for 4 elements"):
        npu.call("aclnnMaxPool3dWithArgmaxBackward", gradOutput=y, self=x, indices=place, **window, gradInput=x)


@pytest.mark.parametrize("label", [-5, 3, 2**40])
def test_labels_that_log_probs_does_not_have(npu, label):
    log_probs = torch.randn(4, 1, 3).log_softmax(-1)
    targets = torch.tensor([[1, label, -7]])  # what is behind the target's length does not count
    results = dict(negLogLikelihoodOut=torch.zeros(1), logAlphaOut=torch.zeros(1, 4, 7))
    given = dict(inputLengths=[4], blank=0, zeroInfinity=False)
    npu.call("aclnnCtcLoss", logProbs=log_probs, targets=targets, targetlengths=[1], **given, **results)
    with pytest.raises(AclError, match=f"label {label} of target 0 is not one of the 3"):
        npu.call("aclnnCtcLoss", logProbs=log_probs, targets=targets, targetlengths=[2], **given, **results)
    with pytest.raises(AclError, match=f"label {label} of target 0 is not one of the 3"):
        npu.call("aclnnCtcLossBackward", gradOut=torch.ones(1), logProbs=log_probs, targets=targets,
                 targetLengths=[2], negLogLikelihood=torch.ones(1), logAlpha=torch.zeros(1, 4, 5), **given,
                 out=torch.zeros(4, 1, 3))  # fmt: skip


def test_a_log_alpha_too_narrow_for_the_longest_target(npu):
    log_probs, targets = torch.randn(4, 1, 3).log_softmax(-1), torch.tensor([[1, 2]])
    with pytest.raises(AclError, match=r"logAlpha has the sizes \[1, 4, 1\], not \[1, 4, 5\] or more"):
        npu.call("aclnnCtcLossBackward", gradOut=torch.ones(1), logProbs=log_probs, targets=targets, inputLengths=[4],
                 targetLengths=[2], negLogLikelihood=torch.ones(1), logAlpha=torch.zeros(1, 4, 1), blank=0,
                 zeroInfinity=False, out=torch.zeros(4, 1, 3))  # fmt: skip
