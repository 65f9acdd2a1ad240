"""No kernel is wrong without a word: tests/opapi/accuracy.py's judgement of the calls that other tests make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.opapi.accuracy import C128, F64, Finding, Judge, floats, judged, load
from tests.opapi.cases import rand
from tests.opapi.client import ROOT, library_folder
from tests.opapi.test_exercised import WITHOUT_VALUES

# Where the numbers are not what the judge takes them for: operator → (what it says, why).
KNOWN = {
    "aclnnInplaceNormal": ("rounding", "fp32 draws are another transformation of the same bits than fp64's"),
    "aclnnInplaceNormalTensor": ("rounding", "as InplaceNormal"),
    "aclnnNormalTensorFloat": ("rounding", "as InplaceNormal"),
    "aclnnNormalFloatTensor": ("rounding", "as InplaceNormal"),
    "aclnnNormalTensorTensor": ("rounding", "as InplaceNormal"),
    "aclnnCtcLoss": ("single rounding overflow", "logAlphaOut: ATen leaves the alphas of shorter sequences undefined"),
    "aclnnConvTbcBackward": ("imaginary", "of the bias only the size counts"),
    "aclnnInplaceCopy": ("imaginary", "it is overwritten"),
    "aclnnInplaceRandom": ("imaginary", "it is overwritten"),
    "aclnnInplaceRandomTensor": ("imaginary", "it is overwritten"),
    "aclnnIndexCopy": ("imaginary", "outRef is overwritten"),
    "aclnnInplaceFillScalar": ("imaginary", "it is overwritten"),
    "aclnnInplaceFillTensor": ("imaginary", "it is overwritten"),
    "aclnnInplaceZero": ("imaginary", "it is overwritten"),
    "aclnnForeachZeroInplace": ("imaginary", "it is overwritten"),
    "aclnnReduceSum": ("imaginary", "a parameter names a real type: PyTorch keeps the real part"),
    "aclnnMean": ("imaginary", "a parameter names a real type: PyTorch keeps the real part"),
    "aclnnProd": ("imaginary", "a parameter names a real type: PyTorch keeps the real part"),
    "aclnnProdDim": ("imaginary", "a parameter names a real type: PyTorch keeps the real part"),
    "aclnnCumsum": ("imaginary", "a parameter names a real type: PyTorch keeps the real part"),
    "aclnnCumprod": ("imaginary", "a parameter names a real type: PyTorch keeps the real part"),
    **{
        f"aclnn{kind}Pad{n}dBackward": ("imaginary", "of self only the sizes count")
        for kind in ("Reflection", "Replication")
        for n in (1, 2, 3)
    },
}


def recorded(folder: Path, *tests: str) -> list[tuple[str, dict]]:
    """The calls of some tests, in a process of their own."""
    file = folder / "calls.pt"
    environment = os.environ | {"ANYCEND_TEST_CANN": str(library_folder())}
    command = [sys.executable, "-m", "pytest", "-p", "tests.opapi.recorder", f"--record-calls={file}", "-q",
               "-m", "not full", *tests]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    return load(file)


def unknown(findings: list[Finding]) -> str:
    return "\n".join(" ".join(f) for f in findings if f.what not in KNOWN.get(f.op, ("",))[0].split())


X, IDS = rand(6, 4), torch.tensor([2, 0, 1, 5, 4, 3], dtype=torch.int32)
PAIR = torch.tensor([[0, 1], [1, 0], [1, 1]], dtype=torch.int32)
ONE = torch.tensor(1.0)
# Rows whose values only the plugin's tests know.
EXPERTS = {
    "MoeGatingTopKSoftmax": {"x": X, "finishedOptional": None, "k": 2, "yOut": rand(6, 2),
                             "rowIdxOut": PAIR.repeat(2, 1), "expertIdxOut": PAIR.repeat(2, 1)},
    "MoeGatingTopKSoftmaxV2": {"x": X, "finishedOptional": None, "k": 2, "renorm": 1, "outputSoftmaxResultFlag": False,
                               "yOut": rand(6, 2), "expertIdxOut": PAIR.repeat(2, 1), "softmaxResultOutOptional": X},
    "MoeInitRouting": {"x": rand(3, 4), "rowIdx": IDS.view(3, 2), "expertIdx": PAIR, "activeNum": 3, "expandedXOut": X,
                       "expandedRowIdxOut": IDS, "expandedExpertIdxOut": IDS},
    "MoeFinalizeRoutingV2": {"expandedX": X, "expandedRowIdx": IDS, "x1Optional": rand(3, 4, seed=1),
                             "x2Optional": None, "biasOptional": rand(2, 4), "scalesOptional": rand(3, 2),
                             "expertIdxOptional": PAIR, "dropPadMode": 0, "out": rand(3, 4)},
    "MoeTokenPermute": {"tokens": rand(3, 4), "indices": PAIR, "numOutTokens": 6, "paddedMode": False,
                        "permuteTokensOut": X, "sortedIndicesOut": IDS},
    "MoeTokenPermuteGrad": {"permutedOutputGrad": X, "sortedIndices": IDS, "numTopk": 2, "paddedMode": False,
                            "out": rand(3, 4)},
    "MoeTokenUnpermute": {"permutedTokens": X, "sortedIndices": IDS, "probsOptional": rand(3, 2), "paddedMode": False,
                          "restoreShapeOptional": None, "out": rand(3, 4)},
    "MoeTokenUnpermuteGrad": {"permuteTokensOptional": X, "unpermutedTokensGrad": rand(3, 4, seed=1),
                              "sortedIndices": IDS, "probsOptional": rand(3, 2), "paddedMode": False,
                              "restoreShapeOptional": None, "permutedTokensGradOut": X, "probsGradOut": rand(3, 2)},
    "ApplyTopKTopP": {"logits": X, "p": rand(6).abs(), "k": IDS.clamp(1, 4), "out": X},
    "DynamicQuantV2": {"x": X, "smoothScalesOptional": rand(4).abs(), "groupIndexOptional": None, "dstType": 2,
                       "yOut": X.to(torch.int8), "scaleOut": rand(6), "offsetOut": rand(6)},
    "AscendAntiQuant": {"x": X.to(torch.int8), "scale": rand(4), "offset": rand(4, seed=1), "dstType": 1,
                        "sqrtMode": False, "y": X},
    "WeightQuantBatchMatmulV2": {"x": X, "weight": (rand(4, 5) * 9).to(torch.int8), "antiquantScale": rand(5),
                                 "antiquantOffsetOptional": rand(5, seed=1), "quantScaleOptional": None,
                                 "quantOffsetOptional": None, "biasOptional": rand(5, seed=2), "antiquantGroupSize": 0,
                                 "y": rand(6, 5)},
    "GroupedMatmulV5": dict.fromkeys(
        ["scaleOptional", "offsetOptional", "antiquantScaleOptional", "antiquantOffsetOptional",
         "perTokenScaleOptional", "groupListOptional", "activationInputOptional", "activationQuantScaleOptional",
         "activationQuantOffsetOptional", "tuningConfigOptional", "activationFeatureOutOptional",
         "dynQuantScaleOutOptional"]
    ) | {"x": [X], "weight": [rand(4, 5)], "biasOptional": [rand(5)], "splitItem": 0, "groupType": -1,
         "groupListType": 0, "actType": 0, "out": [rand(6, 5)]},
    "CrossEntropyLoss": {"input": X, "target": IDS.long() % 4, "weightOptional": rand(4).abs(),
                         "reductionOptional": "mean", "ignoreIndex": -100, "labelSmoothing": 0.1,
                         "lseSquareScaleForZloss": 0.0, "returnZloss": False, "lossOut": ONE, "logProbOut": X,
                         "zlossOut": None, "lseForZlossOut": None},
    "CrossEntropyLossGrad": {"gradLoss": ONE, "logProb": X, "target": IDS.long() % 4, "weightOptional": rand(4).abs(),
                             "gradZlossOptional": None, "lseForZlossOptional": None, "reductionOptional": "mean",
                             "ignoreIndex": -100, "labelSmoothing": 0.1, "lseSquareScaleForZloss": 0.0, "out": X},
    "ClippedSwiglu": {"x": X, "groupIndexOptional": None, "dim": -1, "alpha": 1.7, "limit": 7.0, "bias": 1.0,
                      "interleaved": True, "out": rand(6, 2)},
    "InplaceAdds": {"selfRef": X, "other": 1.5, "alpha": 1.0},
}  # fmt: skip


def test_kernels_made_of_several_operators(npu):
    _, findings = judged(npu, (("aclnn" + op, values) for op, values in EXPERTS.items()))
    assert not unknown(findings), unknown(findings)


@pytest.mark.parametrize("op, what, change", [
    ("aclnnAdd", "rounding", lambda name, r: {n: t.to(torch.bfloat16).to(t.dtype) for n, t in r.items()}),
    ("aclnnAdd", "single", lambda name, r: {n: t.float().to(t.dtype) if t.dtype == F64 else t for n, t in r.items()}),
    ("aclnnMul", "imaginary", lambda name, r: {n: t.real.to(t.dtype) if t.is_complex() else t for n, t in r.items()}),
    ("aclnnMul", "overflow", lambda name, r: {n: torch.where(t.abs() > 900, torch.inf, t) if t.dtype == torch.float16
                                              else t for n, t in r.items()}),
])  # fmt: skip
def test_the_judge_sees(npu, op, what, change):
    """Each kind of error, made on purpose in the results of a kernel that has none."""

    class Bad(Judge):
        def attempt(self, name, values):
            found = super().attempt(name, values)
            return change(name, found) if isinstance(found, dict) else found

    values = {"self": rand(4, 6), "other": rand(4, 6, seed=1), "out": rand(4, 6)}
    values |= {"alpha": 1.0} if op == "aclnnAdd" else {}
    assert not list(Judge(npu).judge(op, values))
    assert what in {f.what for f in Bad(npu).judge(op, values)}


def test_kernels_of_ours(npu, tmp_path):
    """Those that ATen does not have: in few seconds, so that each change meets it."""
    files = ("fused_types", "fused", "attention", "recurrent", "norm", "loss", "rows_other", "rows_spatial")
    tests = [f"tests/opapi/test_{name}.py" for name in files]
    judge, findings = judged(npu, recorded(tmp_path, *tests, "-k", "not dropout"))
    assert not unknown(findings), unknown(findings)
    assert len({op for op, dtype in judge.judged if dtype == F64}) > 150


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_every_kernel(npu, tmp_path):
    calls = recorded(tmp_path, "tests/opapi", *(f"--ignore=tests/opapi/test_{name}.py" for name in WITHOUT_VALUES))
    calls += [("aclnn" + op, values) for op, values in EXPERTS.items()]
    judge, findings = judged(npu, calls)
    assert not unknown(findings), unknown(findings)
    assert {f.op for f in findings} >= {op for op in KNOWN if npu.has(op)} - {"aclnnNormalTensorTensor"}
    given = {op for op, v in calls if any(floats(v[n]) for n in judge.inputs(op))}
    judged_in = {op for op, dtype in judge.judged if dtype in (F64, C128)}
    able = given - judge.refused
    assert len(judged_in) > 0.9 * len(able) and len(judged_in) > 650, sorted(able - judged_in)
