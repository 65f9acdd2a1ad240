"""ops/aclnn.yaml against cann/abi/aclnn.yaml, that against the fact table, libopapi's symbols against both."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

import pytest

from tests.opapi.client import ROOT, abi, library_folder

sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import opapi  # noqa: E402

SIGNATURES = abi.aclnn()
ROWS = opapi.rows()


def test_every_row_names_a_declared_operator():
    assert [r.name for r in ROWS if r.name not in SIGNATURES] == []


def test_no_row_is_written_twice():
    text = opapi.TABLE.read_text(encoding="utf-8")
    names = re.findall(r"^  (acl\w+):", text, re.M)
    assert sorted(n for n in set(names) if names.count(n) > 1) == []
    assert len(names) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_row_generates(row):
    """An expression writes every output, and its parameters have a conversion (the generator refuses otherwise)."""
    code = opapi.generate(row, SIGNATURES[row.name])
    assert f"{row.name}GetWorkspaceSize(" in code and f"ops/aclnn.yaml:{row.line}" in code


def test_libopapi_exports_exactly_the_rows():
    names = subprocess.run(
        ["nm", "-D", "--defined-only", str(library_folder() / "libopapi.so")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    exported = {n for n in names if n.startswith(("aclnn", "aclStft")) and not n.endswith("GetWorkspaceSize")}
    assert exported == {r.name for r in ROWS} | {f"{r.name}GetMaxWorkspaceSize" for r in ROWS if r.graphs}


def corrected() -> set[str]:
    """Rows of the border that say they differ from the fact table."""
    text = (abi.ABI / "aclnn.yaml").read_text(encoding="utf-8")
    return set(re.findall(r"^(aclnn\w+): .*# corrected: \S", text, re.M))


def test_border_equals_the_fact_table(facts):
    """Order, types and names of every parameter; directions too, except on rows corrected with a reason."""
    differ, loose = [], corrected()
    with (facts / "abi" / "aclnn.tsv").open(encoding="utf-8") as table:
        for line in csv.DictReader(table, delimiter="\t"):
            text = line["params(type name [io?optional-evidence D=doc H=header N=name])"]
            if line["op"] not in SIGNATURES or not text.strip():
                continue
            told = [
                re.fullmatch(r"(.*?[ *])(\w+) \[(in/out|in|out)(.*)\]", p.strip()) for p in text.split(";") if p.strip()
            ]
            if None in told:
                differ.append((line["op"], text))
                continue
            ours = SIGNATURES[line["op"]]
            if [(re.sub(r"\s", "", m.group(1)), m.group(2)) for m in told] != [
                (re.sub(r"\s", "", p.type), p.name) for p in ours
            ]:
                differ.append((line["op"], "order, types or names"))
            elif line["op"] not in loose and [m.group(3).replace("in/out", "inout") for m in told] != [
                p.way for p in ours
            ]:
                differ.append((line["op"], "directions"))
    assert differ == []


def test_a_shard_does_not_depend_on_other_rows():
    assert (
        opapi.shard_of("aclnnAdd") == opapi.shard_of("aclnnAdd")
        and len({opapi.shard_of(r.name) for r in ROWS}) == opapi.SHARDS
    )


def test_show_prints_one_row():
    text = subprocess.run(
        [sys.executable, str(ROOT / "tools/codegen/opapi.py"), "--show", "aclnnAdd"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "run_aclnnAdd" in text and "plan.in(self" in text
