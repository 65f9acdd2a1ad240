"""The programs of docs/sharing.md print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import forked


@pytest.mark.parametrize("number", range(3))
def test_the_pages_programs_print_what_it_says(root: Path, tmp_path: Path, number: int) -> None:
    page = (root / "docs" / "sharing.md").read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```\nprints\n```text\n(.*?)```", page, re.S)
    assert len(programs) == page.count("```python") == 3
    program, printed = programs[number]
    (tmp_path / "program.py").write_text(program)
    done = forked.run(["program.py"], cwd=tmp_path, timeout=300)
    assert (done.stdout, done.stderr) == (printed, "")
