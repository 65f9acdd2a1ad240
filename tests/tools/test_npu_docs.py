"""tools/codegen/npu_docs.py: docstrings of the NPU's own operators tell results and errors in words."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "codegen"))
import npu  # noqa: E402
import npu_docs  # noqa: E402

ROWS = npu.rows()
CPP = re.compile(
    r"::|->sym|scalar_type|\b(?:sized|like|nothing|given|halved|reduced)\(|sym_|\?(?! *\w+[,)=])|\.value_or"
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.schema.full)
def test_no_row_shows_cpp(row):
    assert CPP.findall(npu_docs.results(row) + npu_docs.source(row)) == []


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("like(x)", "the sizes and type of x"),
        ("like(x, at::kFloat)", "the sizes of x, float32"),
        ("sized(halved(input, dim), input.scalar_type())", "the sizes of input with dimension dim halved, input.dtype"),
        ("sized({x.sym_size(0), k}, at::kInt)", "sizes [x.shape[0]; k], int32"),
        ("given(p) ? like(*p) : nothing(at::kFloat)", "the sizes and type of p if p is given, else no elements"),
        (
            'sized({m == "no" ? x.sym_size(0) : c10::SymInt(1)}, at::kInt)',
            'sizes [x.shape[0] if m == "no", else 1], int32',
        ),
    ],
)  # fmt: skip
def test_words_of_a_rule(rule, told):
    assert npu_docs.words(rule) == told


def test_a_rule_without_words_stops_the_build_with_its_line():
    (row,) = [row for row in ROWS if row.schema.full == "npu_swiglu"]
    with pytest.raises(SystemExit, match=rf"npu\.yaml:{row.line}: npu_swiglu: .* has no words for twisted\(x\)"):
        npu_docs.results(row._replace(outputs={"out": "sized(twisted(x), at::kFloat)"}))


BY_NAME = {row.schema.full: row for row in ROWS}


@pytest.mark.parametrize("row", [row for row in ROWS if row.composite], ids=lambda row: row.schema.full)
def test_what_a_composed_row_says_of_devices(row):
    """One that calls an operator with a kernel of the NPU's runs where that does."""
    names = re.findall(r"(?<![\w.:])(\w+)\(", str(row.data["composite"]))
    called = [r for r in ROWS if r.schema.ident in names and not r.composite]
    told = npu_docs.source(row)
    made = any(a.type == "Device?" for a in row.schema.arguments)
    assert ("runs on every device" in told) == (not called and not made)
    assert ("makes a tensor on the npu only" in told) == made
    assert all(r.schema.full in told and "runs on the npu only" in told for r in called)


def test_what_is_written_is_told():
    assert npu_docs.results(BY_NAME["npu_gather_pa_kv_cache"]) == "Writes key, value."
    assert npu_docs.results(BY_NAME["npu_scatter_list_"]) == "Writes input."


def test_errors_are_told_as_they_are():
    """A number that names a kind is refused by type and sentence alike, a word by another type (test_arguments.py)."""
    told = " ".join(npu_docs.source(BY_NAME["npu_swiglu"]).split())
    assert "an unknown word or a number out of its range: ValueError" in told
    assert "a kind that is not implemented, and tensors on the CPU: NotImplementedError" in told


def test_numbers_of_a_schema_are_short():
    scope: dict = {}
    exec(npu_docs.module([BY_NAME["npu_rms_norm"]], {}), scope)  # noqa: S102
    assert scope["short"]("f(float e=9.9999999999999995e-07, float f=1., int g=2147483647)") == (
        "f(float e=1e-06, float f=1., int g=2147483647)"
    )


@pytest.mark.parametrize("name", ["npu_nms_with_mask", "npu_batch_nms", "npu_rotated_overlaps", "npu_rotated_iou"])
def test_a_composed_row_whose_results_require_no_gradient(name):
    assert npu_docs.source(BY_NAME[name]).endswith("runs on every device, and has no gradient.")
    assert npu_docs.source(BY_NAME["npu_iou"]).endswith("PyTorch derives the gradient.")
