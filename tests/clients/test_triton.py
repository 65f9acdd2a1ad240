"""triton-ascend with TRITON_INTERPRET=1: kernels on npu tensors give what PyTorch's operators give."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from tests.clients import environment

PAGE = environment.ROOT / "docs" / "triton.md"


def run(*arguments: str) -> str:
    try:
        python = environment.python("triton")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    own = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [str(python), *arguments], cwd=environment.ROOT, env=own, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_kernels_equal_pytorchs_operators():
    found = json.loads(run("-m", "tests.clients.triton_kernels"))
    assert len(found) == 6
    assert {name: value for name, value in found.items() if value > 1e-4} == {}
    assert [found[name] for name in found if name.startswith(("add", "atomic"))] == [0, 0, 0, 0]


def test_the_pages_program(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    file = tmp_path / "program.py"  # Triton reads a kernel's source from its file
    file.write_text(code)
    run(str(file))
