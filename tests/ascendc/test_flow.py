"""docs/ascendc.md, run as it stands: the source, the command, the program on npu tensors; the errors that it and
docs/kernel_check.md show."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import forked
from tests.ascendc.kit import BISHENG, SCRATCH, bisheng

ROOT = Path(__file__).resolve().parents[2]
BLOCKS, CHECKED = (
    re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    for page in ("ascendc.md", "kernel_check.md")
)
CPP, SHELL, PYTHON = (next(text for kind, text in BLOCKS if kind == wanted) for wanted in ("cpp", "sh", "python"))
HEADERS, OPERATOR = [text for kind, text in BLOCKS if kind == "cpp"][1:3]
ONE_FILE = [text for kind, text in BLOCKS if kind == "sh"][1]
FAILED = "add failed on device 0: "
BOUNDS, ORDER = (" ".join(text.split()) for kind, text in BLOCKS + CHECKED if kind == "" and text.startswith(FAILED))
QUEUED = ("in_x.EnQue(a)", "in_y.EnQue(b)", "a = in_x.DeQue<float>()", "b = in_y.DeQue<float>()")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("flow")


def compile_as_documented(folder: Path, source: str, command: str = SHELL.split("\n", 1)[1]) -> None:
    """Without the first line of the commands, which looks for the root: it is given here."""
    folder.mkdir(exist_ok=True)
    (folder / "add.asc").write_text(source)
    path = os.pathsep.join([str(BISHENG.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def program(folder: Path, code: str = PYTHON, **env: str) -> subprocess.CompletedProcess:
    return forked.run(["-c", code], cwd=folder, env={**os.environ, **env})


@functools.cache
def library_as_documented() -> Path:
    """Its folder, made once a process: tests/conformance/test_extension.py runs it, too."""
    folder = Path(tempfile.mkdtemp(dir=SCRATCH.name))
    compile_as_documented(folder, CPP)
    return folder


@pytest.fixture
def documented() -> Path:
    return library_as_documented()


def test_the_documented_kernel_adds_npu_tensors(documented):
    done = program(documented)
    assert done.returncode == 0, done.stderr


def test_the_documented_kernel_keeps_the_units_order(documented):
    done = program(documented, ANYCEND_CHECK="kernel")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name, change, check, message",
    [
        ("bounds", [("Add(c, a, b, n)", "Add(c, a, b, 2 * n)")], "0", BOUNDS),
        ("order", [(f"    {line};\n", "\n") for line in QUEUED], "kernel", ORDER),
    ],
)
def test_the_documented_errors(folder, name, change, check, message):
    source = CPP
    for old, new in change:
        assert old in source
        source = source.replace(old, new)
    (folder / name).mkdir()
    (folder / name / "add.asc").write_text(source)
    built = bisheng("-x", "asc", "-O0", "-shared", folder / name / "add.asc", "-o", folder / name / "libadd.so")
    assert built.returncode == 0, built.stderr
    done = program(folder / name, ANYCEND_CHECK=check)
    assert done.returncode != 0
    sentence = message.removeprefix(FAILED + "block 0: ")  # any block may be the first
    assert sentence in " ".join(done.stderr.split()), done.stderr


@pytest.mark.full
def test_an_operator_in_one_file(folder):
    include = '#include "kernel_operator.h"'
    kernel, launch = CPP.split('extern "C" void add_npu')
    assert include in kernel and launch.endswith("}\n")
    compile_as_documented(folder / "one", kernel.replace(include, f"{HEADERS}{include}") + OPERATOR, ONE_FILE)
    text = """
import pytest
import torch

torch.ops.load_library("./libmine.so")
x, y = torch.randn(2, 3, 5000, device="npu")
assert torch.equal(torch.ops.mine.add(x, y), x + y)
with torch.npu.stream(torch.npu.Stream()):
    assert torch.equal(torch.ops.mine.add(y, y), y + y)
with pytest.raises(RuntimeError, match="x and y must be contiguous, of one shape"):
    torch.ops.mine.add(x[:, ::2], y[:, ::2])
with pytest.raises(RuntimeError, match="x and y must be npu tensors"):
    torch.ops.mine.add(x, y.cpu())
with pytest.raises(RuntimeError, match="x and y must be float32"):
    torch.ops.mine.add(x.half(), y.half())
"""
    done = forked.run(["-c", text], cwd=folder / "one", env=dict(os.environ))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("caching", ["0", "1"], ids=["", "no-cache"])
def test_what_leaves_a_tensor_is_found_without_torchs_cache(documented, caching):
    code = PYTHON.replace("ctypes.c_uint32(x.numel())", "ctypes.c_uint32(x.numel() + 8)")
    assert code != PYTHON
    done = program(documented, code, ANYCEND_CHECK="kernel", PYTORCH_NO_NPU_MEMORY_CACHING=caching)
    assert (done.returncode != 0) == ("DataCopyPad: 7264 bytes from " in done.stderr) == (caching == "1"), done.stderr
