"""Whatever a process computes first, it finds the libraries ready: every operator may be the first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import torch_npu
from tests.conformance import environment
from tests.core.tools import output

PROGRAM = str(Path(__file__).with_name("first_operators.py"))
PACKAGE = Path(torch_npu.__path__[0])
LIBRARIES = sorted(PACKAGE.rglob("*.so"))


def wrong(python: str, *arguments: str, **settings: str) -> dict[str, str]:
    done = subprocess.run(
        [python, PROGRAM, *arguments], cwd="/", env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_any_of_forty_operators():
    assert wrong(sys.executable, "table") == {}


@pytest.mark.full
def test_any_of_three_hundred_operators():
    assert wrong(sys.executable, "database", "300") == {}


@pytest.mark.full
@pytest.mark.parametrize("arguments", [["table"], ["database", "300"]], ids=lambda a: a[0])
def test_the_vendors_plugin(arguments):
    try:
        python = environment.python()
    except environment.Unavailable as missing:
        pytest.skip(str(missing))
    home = str(PACKAGE / "softnpu")
    path = f"{home}/lib64:{os.environ.get('LD_LIBRARY_PATH', '')}"
    settings = {"ASCEND_HOME_PATH": home, "ASCEND_OPP_PATH": f"{home}/opp", "LD_LIBRARY_PATH": path, "PYTHONPATH": ""}
    assert wrong(str(python), *arguments, **settings) == {}


def test_no_library_needs_room_in_the_static_tls_block():
    """There is little for libraries that are opened late, and others may have taken it."""
    assert len(LIBRARIES) > 20
    listing = {p.name: subprocess.run(["readelf", "-d", p], capture_output=True, text=True).stdout for p in LIBRARIES}
    assert [name for name, text in listing.items() if "STATIC_TLS" in text] == []


def test_operators_work_where_others_took_the_static_tls_block(tmp_path):
    for size in (256, 64, 8):
        source = tmp_path / f"eat{size}.c"
        text = f'__attribute__((tls_model("initial-exec"))) __thread char eaten[{size}];'
        source.write_text(text + "char* f(void) { return eaten; }")
        library = tmp_path / f"eat{size}.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
        for i in range(12):
            shutil.copy(library, tmp_path / f"eat{size}_{i}.so")
    program = f"""
        import ctypes, torch
        refused = []
        for size in (256, 64, 8):
            for i in range(12):
                try:
                    ctypes.CDLL(f"{tmp_path}/eat{{size}}_{{i}}.so")
                except OSError as error:
                    assert "static TLS" in str(error), error
                    refused.append(size)
                    break
        x = torch.tensor([0.0, 4.0]).npu()
        print(refused, x.nonzero().tolist(), (x + x).tolist())
        for library in {[str(p) for p in LIBRARIES]}:
            ctypes.CDLL(library)
    """
    assert output(program, fresh=True) == "[256, 64, 8] [[1]] [0.0, 8.0]"
