"""Extensions in C++ against torch_npu: NpuExtension for a setup.py, `load` for a program.

The headers are those of torch_npu/include, in the vendor's names; docs/extensions.md lists them. Source: the vendor's
torch_npu.utils.cpp_extension, which has NpuExtension alone.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from torch.utils import cpp_extension as _torch

import torch_npu
from torch_npu import _C

if TYPE_CHECKING:
    from collections.abc import Iterable

    from setuptools import Extension

__all__ = ["NpuExtension", "include_paths", "library_paths", "load"]

_LIBRARIES = ["torch_npu", "ascendcl", "nnopbase"]


def _package() -> str:
    return os.path.abspath(torch_npu.__path__[0])


def _cann() -> tuple[str, bool]:
    """The CANN in use: its root (of the software NPU's: below torch_npu) and whether it is the software NPU."""
    root, soft = _C._cann_root()
    return (os.path.join(root, "softnpu") if soft else root), soft


def include_paths() -> list[str]:
    """Folders with headers: the toolkit's where one is in use, torch_npu's, PyTorch's."""
    include = os.path.join(_package(), "include")
    third = os.path.join(include, "third_party")
    own = [include, os.path.join(third, "acl", "inc"), os.path.join(third, "op-plugin")]
    own.append(os.path.join(third, "op-plugin", "op_plugin", "include"))
    root, soft = _cann()
    return ([] if soft else [os.path.join(root, "include")]) + own + _torch.include_paths()


def library_paths() -> list[str]:
    """Folders with libraries: torch_npu's, those of the CANN in use, PyTorch's."""
    return [os.path.join(_package(), "lib"), os.path.join(_cann()[0], "lib64"), *_torch.library_paths()]


def NpuExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Extension:
    """A setuptools.Extension in C++ with torch_npu's headers and libraries, as torch's CppExtension with PyTorch's.

    For torch.utils.cpp_extension.BuildExtension. Arguments are those of setuptools.Extension; what is given of
    include_dirs, library_dirs, libraries and runtime_library_dirs comes first. libascendcl and libnnopbase are linked,
    and looked for where they are now after LD_LIBRARY_PATH.
    RuntimeError where the variables name a CANN that cannot be used.
    """
    from setuptools import Extension

    for key, more in (
        ("include_dirs", include_paths()),
        ("library_dirs", library_paths()),
        ("runtime_library_dirs", [os.path.join(_cann()[0], "lib64")]),
        ("libraries", ["c10", "torch", "torch_cpu", "torch_python", *_LIBRARIES]),
    ):
        kwargs[key] = [*(kwargs.get(key) or []), *more]
    kwargs["language"] = "c++"
    return Extension(name, sources, *args, **kwargs)


def _check_compiler(sources: Iterable[str | os.PathLike]) -> None:
    """g++ takes *.asc for a library and compiles nothing; what else CXX names, or by a path, may be bisheng."""
    compiler = os.environ.get("CXX", "").strip()
    words = [word for word in compiler.split() if not word.startswith("-")]
    if words and not re.fullmatch(r"(?:[^/]*-)?(?:c|g|clang)\+\+(?:-[\d.]+)?", words[-1]):
        return
    for source in map(os.fspath, sources):
        if source.endswith(".asc"):
            bisheng = os.path.join(_cann()[0], "bin", "bisheng")
            found = bisheng if os.path.exists(bisheng) else "bisheng"
            now = f"CXX is {compiler}" if compiler else "CXX is not set"
            raise ValueError(f"load: {source} is AscendC, which bisheng compiles, and {now}: set CXX={found}")


def load(
    name: str,
    sources: str | list[str],
    *,
    extra_include_paths: list[str] | None = None,
    extra_ldflags: list[str] | None = None,
    **kwargs: Any,
) -> Any:
    """torch.utils.cpp_extension.load with torch_npu's headers and libraries: compiles if something changed, then loads.

    Other arguments are those of torch.utils.cpp_extension.load: `is_python_module=False` for a library that only
    registers operators, extra_cflags, build_directory, verbose. Needs ninja and g++; RuntimeError with the compiler's
    output where it fails. ValueError of an AscendC source (*.asc) where the variable CXX does not name bisheng.
    """
    _check_compiler([sources] if isinstance(sources, (str, os.PathLike)) else sources)
    lib64 = os.path.join(_cann()[0], "lib64")
    own = [f"-L{path}" for path in library_paths()[:2]] + [f"-l{library}" for library in _LIBRARIES]
    return _torch.load(
        name,
        sources,
        extra_include_paths=[*(extra_include_paths or []), *include_paths()],
        extra_ldflags=[*(extra_ldflags or []), *own, f"-Wl,-rpath,{lib64}"],
        **kwargs,
    )
