"""docs/monitoring.md: its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


def test_the_commands_of_the_page_run(machine):
    m, text = machine(), PAGE.read_text(encoding="utf-8")
    commands = re.search(r"^```sh\n(.*?)^```", text, re.M | re.S)[1].splitlines()
    assert len(commands) == 8
    for command in commands:
        name, *words = shlex.split(command, comments=True)
        assert name == "npu-smi" and m.smi(*words)
    assert re.findall(r"`npu-smi (info watch -h|-h)`", text) == ["info watch -h", "-h"]
