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
