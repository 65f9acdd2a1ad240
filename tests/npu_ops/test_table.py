"""ops/npu.yaml and its generator: schemas, bindings, and errors that name the row."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest
import torch
from torch_npu._operator_docs import short

import torch_npu
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import npu  # noqa: E402
import npu_arguments  # noqa: E402
import opapi  # noqa: E402


def test_schemas_equal_the_list(facts: Path) -> None:
    with (facts / "torch_npu" / "custom_ops.tsv").open(encoding="utf-8") as table:
        listed = {r["name"]: r["schema"] for r in csv.DictReader(table, delimiter="\t")}
    for row in npu.rows():
        if "own" in row.data:
            assert f"npu::{row.schema.full}" not in listed
        else:
            assert f"npu::{row.schema.text}" == listed[f"npu::{row.schema.full}"]


def test_schemas_of_makers_of_tensors_are_those_of_the_names(facts: Path) -> None:
    with (facts / "torch_npu" / "api.tsv").open(encoding="utf-8") as table:
        listed = {r["name"]: r["signature"] for r in csv.DictReader(table, delimiter="\t")}
    makers = {r.schema.full: r.schema.text for r in npu.rows() if r.schema.full.endswith("empty_with_format")}
    assert set(makers) == {"empty_with_format", "unsafe_empty_with_format"}
    assert makers == {name: listed[f"torch_npu.{name}"] for name in makers}


def test_an_operator_of_the_list_has_a_row_or_a_reason(facts: Path) -> None:
    with (facts / "torch_npu" / "custom_ops.tsv").open(encoding="utf-8") as table:
        listed = [r["name"].removeprefix("npu::") for r in csv.DictReader(table, delimiter="\t")]
    listed = {name for name in listed if "::" not in name}
    have, missing = {row.schema.full for row in npu.rows() if "own" not in row.data}, set(npu.missing())
    assert have & missing == set() and have | missing == listed


def test_what_is_missing_says_why() -> None:
    with pytest.raises(
        AttributeError, match="'npu_matmul_compress_dequant': its documentation does not say how a weight is compressed"
    ):
        torch_npu.npu_matmul_compress_dequant  # noqa: B018


def test_every_row_is_registered_and_has_a_docstring() -> None:
    for row in npu.rows():
        operator = getattr(torch.ops.npu, row.schema.name)
        assert row.schema.overload in operator.overloads() or not row.schema.overload
        documented = getattr(torch_npu, row.schema.name)
        if row.schema.name == "get_npu_format":  # a function that gives back a Format for the operator's number
            assert documented is not operator and documented.__doc__
        else:
            assert documented is operator and short(row.schema.text) in documented.__doc__
        keys = ["Meta", "PrivateUse1", "AutogradPrivateUse1", "CPU"]
        for key in keys:
            assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"npu::{row.schema.full}", key), (row, key)


def test_the_software_npu_computes_every_function_called() -> None:
    kernels = {row.name for row in opapi.rows()}
    sources = [*(ROOT / "torch_npu/csrc/ops/npu").glob("*.cpp"), npu.TABLE]
    called = set().union(*(re.findall(r"ACLNN\((\w+)\)", p.read_text(encoding="utf-8")) for p in sources))
    called |= {row.data["aclnn"] for row in npu.rows() if "aclnn" in row.data}
    assert called - kernels == set()


@pytest.mark.parametrize(
    "body, message",
    [
        (
            "  aclnn: aclnnMish\n  out: like(input)\n  shape: x\n  doc: a\n",
            r"npu.yaml:1: npu_x: unknown keys",
        ),
        ("  aclnn: aclnnMish\n  doc: a\n", "1 results, but `out:` has 0"),
        ("  out: like(input)\n  doc: a\n", "exactly one of aclnn, call, kernel, composite"),
        ("  aclnn: aclnnMish\n  out: like(input)\n", "`doc:` is needed"),
        ("  aclnn: aclnnCelu\n  args: {self: input}\n  out: like(input)\n  doc: a\n", "nothing to give to parameter `"),
        ("  aclnn: aclnnMish\n  args: {self: input, b: c}\n  out: like(input)\n  doc: a\n", r"names \['b'\]"),
        (
            "  aclnn: aclnnMish\n  args: {self: input}\n  out: like(input)\n  grad: {y: grad}\n  doc: a\n",
            r"names \['y'\]",
        ),
        (
            f"  aclnn: aclnnMish\n  args: {{self: {'input' + '.abs()' * 33}}}\n  out: like(input)\n  doc: a\n",
            "npu.yaml:1: npu_x: args: 203 characters; what is longer than 200 is a function: input.abs",
        ),
        (
            f"  composite: {'input' + '.abs()' * 33}\n  doc: a\n",
            "npu.yaml:1: npu_x: composite: 203 characters; what is longer than 200 is a function",
        ),
        ("  where: {input: x}\n  composite: input\n  doc: a\n", "npu.yaml:1: npu_x: `where:` names input, which"),
        (
            "  composite: npu_y(...)\n  doc: a\n",
            r"npu_x: `npu_y\(...\)`: `...` is for operators of the table",
        ),
        ("  composite: 'npu_x(..., y=1)'\n  doc: a\n", "npu.yaml:1: npu_x: npu_x has no argument y"),
        ("  composite: input\n  autocast: {higher: input}\n  doc: a\n", "npu_x: `autocast:` is one of lower, widest"),
        ("  composite: input\n  autocast: {lower: y}\n  doc: a\n", "npu_x: `autocast:` names y, which are no tensors"),
    ],
)
def test_mistakes_name_the_row(body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "npu.yaml"
    table.write_text("- func: npu_x(Tensor input) -> Tensor\n" + body, encoding="utf-8")
    monkeypatch.setattr(npu, "TABLE", table)
    with pytest.raises(SystemExit, match=message):
        npu.write(tmp_path / "npu", tmp_path)


SHORT = """\
- func: npu_x(Tensor input, int dim, bool flag) -> Tensor
  where: {pair: "{input, dim}"}
  composite: 'joined(pair, {"pair", of.pair}, flag)'
  doc: a
- func: npu_y(Tensor input, bool flag) -> Tensor
  composite: 'npu_x(..., dim=last(input, 1)).neg()'
  doc: a
"""


def test_what_a_row_says_in_short_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "npu.yaml"
    table.write_text(SHORT, encoding="utf-8")
    monkeypatch.setattr(npu, "TABLE", table)
    x, y = npu.rows()
    assert x.data["composite"] == 'joined({input, dim}, {"pair", of.pair}, flag)'
    assert y.data["composite"] == "npu_x(input, last(input, 1), flag).neg()"


def test_an_argument_that_nothing_can_be_given_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "npu.yaml"
    table.write_text(SHORT.replace("dim=last(input, 1)", "flag=true"), encoding="utf-8")
    monkeypatch.setattr(npu, "TABLE", table)
    with pytest.raises(SystemExit, match="npu.yaml:5: npu_y: nothing to give to dim of npu_x; say it behind"):
        npu.rows()


def test_generated_files_are_written_only_if_they_change(tmp_path: Path) -> None:
    npu.write(tmp_path / "npu", tmp_path)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    before = {p: p.stat().st_mtime_ns for p in files}
    npu.write(tmp_path / "npu", tmp_path)
    assert {p: p.stat().st_mtime_ns for p in files} == before


def test_operators_are_pt2_compliant() -> None:
    assert torch.Tag.pt2_compliant_tag in torch.ops.npu.npu_swiglu.default.tags


def test_what_a_meaning_calls_without_effect_is_checked_and_no_more() -> None:
    """One that is refused says so instead. Whoever adds one here has tried a value that is not the default."""
    of, without = npu_arguments.meanings().of, npu_arguments.without_effect
    told = {
        a.name
        for row in npu.rows()
        for a in row.schema.arguments
        if not without(row, a.name) and of(row.schema.full, a.name).endswith(npu_arguments.WITHOUT_EFFECT)
    }
    assert told == {"gen_mask_parallel", "inner_precise", "seq_lens", "sync", "top_k_guess"}


def test_the_page_of_errors_quotes_one_of_an_operator_without_a_gradient() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    name, instead = re.search(r"derivative for npu::(\w+) is not implemented: (use \S+\(.*?\)), or", page).groups()
    row = next(row for row in npu.rows() if row.schema.full == name)
    assert "grad" not in row.data and row.data["instead"].startswith(instead)
