"""Where docs/vendor_wheel.md says that the vendor's torch_npu is wrong by its own doing: what it asks for shows it."""

from __future__ import annotations

import json
import re

import pytest

from tests.conformance import client

POOL = r"aclnnMaxPool2dWithIndices\(.*-> int32\["
NOT_ASKED = ""  # no call of a library
# Case → its result, and its last call: the types are the caller's, so what is wrong was decided before it.
EXPECTED = {
    "double": (r"float32 \[4\]", r"aclnnInplaceCopy\(<> float32\[4\], float32\[4\]\)"),
    "float_power": (r"float32 \[4\]", r"aclnnPowTensorScalar\(float32\[4\], .*, -> float32\[4\]\)"),
    "max_pool1d": (r"float32 .*, int32", POOL),
    "max_pool2d": (r"float32 .*, int32", POOL),
    "max_pool3d": (r"float32 .*, int32", r"aclnnMaxPool3dWithArgmax\(.*-> int32\["),
    "adaptive_max_pool3d": (r"float32 .*, int64", r"aclnnAdaptiveMaxPool3d\(.*-> int64\["),  # right
    "gelu_tanh": (r"float32 \[4\]", r"aclnnGeluV2\(float32\[4\], 1, -> float32\[4\]\)"),  # right
    "logit_of_bool": ("RuntimeError: .*aclnnLogit", r"aclnnLogit\(bool\[4\], -1, -> bool\[4\]\): 161002"),
    "logit_of_int64": ("RuntimeError: .*aclnnLogit", r"aclnnLogit\(int64\[4\], -1, -> int64\[4\]\): 161002"),
    # The gradient copied (aclnnEqual is the case's own check); a library is not asked to apply the mask.
    "dropout_backward_scale_1": (r"float32 \[4\]", r"aclnnInplaceCopy\(.*\n.*aclnnEqual"),
    "dropout_backward_of_int64": (r"int64 \[4\]", r"aclnnInplaceCopy\(<> int64\[4\], int64\[4\]\)"),
    "batch_norm_without_training": (
        r".*, float32 \[2\], float32 \[2\]",
        r", 0, 0.1.*, -> float32\[2\], -> float32\[2\]\)",
    ),
    "binary_cross_entropy_with_logits": (r"float32 \[4\], None", r"WithLogitsBackward\(.*-> float32\[4\]\)"),
    "to_channels_last": ("RuntimeError: Only contiguous_format or preserve_format is supported", NOT_ASKED),
    "sparse_mm_reduce": ("NotImplementedError: Could not run 'aten::_sparse_mm_reduce_impl'.*SparseCsrnpu", NOT_ASKED),
    "sparse_sampled_addmm": (
        "NotImplementedError: Could not run 'aten::sparse_sampled_addmm'.*SparseCsrnpu",
        NOT_ASKED,
    ),
    "cdist_gradient": (r"float32 \[4, 3\]", r"aclnnCdistBackward\("),  # right
    "ciou_of_pairs": ("RuntimeError: .*aclnnCIoU", r"aclnnCIoU\(.*-> float32\[5, 3\].*: 161002"),
}
# Where aclop exists: the operator whose second result is a mask, older operators, and one by name.
MASK = (r"float32 .*, int8", r"aclnnMaxPool2dWithMask\(.*-> int8\[")
ON_A2 = {
    "max_pool1d": MASK,
    "max_pool2d": MASK,
    "adaptive_max_pool3d": (r"float32 .*, int32", r"aclnnAdaptiveMaxPool3d\(.*-> int32\["),
    "gelu_tanh": (r"float32 \[4\]", r"aclnnGelu\(float32\[4\], -> float32\[4\]\)"),
    "cdist_gradient": ("RuntimeError: .*CdistGrad, error code is 200006", "aclnnInplaceCopy"),
    "ciou_of_pairs": ("RuntimeError: .*CIoU, error code is 200006", NOT_ASKED),
}
ON = {"Ascend950": EXPECTED, "Ascend910B3": EXPECTED | ON_A2}


@pytest.mark.parametrize("chip", client.PROFILES)
def test_what_differs_is_what_the_wheel_asks_for(vendor, chip, tmp_path):
    log = str(tmp_path / "calls")
    done = client.run(
        vendor, "-m", "tests.conformance.differences", ANYCEND_CALL_LOG=log, ANYCEND_SOC=chip, TASK_QUEUE_ENABLE="0"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {line["case"]: line for line in map(json.loads, re.findall(r"^RESULT (.*)$", done.stdout, re.M))}
    assert set(found) == set(ON[chip])
    wrong = {}
    for name, (result, call) in ON[chip].items():
        last = "\n".join(found[name]["calls"][-2:])
        asked = last == "" if call == NOT_ASKED else re.search(call, last)
        if not (asked and re.match(result, found[name]["result"], re.S)):
            wrong[name] = found[name]
    assert wrong == {}
