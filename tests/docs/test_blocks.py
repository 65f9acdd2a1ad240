"""Blocks of the pages: rows are what the tables have, programs run as they are pasted; and a count is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.conftest import ROOT
from tools.codegen import tables

DOCS = ROOT / "docs"
# Of these pages each block of Python is a program by itself. training.md's defines the class that tests/training trains
# with, and runs nothing.
PAGES = ("amp", "contrib", "npu_use", "training", "compiled_graphs", "graphs")
TABLES = ("aten", "aclnn", "npu", "types")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


@cache
def table(name: str) -> Any:
    return tables.load(ROOT / "ops" / f"{name}.yaml")


def nodes(value: Any) -> Iterator[Any]:
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(part)


def is_in(name: str, block: Any) -> bool:
    """A list's rows are rows of the table, and a map's; of a section each row and default that is shown."""
    if isinstance(block, list):
        return all(row in nodes(table(name)) for row in block)

    def same(key: str, shown: Any, node: Any) -> bool:
        if key.startswith("aclnn"):
            return bool(node.get(key) == shown)
        return isinstance(node.get(key), dict) and all(node[key].get(row) == text for row, text in shown.items())

    maps = [node for node in nodes(table(name)) if isinstance(node, dict)]
    return all(any(same(key, shown, node) for node in maps) for key, shown in block.items())


@pytest.mark.parametrize("page", sorted(p for p in DOCS.glob("*.md") if blocks(p, "yaml")), ids=lambda p: p.stem)
def test_rows_that_a_page_shows_are_those_of_the_tables(page, tmp_path):
    for text in blocks(page, "yaml"):
        (tmp_path / "block.yaml").write_text(text, encoding="utf-8")
        named = re.match(r"# ops/(\w+)\.yaml\n", text)
        shown = tables.load(tmp_path / "block.yaml")
        assert any(is_in(name, shown) for name in ([named[1]] if named else TABLES)), text


def test_rows_in_the_head_of_the_types_are_rows():
    """The examples of the comment that opens ops/types.yaml."""
    text = (ROOT / "ops" / "types.yaml").read_text(encoding="utf-8")
    shown = re.findall(r"^#   (aclnn\w+: \{.*\})$", text[: text.index("\nnumbers:")], re.M)
    assert shown and [row for row in shown if f"\n  {row}\n" not in text] == []


def programs() -> Iterator[Any]:
    """A page and its programs; one of those that need what is not installed has a row of its own, which is skipped."""
    for page in PAGES:
        texts = blocks(DOCS / f"{page}.md", "python")
        absent = {text: module for text in texts for module in [missing(text)] if module}
        full = [pytest.mark.full] if page == "compiled_graphs" else []
        yield pytest.param([text for text in texts if text not in absent], id=page, marks=full)
        for module in absent.values():
            skip = pytest.mark.skip(reason=f"{module}, which a program of the page imports, is not installed")
            yield pytest.param([], id=f"{page}-{module}", marks=[*full, skip])


def missing(text: str) -> str | None:
    modules = re.findall(r"^(?:import|from) (\w+)", text, re.M)
    return next((module for module in modules if find_spec(module) is None), None)


@pytest.mark.parametrize("texts", programs())
def test_programs_of_a_page_run_as_they_are_pasted(texts, tmp_path):
    """Each from a file, whose functions a compiler can look up; in one process."""
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.py").write_text(text, encoding="utf-8")
    run = "import pathlib, runpy\nfor file in sorted(pathlib.Path().glob('*.py')):\n    runpy.run_path(str(file))\n"
    done = forked.run(["-c", run], cwd=tmp_path, timeout=300)
    assert list(tmp_path.iterdir()) and done.returncode == 0, done.stderr[-4000:]
    assert "UserWarning: torch.npu.npugraph_ex" not in done.stderr


def test_the_comparison_has_the_number_of_operators_that_are_missing():
    status = (DOCS / "status.md").read_text(encoding="utf-8")
    wheel, here = map(int, re.search(r"Of the (\d+) that the vendor's wheel can call, (\d+) have one", status).groups())
    for page, said in (("compare.md", r"all but (\d+) of the (\d+) aclnn"), ("compare.zh.md", r"仅缺 (\d+) 个()")):
        left, of = re.search(said, (DOCS / page).read_text(encoding="utf-8")).groups()
        assert int(left) == wheel - here and of in (str(wheel), "")
