"""docs/doctor.md: each command prints what the page shows of what is wrong, and ends with its last line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import anycend
import pytest

from tests.conftest import ROOT

BLOCKS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", (ROOT / "docs" / "doctor.md").read_text("utf-8"), re.M | re.S)
BESIDE = "anycend doctor  # beside the vendor's"


def wrong(text: str) -> str:
    """The findings that are to be repaired, without the places of this machine."""
    found = re.findall(r"^FAIL  .*\n      .*\n", text, re.M)
    return re.sub(r"(the whole message:) .*", r"\1", "".join(found))


def ran(command: str, folder: Path, **variables: str) -> tuple[int, str]:
    """With nothing set but what the command sets."""
    here = Path(anycend.__file__).parent.parent  # of a build tree, too
    path = os.pathsep.join(filter(None, [variables.pop("PYTHONPATH", ""), str(here)]))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, **variables}
    command = re.sub(r"\banycend doctor\b", f'"{sys.executable}" -m anycend doctor', command)
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout.replace(str(folder), "/home/me")


@pytest.mark.parametrize(
    ("command", "shown"),
    [pytest.param(c, t, marks=[] if "BLOKING" in c else pytest.mark.full) for c, t in BLOCKS if c != BESIDE],
)
def test_a_command_prints_what_the_page_shows(command, shown, tmp_path):
    status, printed = ran(command, tmp_path)
    last = shown.splitlines()[-1]
    assert (status, printed.splitlines()[-1]) == (int(last != "ready"), last)
    assert wrong(printed) == wrong(shown)


@pytest.mark.full
def test_the_vendors_beside_it(tmp_path):
    """Of the two packages only the vendor's record is put there: what happens on import is theirs."""
    record = tmp_path / "torch_npu-2.13.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.13.0\n")
    ours = tmp_path / "anycend-2.13.0.dist-info"
    ours.mkdir()
    (ours / "METADATA").write_text("Metadata-Version: 2.1\nName: anycend\nVersion: 2.13.0\n")
    shown = dict(BLOCKS)[BESIDE]
    status, printed = ran("anycend doctor", tmp_path, PYTHONPATH=str(tmp_path))
    assert (status, wrong(printed)) == (1, wrong(shown[: shown.index("FAIL  a + b")]))
