"""docs/monitoring.md: its commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.hccl.ranks import library_folder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


def test_the_commands_of_the_page_run(machine):
    m, text = machine(), PAGE.read_text(encoding="utf-8")
    commands = re.search(r"^```sh\n(.*?)^```", text, re.M | re.S)[1].splitlines()
    assert len(commands) == 8
    for command in commands:
        name, *words = shlex.split(command, comments=True)
        assert name == "npu-smi" and m.smi(*words)
    assert re.findall(r"`npu-smi (info watch -h|-h)`", text) == ["info watch -h", "-h"]


def test_set_env_puts_it_on_the_path(machine):
    m, root = machine(devices=3), library_folder().parent
    script = f'. "{root}/set_env.sh" && command -v npu-smi && npu-smi info -l'
    out = subprocess.run(["bash", "-c", script], env=m.env, capture_output=True, text=True, check=True).stdout
    where, first = out.splitlines()[:2]
    assert Path(where).resolve() == m.tool.resolve() and first.split() == ["Total", "Count", ":", "3"]
