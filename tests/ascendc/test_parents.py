"""Includes that go up in kernels of packages: which file g++ takes with opp_build's flags. compiler/parents.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = Path(__file__).resolve().parents[2] / "softnpu" / "ascendc" / "compiler"
UP = '#include "../../arch35/tool.h"\n'


@pytest.fixture(scope="module")
def parents():
    sys.path.insert(0, str(COMPILER))
    try:
        import parents
    finally:
        sys.path.remove(str(COMPILER))
    return parents


def project(folder: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [folder / name for name in files]


def values(parents, folder: Path, files: dict[str, str], kernel: str) -> str:
    """The kernel's text as g++ has it, with opp_build's folders."""
    paths = project(folder / "project", files)
    kernels = [p for p in paths if p.suffix == ".cpp"]
    inner = list(dict.fromkeys(p.parent for p in paths if p.suffix == ".h"))
    source = folder / "project" / kernel
    known = parents.Parents(kernels, [p for p in paths if p.suffix == ".h"], [folder / "project"])
    flags = known.flags(source, inner, folder / "up")
    command = ["g++", "-E", "-P", f"-I{folder / 'project'}", *flags, *(f"-I{f}" for f in inner), source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


OPERATORS = {
    f"{op}/op_kernel/{name}": text
    for op in ("a", "b")
    for name, text in {
        "k.cpp": '#include "inner/part.h"\n',
        "inner/part.h": UP,
        "arch35/tool.h": f"int {op};\n",
    }.items()
}


@pytest.mark.parametrize("op", ["a", "b"])
def test_each_operator_gets_its_own_of_one_relative_name(parents, tmp_path, op):
    files = {name.replace("k.cpp", f"{name[0]}.cpp"): text for name, text in OPERATORS.items()}
    files = {name: text.replace("inner/part.h", "../op_kernel/inner/part.h") for name, text in files.items()}
    assert values(parents, tmp_path, files, f"{op}/op_kernel/{op}.cpp") == f"int {op};"


def test_who_is_included_decides_and_not_who_lies_nearer(parents, tmp_path):
    """a's kernel includes b's header alone; a's own header, nearer to it, goes another way by the same name."""
    files = {**OPERATORS, "a/op_kernel/k.cpp": '#include "b/op_kernel/inner/part.h"\n'}
    assert values(parents, tmp_path, files, "a/op_kernel/k.cpp").endswith("int b;")


def test_two_headers_of_one_kernel_that_mean_different_files_are_an_error(parents, tmp_path):
    both = '#include "inner/part.h"\n#include "b/op_kernel/inner/part.h"\n'
    with pytest.raises(parents.SourceError, match=r'part.h:1: "../../arch35/tool.h" would be .*: rename one'):
        values(parents, tmp_path, {**OPERATORS, "a/op_kernel/k.cpp": both}, "a/op_kernel/k.cpp")


def test_what_gcc_finds_itself_is_left_alone(parents, tmp_path):
    """Beside the includer, though another of that name lies elsewhere, and below a folder of -I."""
    files = {
        "a/op_kernel/k.cpp": '#include "inner/part.h"\n#include "../shared/tool.h"\n',
        "a/op_kernel/inner/part.h": '#include "../tool.h"\n',
        "a/op_kernel/tool.h": "int beside;\n",
        "a/op_kernel/inner/deep/tool.h": "int wrong;\n",
        "a/shared/tool.h": "int shared;\n",
    }
    assert values(parents, tmp_path, files, "a/op_kernel/k.cpp") == "int beside; int shared;"


def test_headers_that_no_kernel_can_include_are_left_out_and_kernels_are_not(parents, tmp_path):
    (tmp_path / "wide.h").write_bytes("int i;".encode("utf-16"))
    (tmp_path / "wide.cpp").write_bytes("int i;".encode("utf-16"))
    known = parents.Parents([], [tmp_path / "wide.h"], [tmp_path])
    assert known.includes == {} and known.by_name == {}
    with pytest.raises(parents.SourceError, match="UTF-16"):
        parents.Parents([tmp_path / "wide.cpp"], [], [tmp_path])
