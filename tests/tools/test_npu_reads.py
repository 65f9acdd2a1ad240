"""tools/codegen/npu_reads.py: what nothing reads of ops/npu.yaml stops the build unless the row says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import abi  # noqa: E402
import npu  # noqa: E402
import npu_arguments  # noqa: E402
import npu_docs  # noqa: E402
import npu_reads  # noqa: E402

CALL = "  call: 'f(input, {})'\n  out: like(input)\n  doc: a\n"
KERNEL = "  kernel: k\n  out: like(input)\n  doc: a\n"


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Generate from a row of npu_x(Tensor input, int? size, bool flag) and the C++ of its kernel."""

    def run(body, cpp=""):
        table = tmp_path / "npu.yaml"
        head = "- func: npu_x(Tensor input, int? size=None, bool flag=False) -> Tensor\n"
        table.write_text(head + body, encoding="utf-8")
        (tmp_path / "k.cpp").write_text(cpp, encoding="utf-8")
        monkeypatch.setattr(npu, "TABLE", table)
        meanings = npu_arguments.Meanings(dict.fromkeys(("input", "size", "flag"), "what it means"), {}, {})
        monkeypatch.setattr(npu_arguments, "meanings", lambda: meanings)
        monkeypatch.setattr(npu_reads, "KERNELS", tmp_path)
        npu_reads.sources.cache_clear()
        npu.write(tmp_path / "npu", tmp_path)
        return npu.rows()

    yield run
    npu_reads.sources.cache_clear()


def test_the_table_itself_passes():
    assert len(npu.wrappers()) == len(npu.rows())


@pytest.mark.parametrize(
    "expression",
    [
        "1",
        'name("flag")',  # a word
        "input.flag(size)",  # a member
        "at::flag, size",  # a qualified name
        "flag(size)",  # a function
    ],
)
def test_what_does_not_read_an_argument(build, expression):
    with pytest.raises(SystemExit, match=r"npu\.yaml:1: npu_x: nothing reads .*flag: give it to the call, refuse it"):
        build(CALL.format(expression))


@pytest.mark.parametrize("expression", ["size, flag", "size.value_or(0), !flag", "{flag, *size}"])
def test_what_reads_an_argument(build, expression):
    build(CALL.format(expression))


def test_a_check_reads_its_arguments(build):
    build(CALL.format("size") + '  check: refuse("flag", flag)\n')


def test_an_ignored_argument_goes_into_docstring_and_table(build):
    (row,) = build(CALL.format("size") + "  ignored: {flag: a hint}\n")
    assert "Without effect: flag (a hint)." in npu_docs.doc([row])
    assert "| a hint | `npu_x`: flag |" in npu_docs.ignored_table([row])
    (row,) = build(CALL.format("1") + '  ignored: {"*": no reason}\n')
    assert "Without effect: all arguments (no reason)." in npu_docs.doc([row])


@pytest.mark.parametrize("ignored", ["{flag: a hint}", "{input: a hint}", '{"*": a hint}', "{other: a hint}"])
def test_a_reason_that_is_not_needed_stops_the_build(build, ignored):
    with pytest.raises(SystemExit, match="`ignored:` names .*, which is read or no argument"):
        build(CALL.format("size, flag") + f"  ignored: {ignored}\n")


FFN = (
    "- func: npu_x(Tensor x, Tensor w1, Tensor w2, str activation, int precise=0) -> Tensor\n  aclnn: aclnnFFNV2\n"
    "  args: {{weight1: w1, weight2: w2, innerPrecise: precise, {}}}\n  out: like(x)\n  doc: a\n"
)


def test_what_the_software_npu_does_not_read_is_not_read(tmp_path, monkeypatch):
    """An argument that goes to CANN, which has no effect here, has a reason; it may be checked all the same."""
    given = {"x", "weight1", "weight2", "activation", "innerPrecise", "y"}
    none = ", ".join(f"{p.name}: nullptr" for p in abi.aclnn()["aclnnFFNV2"] if p.name not in given)
    table = tmp_path / "npu.yaml"
    monkeypatch.setattr(npu, "TABLE", table)

    def made(more):
        table.write_text(FFN.format(none) + more, encoding="utf-8")
        return npu.wrappers()

    with pytest.raises(SystemExit, match="npu_x: nothing reads precise: "):
        made("")
    made("  ignored: {precise: a hint}\n  check: check_number(precise)\n")
    with pytest.raises(SystemExit, match="`ignored:` names activation, which is read or no argument"):
        made("  ignored: {precise: a hint, activation: a hint}\n")


def kernel(parameters, body):
    return f"at::Tensor k_meta(int) {{ return {{}}; }}\nvoid k(int);\nat::Tensor k({parameters}) {{\n{body}\n}}\n"


def test_a_kernel_that_uses_what_it_is_given(build):
    build(KERNEL, kernel("const at::Tensor& x, std::optional<int64_t> n, bool b", "if (b) { return x + *n; }"))


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("const at::Tensor& x, std::optional<int64_t>, bool b", "return b ? x : -x;"),
        ("const at::Tensor& x, std::optional<int64_t> n, bool b", "return b ? x : -x;  // not n"),
        ("const at::Tensor& x, OptionalInt, bool b", "return f(x, b);"),
    ],
)
def test_a_kernel_s_parameter_without_name_or_use(build, parameters, body):
    with pytest.raises(SystemExit, match="npu_x: nothing reads size: "):
        build(KERNEL, kernel(parameters, body))


def test_a_kernel_that_does_not_exist(build):
    with pytest.raises(SystemExit, match="no definition of k with these arguments"):
        build(KERNEL, "void k(int) {}")
