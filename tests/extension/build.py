"""Compiles the sources of this room, once a test process, and loads what registers operators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import torch

from tests.runtime.acl import library_folder
from torch_npu.utils import cpp_extension, custom_ops

SOURCES = Path(__file__).parent / "sources"
# ninja lies beside the interpreter of a virtual environment that nobody activated.
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def extension(folder: Path, name: str) -> Path:
    """The library of sources/<name>.cpp, loaded."""
    os.environ["PATH"] = TOOLS
    cpp_extension.load(
        f"npu_test_{name}",
        [str(SOURCES / f"{name}.cpp")],
        extra_cflags=["-O0", "-Wall", "-Werror=return-type"],
        build_directory=str(folder),
        is_python_module=False,
    )
    return folder / f"npu_test_{name}.so"


def operators(folder: Path, name: str, namespace: str) -> ModuleType:
    """torch.ops.<namespace>, of the rows in sources/<name>.yaml and the formulas beside it."""
    os.environ["PATH"] = TOOLS
    custom_ops.load(
        SOURCES / f"{name}.yaml",
        SOURCES / f"{name}_derivatives.yaml",
        library=namespace,
        build_directory=str(folder),
        extra_cflags=["-O0"],
    )
    return getattr(torch.ops, namespace)


def library(folder: Path, source: Path, *flags: str) -> Path:
    """A package of custom operators in `folder`, of one source."""
    target = folder / "op_api" / "lib" / "libcust_opapi.so"
    target.parent.mkdir(parents=True)
    include = [f"-I{path}" for path in cpp_extension.include_paths()[:1]]
    link = [f"-L{cpp_extension.library_paths()[1]}", "-lopapi", "-lnnopbase"]
    command = ["g++", "-shared", "-fPIC", *flags, *include, str(source), *link, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def kernels(folder: Path, source: Path, *flags: str) -> Path:
    """The library of operators in one file, which `bisheng` compiles: as documented, with these folders."""
    target = folder / f"lib{source.stem}.so"
    command = [sys.executable, str(library_folder().parent / "bin" / "bisheng"), "-x", "asc", "--npu-arch=dav-2201"]
    command += ["-shared", "-fPIC", "-O0", "-w", *flags, str(source), "-o", str(target)]
    command += ["-ltorch_npu", "-ltorch", "-ltorch_cpu", "-lc10"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def package(folder: Path, factor: float) -> Path:
    """Its aclnnScaleCust multiplies by `factor`, too."""
    return library(folder, SOURCES / "cust_opapi.cpp", f"-DFACTOR={factor}")


def abs_that_negates(folder: Path) -> Path:
    """Its aclnnAbs is CANN's aclnnNeg, so that one sees who was called."""
    return library(folder, SOURCES / "abs_that_negates.cpp")
