"""Test files of another PyTorch import names that the installed one no longer has. Each such name gets a stand-in, so
that only the tests that use it are skipped. Called by child.py before a file is imported.
"""

from __future__ import annotations

import ast
import importlib
import types
import unittest
from collections.abc import Iterator
from pathlib import Path


class Missing:
    """False; makes a test that it decorates one that is skipped; skips a test that calls it."""

    importing = True  # a call is a decorator's, or a condition at the top of a file; child.py ends that

    def __init__(self, name: str):
        self.name = name

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args, **kwargs):
        if not Missing.importing:
            raise unittest.SkipTest(f"this PyTorch has no {self.name}")
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return unittest.skip(f"this PyTorch has no {self.name}")(args[0])
        return self


def importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def imports(body: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
    """`from ... import ...` at the top of a file. What PyTorch may lack by a `try` of its own is left to that."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            yield node
        elif isinstance(node, ast.Try):
            yield from (found for found in imports(node.body) if found.level)


def supply(file: Path, seen: set[Path] | None = None) -> list[str]:
    """Stand-ins for what the file, and those beside it that it imports, ask of PyTorch in vain. Returns the names."""
    seen = set() if seen is None else seen
    if file in seen or not file.exists():
        return []
    seen.add(file)
    absent = []
    for node in imports(ast.parse(file.read_text()).body):
        if node.module and node.module.split(".")[0] == "torch" and importable(node.module):
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                if not hasattr(module, name) and not importable(f"{node.module}.{name}"):
                    setattr(module, name, Missing(f"{node.module}.{name}"))
                    absent.append(f"{node.module}.{name}")
        elif node.level:
            folder = file.parents[node.level - 1]
            beside = [node.module] if node.module else [alias.name for alias in node.names]
            for name in beside:
                absent += supply(folder.joinpath(*name.split(".")).with_suffix(".py"), seen)
        elif node.module:  # the tests' folder is on sys.path: inductor.test_torchinductor
            absent += supply(file.parents[1].joinpath(*node.module.split(".")).with_suffix(".py"), seen)
    return absent
