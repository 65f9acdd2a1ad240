"""Whole packages as inputs: what parses still parses, bytes outside of edits stay, a second run and --check find nothing.

The installed torch is always there; ANYCEND_MIGRATE_TREES names more folders, separated by ':' (transformers, timm ...).
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import warnings
from pathlib import Path

import pytest


def trees() -> list[Path]:
    spec = importlib.util.find_spec("torch")
    found = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or []]
    return found + [Path(name) for name in os.environ.get("ANYCEND_MIGRATE_TREES", "").split(":") if name]


def parses(path: Path) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(path.read_bytes())
        except Exception:
            return False
        return True


def is_subsequence_of_lines(before: bytes, after: bytes, touched: set[int]) -> bool:
    """Every line of the input that no change names is in the output, in order."""
    rest = iter(after.split(b"\n"))
    kept = [line for number, line in enumerate(before.split(b"\n"), 1) if number not in touched]
    return all(line in rest for line in kept)


@pytest.mark.full
@pytest.mark.parametrize("tree", trees(), ids=lambda path: path.name)
def test_tree(tool, tmp_path, tree):
    def call(*arguments, codes=(0,)):
        done = subprocess.run(
            [tool, *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900
        )
        assert done.returncode in codes, (done.returncode, done.stderr[-2000:])
        return json.loads(done.stdout)

    checked = call("-i", tree, "--check", codes=(3,))
    report = call("-i", tree, "-o", tmp_path)
    assert report["changed"] == checked["changed"] and report["changes"] == checked["changes"]
    assert report["skipped"] == []
    result = Path(report["output"])
    touched: dict[str, set[int]] = {}
    for change in report["changes"]:
        touched.setdefault(change["file"], set()).update(range(change["line"], change["end_line"] + 1))
    for name in report["changed"]:
        assert not parses(tree / name) or parses(result / name), name
        assert is_subsequence_of_lines((tree / name).read_bytes(), (result / name).read_bytes(), touched[name]), name
    assert call("-i", result, "--check")["changes"] == []
