"""torch_npu.utils.cpp_extension.NpuExtension: what it adds, and that what is given comes first."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_npu
from tests.extension.build import TOOLS
from torch_npu.utils.cpp_extension import NpuExtension, include_paths, library_paths, load

PACKAGE = Path(torch_npu.__path__[0])


def test_what_is_given_comes_first():
    made = NpuExtension(
        "ops",
        ["ops.cpp"],
        include_dirs=["mine"],
        libraries=["other"],
        extra_compile_args=["-O0"],
        define_macros=[("A", "1")],
    )
    assert (made.name, made.sources, made.language) == ("ops", ["ops.cpp"], "c++")
    assert made.include_dirs == ["mine", *include_paths()] and made.library_dirs == library_paths()
    libraries = ["other", "c10", "torch", "torch_cpu", "torch_python", "torch_npu", "ascendcl", "nnopbase"]
    assert made.libraries == libraries
    assert (made.extra_compile_args, made.define_macros) == (["-O0"], [("A", "1")])


def test_its_folders_are_there():
    assert str(PACKAGE / "include") in include_paths()
    assert all(Path(path).is_dir() for path in [*include_paths(), *library_paths()])
    names = {"libtorch_npu.so", "libascendcl.so", "libnnopbase.so", "libc10.so"}
    assert names <= {file.name for path in library_paths() for file in Path(path).iterdir()}


@pytest.mark.parametrize("compiler", ["", " ", "g++", "g++ -m64", "/usr/bin/ccache x86_64-linux-gnu-g++-12", "clang++"])
def test_an_ascendc_source_needs_bisheng(tmp_path, monkeypatch, compiler):
    """g++ takes it for a library: nothing is compiled, and the linker's error names an object that is not there."""
    monkeypatch.setenv("CXX", compiler)
    now = re.escape(compiler.strip()) or "not set"
    said = rf"load: \S+/k.asc is AscendC, .* and CXX is {now}: set CXX=/\S+/bin/bisheng$"
    for sources in (str(tmp_path / "k.asc"), ["host.cpp", tmp_path / "k.asc"]):
        with pytest.raises(ValueError, match=said):
            load("k", sources)


def test_bisheng_is_given_the_ascendc_source(tmp_path, monkeypatch):
    """And any compiler that is named by its path."""
    monkeypatch.setenv("PATH", TOOLS)
    (tmp_path / "k.asc").write_text("")
    (tmp_path / "g++").write_text(
        '#!/bin/sh\ncase "$*" in *.asc*) echo "own compiler: $*"; exit 1;; esac\n/usr/bin/g++ "$@"\n'
    )
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    with pytest.raises(RuntimeError, match="own compiler: .*k.asc"):
        load("k", [str(tmp_path / "k.asc")], build_directory=str(tmp_path))


# Without PyTorch's headers, which are most of a compilation; with them the page's own source is built in the full run.
SOURCE = """#include <acl/acl.h>
extern "C" uint32_t devices() { uint32_t count = 0; return aclrtGetDeviceCount(&count) ? 0 : count; }
"""
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import NpuExtension
setup(name="ops", ext_modules=[NpuExtension("ops_library", ["ops.cpp"])], cmdclass={"build_ext": BuildExtension})
"""


def test_setuptools_build_it_and_the_library_finds_canns(tmp_path):
    (tmp_path / "ops.cpp").write_text(SOURCE)
    (tmp_path / "setup.py").write_text(SETUP)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": TOOLS}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (library,) = tmp_path.glob("ops_library*.so")
    torch.ops.load_library(library)
    assert ctypes.CDLL(str(library)).devices() == torch.npu.device_count()
