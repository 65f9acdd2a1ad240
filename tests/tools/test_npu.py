"""tools/codegen/npu.py as a command: what it says to names and files that it does not know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import npu  # noqa: E402
import npu_grad  # noqa: E402


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "codegen" / "npu.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_row_is_shown():
    done = run("--show", "npu_swiglu")
    assert done.returncode == 0 and "aclnnSwiGlu" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nosuch", "nosuch has no row in ops/npu.yaml\n"),
        (
            "npu_matmul_compress_dequant",
            "npu_matmul_compress_dequant has no row in ops/npu.yaml; ops/npu_missing.yaml: ",
        ),
    ],
)
def test_a_name_without_a_row_is_an_error(name, said):
    done = run("--show", name)
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(said)


def test_status_of_a_list(tmp_path):
    (tmp_path / "list.tsv").write_text(
        "name\tschema\nnpu::npu_swiglu\tnpu::npu_swiglu(Tensor x, int dim=-1) -> Tensor\n"
        "npu::npu_nosuch\tnpu::npu_nosuch(Tensor x) -> Tensor\n"
        "npu::npu_sub_sample\tnpu::npu_sub_sample(Tensor x) -> Tensor\n"
    )
    done = run("--status", str(tmp_path / "list.tsv"))
    assert done.stdout.startswith("3 operators of the list: 1 present, 1 refused with a reason, 1 missing; "), (
        done.stderr
    )
    assert re.search(r"^  native +1 +0 +0 +0 +0 +1$", done.stdout, re.M)  # npu_swiglu, by formula
    assert "\nmissing (1): npu_nosuch: no reason is given" in done.stdout
    assert "\nrefused (1): npu_sub_sample: its documentation does not say" in done.stdout
    each = run("--each", str(tmp_path / "list.tsv")).stdout.splitlines()
    assert each[0].startswith("npu_swiglu\tnative\tvalues\t") and each[1] == "npu_nosuch\tmissing\tno reason is given"


def test_status_of_the_vendors_list_is_one_screen(facts):
    told = run("--status", str(facts / "torch_npu" / "custom_ops.tsv")).stdout.splitlines()
    counts = re.match(r"420 operators of the list: (\d+) present, (\d+) refused with a reason, 0 missing; ", told[0])
    assert int(counts[1]) + int(counts[2]) == 420 and len(told) <= 50
    assert sum(int(n) for n in re.findall(r"^refused \((\d+)\)", "\n".join(told), re.M)) == int(counts[2])
    total = next(line.split() for line in told if line.startswith("  all "))
    assert sum(map(int, total[1:3])) == int(total[-1]) == int(counts[1]), "one is judged without a value or behaviour"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("", "is no list of schemas"),
        ("other\tcolumns\n1\t2\n", "is no list of schemas"),
    ],
)
def test_a_list_that_is_none_is_one_sentence(tmp_path, text, said):
    if text is not None:
        (tmp_path / "list.tsv").write_text(text)
    done = run("--status", str(tmp_path / "list.tsv"))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"{tmp_path / 'list.tsv'} {said}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arg": {}}, r"`grad:` has unknown keys \['arg'\]; there are op, args, check"),
        ({"op": "npu_swiglu_backwards"}, "`grad:` calls npu_swiglu_backwards, which is no operator of the table"),
        ({"args": {"grad_output": "grad", "y": "grad"}}, r"npu_swiglu_backward has no \['y'\]"),
    ],
)
def test_a_mistake_in_a_gradient_that_calls_stops_the_build(change, said):
    (row,) = [r for r in npu.rows() if r.schema.full == "npu_swiglu"]
    rule = {"op": "npu_swiglu_backward", "args": {"grad_output": "grad"}, **change}
    schemas = {r.schema.full: r.schema for r in npu.rows()}
    with pytest.raises(SystemExit, match=rf"ops/npu.yaml:{row.line}: npu_swiglu: {said}"):
        npu_grad.Gradient(row._replace(data={**row.data, "grad": {"input": rule}}), schemas, "npu")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("func: npu_swiglu(Tensor ", "func: npu_swiglu(Tensr ", "npu_swiglu.*: Tensr is no type of an argument"),
        ("  types: {floating: ", "  types: {flaoting: ", r"`types:` \['flaoting'\]: neither a class nor a type"),
    ],
)
def test_a_typo_names_file_and_line(old, new, said, tmp_path, monkeypatch):
    text = npu.TABLE.read_text(encoding="utf-8")
    assert old in text
    table = tmp_path / "npu.yaml"
    table.write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(npu, "TABLE", table)
    with pytest.raises(SystemExit, match=rf"ops/npu.yaml:\d+: .*{said}"):
        npu.wrappers()
