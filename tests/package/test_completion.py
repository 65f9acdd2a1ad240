"""`anycend completion bash` in a bash with a terminal, as a person's: names with spaces, pages, options' values."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest
from anycend import docs
from anycend.__main__ import main

# What is run when the line is complete: each argument in brackets.
SHOW = "anycend() { printf '<%s>' \"$@\" > said; }"


def typed(keys: str, script: str, folder: Path) -> str:
    """What the command gets when a person types these keys; \\t completes."""
    (folder / "rc").write_text(f"{script}\n{SHOW}\nbind 'set enable-bracketed-paste off'\nPS1='ready> '\n")
    leader, follower = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder)}
    shell = subprocess.Popen(["bash", "--noprofile", "--rcfile", "rc", "-i"], stdin=follower, stdout=follower,
                             stderr=follower, cwd=folder, env=environment, start_new_session=True)  # fmt: skip
    os.close(follower)
    try:
        screen = b""
        while b"ready> " not in screen:
            screen += os.read(leader, 4096)
        os.write(leader, keys.encode() + b"\n")
        for _ in range(300):
            if (folder / "said").exists() and (folder / "said").read_text().endswith(">"):
                return (folder / "said").read_text()
            time.sleep(0.1)
        raise AssertionError(f"{keys!r} was not run: {screen + os.read(leader, 4096)!r}")
    finally:
        shell.kill()
        shell.wait()
        os.close(leader)


@pytest.mark.parametrize("keys, said", [
    ("anycend install --prefix my\t", "<install><--prefix><my folder/>"),
    ("anycend install --prefix my\\ f\t", "<install><--prefix><my folder/>"),
    ("anycend install --prefix 'my f\t", "<install><--prefix><my folder/>"),
    ("anycend preflight a\t", "<preflight><a host.conf>"),
    ("anycend preflight --rule at\t", "<preflight><--rule><atlas>"),
    ("anycend run -- cat my\t", "<run><--><cat><my folder/>"),
    ("anycend docs ascen\t", "<docs><ascendc>"),
    ("anycend docs guide/custom_operators.\t", "<docs><guide/custom_operators.zh>"),
    ("anycend docs\t", "<docs>"),
])  # fmt: skip
def test_bash_completes_what_a_person_types(keys, said, tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    (tmp_path / "my folder").mkdir()
    (tmp_path / "docs").mkdir()  # a folder of a verb's name
    (tmp_path / "a host.conf").touch()
    assert typed(keys, capsys.readouterr().out, tmp_path) == said


def test_zsh_is_offered_the_pages_and_no_files(capsys):
    assert main(["completion", "zsh"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    docs)")]
    assert line == f"    docs) offered=(--help {' '.join(docs.pages())}) closed=1 ;;"
