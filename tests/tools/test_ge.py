"""ops/ge.yaml: what the generator refuses, and what a row becomes."""

from __future__ import annotations

import pytest

from tools.codegen import ge

REFUSED = {
    "an unknown key": ("Add: {inn: x}", r"Add: unknown keys \['inn'\] \(section s\)"),
    "a long expression": ("Add: {run: " + "x" * 201 + "}", "Add: an expression of 201 characters"),
    "a default that is none": (
        "Add: {attr: {axis: required number}}",
        "attribute axis: 'required number' is no",
    ),
    "an input that is not there": ("Add: {in: x, writes: y}", r"`writes` names no input: \['y'\]"),
}


def table(tmp_path, monkeypatch, row: str) -> list[ge.Row]:
    path = tmp_path / "ge.yaml"
    path.write_text(f"s:\n  {row}\n", encoding="utf-8")
    monkeypatch.setattr(ge, "TABLE", path)
    return ge.rows()


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_row_is_named(tmp_path, monkeypatch, name):
    row, said = REFUSED[name]
    with pytest.raises(SystemExit, match=said):
        table(tmp_path, monkeypatch, row)


def test_a_function_that_nobody_computes_is_named(tmp_path, monkeypatch):
    (row,) = table(tmp_path, monkeypatch, "Add: {in: x, run: aclnnNothing(x)}")
    with pytest.raises(SystemExit, match=r"Add: ops/aclnn\.yaml has no aclnnNothing"):
        ge.generate(row, ge.computed())


def test_a_row_reads_what_it_uses(tmp_path, monkeypatch):
    keys = 'in: "x1 x2 z?", attr: {alpha: 1.5, beta: ignored}, out: {y: like(x1)}, run: "aclnnAdd(x1, x2, alpha, y)"'
    (row,) = table(tmp_path, monkeypatch, f"Axpy: {{{keys}}}")
    text = ge.generate(row, ge.computed())
    assert 'const auto alpha = step.real("alpha", 1.5);' in text
    assert "step.call(ACLNN(aclnnAdd), x1, x2, alpha, y);" in text
    assert "step.in(2)" not in text and "beta" not in text
