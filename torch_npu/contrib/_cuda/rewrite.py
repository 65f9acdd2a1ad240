"""Modules rewritten in memory as they are imported, by the same C++ as pytorch_gpu2npu's. Nothing does this unasked.

For what no alias can serve: a script that compares `backend == "nccl"` or `x.device.type == "cuda"`. Line numbers stay,
no file is written, no bytecode is cached.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.abc
import os
import sys
import sysconfig
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

_NEVER = {"torch", "torch_npu", "torchgen", "functorch"}


@functools.cache
def _library() -> ctypes.CDLL:
    import torch_npu

    found = [Path(folder) / "lib" / "libpytorch_gpu2npu.so" for folder in torch_npu.__path__]
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        raise RuntimeError(
            f"npu: {found[0]} is not there, so no module can be rewritten: torch_npu was built with "
            "ANYCEND_MIGRATE=OFF or without the tree-sitter sources"
        )
    library = ctypes.CDLL(str(path))
    library.pytorch_gpu2npu_rewrite.restype = ctypes.c_void_p
    library.pytorch_gpu2npu_rewrite.argtypes = (
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t),
    )  # fmt: skip
    library.pytorch_gpu2npu_free.argtypes = (ctypes.c_void_p,)
    return library


def rewritten(source: bytes, path: str) -> bytes:
    """The text for an npu; the same text where nothing changes or it cannot be parsed."""
    size = ctypes.c_size_t()
    text = _library().pytorch_gpu2npu_rewrite(source, len(source), os.fsencode(path), ctypes.byref(size))
    if not text:
        return source
    try:
        return ctypes.string_at(text, size.value)
    finally:
        _library().pytorch_gpu2npu_free(text)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> types.CodeType:
        # Without the stock one's cache: it would be read by programs that want the module as it is.
        path = self.get_filename(fullname)
        return self.source_to_code(rewritten(self.get_data(path), path), path)


@functools.cache
def _installed() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in names})


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        root = name.partition(".")[0]
        if root in _NEVER or (self.packages and root not in self.packages):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        if not self.packages and os.path.realpath(spec.loader.path).startswith(_installed()):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def active() -> _Finder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)


def start(packages: tuple[str, ...]) -> None:
    late = [name for name in packages if name in sys.modules]
    if late:
        raise RuntimeError(f"npu: {late[0]} is imported already; rewrite_modules must be called before that")
    _library()
    stop()
    sys.meta_path.insert(0, _Finder(packages))


def stop() -> None:
    finder = active()
    if finder is not None:
        sys.meta_path.remove(finder)


def run_script(arguments: list[str]) -> None:
    """`python SCRIPT ...`, the script and the modules beside it rewritten."""
    script = os.path.abspath(arguments[0])
    source = rewritten(Path(script).read_bytes(), script)
    os.environ.setdefault("TORCH_TRANSFER_TO_NPU", "1")  # processes it starts
    start(())
    sys.argv = arguments
    sys.path[0] = os.path.dirname(script)
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    exec(compile(source, script, "exec"), main.__dict__)
