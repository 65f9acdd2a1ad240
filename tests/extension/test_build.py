"""torch_npu.utils.cpp_extension.NpuExtension: what it adds, and that what is given comes first."""

from __future__ import annotations

from pathlib import Path

import torch_npu
from torch_npu.utils.cpp_extension import NpuExtension, include_paths, library_paths

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
