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
    "an attribute without effect": (
        "Add: {in: x, attr: {alpha: 1}, run: f(x)}",
        r"Add: no expression reads the attributes \['alpha'\]",
    ),
    "an input without effect": ("Add: {in: x z?, run: f(x)}", r"Add: no expression reads the inputs \['z'\]"),
    "types of an input that is not there": ("Add: {in: x, same: x y, run: f(x)}", r"`same` names no input: \['y'\]"),
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
    keys = 'in: "x1 x2 z!", same: x1 x2, attr: {alpha: 1.5, beta: is 1, gamma: hint}, out: {y: like(x1)}'
    keys += ', run: "aclnnAdd(x1, x2, alpha, y)"'
    (row,) = table(tmp_path, monkeypatch, f"Axpy: {{{keys}}}")
    text = ge.generate(row, ge.computed())
    assert 'const auto alpha = step.real("alpha", 1.5);' in text
    assert "step.call(ACLNN(aclnnAdd), x1, x2, alpha, y);" in text
    assert 'step.need("beta", int64_t{1});' in text and "gamma" not in text
    assert 'step.need_none(2, "z");' in text and "step.need_same({0, 1});" in text
