"""The installed package: what lies where, how it is loaded, and that it binds to CANN by name only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import torch_npu

PACKAGE = Path(torch_npu.__path__[0])
LIBRARIES = ("lib/libtorch_npu.so", "softnpu/lib64/libascendcl.so", "softnpu/lib64/libopapi.so")


def run(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def symbols(library: Path, *options: str) -> list[str]:
    listing = subprocess.run(["nm", "-D", *options, str(library)], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1].split("@")[0] for line in listing.splitlines()]


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_lie_where_they_are_looked_for(library):
    assert (PACKAGE / library).is_file()


def test_the_plugin_has_no_undefined_symbol_of_cann():
    binaries = [PACKAGE / "lib" / "libtorch_npu.so", *PACKAGE.glob("_C*.so")]
    assert len(binaries) == 2
    cann = re.compile(r"^(acl(rt|nn|op|Create|Destroy|Get|Set|Init|Finalize|mdl|prof)?[A-Z_]\w*|Hccl\w+|Hcom\w+)$")
    assert [name for binary in binaries for name in symbols(binary, "--undefined-only") if cann.match(name)] == []


def test_libraries_show_nothing_of_others():
    """A symbol of std, Boost or torch that we define would be shared with another version of it in the same process."""
    own = re.compile(r"^_Z(T[ISV])?NK?(2ge|8nnopbase|7softnpu|3npu|4cann|7c10_npu|6at_npu|9torch_npu)")
    libraries = list(PACKAGE.rglob("*.so"))
    assert len(libraries) > 20
    shown = [(path.name, name) for path in libraries for name in symbols(path, "--defined-only") if name[0] == "_"]
    assert [(path, name) for path, name in shown if not own.match(name)] == []


def test_the_runtime_needs_no_torch():
    text = subprocess.run(
        ["readelf", "-d", str(PACKAGE / "softnpu" / "lib64" / "libascendcl.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", text)
    assert [name for name in needed if "torch" in name or "c10" in name] == []


def test_torch_finds_the_plugin_by_its_entry_point(tmp_path):
    (entry,) = metadata.entry_points(group="torch.backends", name="torch_npu")
    assert entry.value == "torch_npu:_autoload"
    result = run("import torch; print(torch.ones(2).npu().device)", tmp_path)
    assert result.stdout.strip() == "npu:0", result.stderr


def test_autoload_can_be_turned_off(tmp_path):
    result = run("import torch; print(hasattr(torch, 'npu'))", tmp_path, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.strip() == "False", result.stderr


def test_torch_in_a_clone_loads_the_installed_plugin(root):
    result = run("import torch; print(torch.ones(2).npu().device)", root)
    assert result.stdout.strip() == "npu:0", result.stderr


def test_the_wheel_carries_no_sources():
    """The headers of the CANN root are for clients, those of AscendC for their kernels and operators, `include` for
    extensions. What every operator package is built with is compiled there: ascendc/host."""
    softnpu = PACKAGE / "softnpu"
    ascendc = {softnpu / "ascendc" / "include", softnpu / "ascendc" / "host"}
    clients = {softnpu / "include", *ascendc, PACKAGE / "include"}
    found = (path for path in PACKAGE.rglob("*") if not clients & set(path.parents))
    left = [path for path in found if path.suffix in {".cpp", ".h", ".yaml"} or path.name == "CMakeLists.txt"]
    assert left == []
