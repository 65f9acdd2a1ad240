"""Reads where PyTorch's Inductor asks whether a device is the CPU, or one of the GPUs that it knows: the lines of code
with the string "cpu" or a name of NAMES. What it is not: a judgement; that is device_tests.yaml, by hand.

Who calls it: test_device_tests.py; by hand, `python -m tests.inductor.device_tests` prints what the list lacks."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import torch

from tools.codegen import tables

LIST = Path(__file__).with_suffix(".yaml")
INDUCTOR = Path(torch.__file__).parent / "_inductor"
# What asks in other words.
NAMES = {
    *("is_cpu", "is_cpu_device", "is_gpu", "GPU_TYPES", "get_gpu_type"),
    *("device_need_guard", "SUPPORTED_MKLDNN_DEVICES"),
}
# A line is kept so far; none of the places is told from another by more.
WIDTH = 64


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value="cpu"):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in NAMES
    return False


def lines_of(source: str) -> list[str]:
    """The lines of one file that ask, in its order."""
    asking = {node.lineno for node in ast.walk(ast.parse(source)) if _asks(node)}
    lines = source.splitlines()
    return [lines[number - 1].strip()[:WIDTH] for number in sorted(asking)]


def found() -> dict[str, list[str]]:
    sources = {str(file.relative_to(INDUCTOR)): file.read_text() for file in sorted(INDUCTOR.rglob("*.py"))}
    # Half of the files have none of the words: reading those would take as long again.
    places = {file: lines_of(text) for file, text in sources.items() if any(word in text for word in ("cpu", *NAMES))}
    return {file: lines for file, lines in places.items() if lines}


def version() -> str:
    """Of PyTorch, whose places are listed."""
    return tables.load(LIST)["torch"]


def listed() -> dict[str, list[list[str]]]:
    return tables.load(LIST)["places"]


def differences(found: dict[str, list[str]], listed: dict[str, list[str]]) -> list[str]:
    """One line for each place that is new ("+ file: line") or gone ("- file: line")."""
    out = []
    for file in sorted(found.keys() | listed.keys()):
        for line in difflib.unified_diff(listed.get(file, []), found.get(file, []), n=0, lineterm=""):
            if not line.startswith(("---", "+++", "@@")):
                out.append(f"{line[0]} {file}: {line[1:]}")
    return out


if __name__ == "__main__":
    print(*differences(found(), {file: [row[0] for row in rows] for file, rows in listed().items()}), sep="\n")
