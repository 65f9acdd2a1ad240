"""The program of docs/sharing.md prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def test_the_pages_program_prints_what_it_says(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "sharing.md").read_text("utf-8")
    program, printed = re.search(r"```python\n(.*?)```\nprints\n```text\n(.*?)```", page, re.S).groups()
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr) == (printed, "")
