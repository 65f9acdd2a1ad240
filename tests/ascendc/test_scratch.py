"""What `bisheng` and `opp_build` put aside while they work is taken away, however they end. compiler/scratch.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG

PROJECT = Path(__file__).parent / "package"
# A compiler that puts something aside, says who it is and what it was given, and does not end.
SLOW = '#!/bin/sh\necho aside > "${TMPDIR:-/tmp}/ccAside.s"\necho $$ > "$0.started.$$"\nsleep 600\n'
COMMANDS = {
    "bisheng": ["-x", "asc", "-c", "k.cpp", "-o", "k.o"],
    "opp_build": [str(PROJECT), "-j2", "-o", "package"],
}


def environment(folder: Path, compiler: str) -> dict[str, str]:
    (folder / "aside").mkdir()
    (folder / "k.cpp").write_text("int x = y;\n")
    return {**os.environ, "TMPDIR": str(folder / "aside"), "ANYCEND_CXX": compiler}


SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def answers() -> None:
    """In a child before its program: tests may inherit signals that are ignored, from nohup or as a background job."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_leaves_nothing(tmp_path, command, number):
    """Neither files nor compilers that go on; and who waits for the command sees what ended it."""
    slow = tmp_path / "slow"
    slow.write_text(SLOW)
    slow.chmod(0o755)
    env = environment(tmp_path, str(slow))
    given = [sys.executable, str(BISHENG.parent / command), *COMMANDS[command]]
    began = subprocess.Popen(given, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True, preexec_fn=answers)
    while not (started := list(tmp_path.glob("slow.started.*"))) and began.poll() is None:
        time.sleep(0.01)
    assert started, began.stderr.read()
    assert list((tmp_path / "aside").iterdir())
    began.send_signal(number)
    try:
        assert (began.communicate(timeout=300)[1], began.returncode) == ("", -number)
    finally:
        began.kill()
    assert list((tmp_path / "aside").iterdir()) == []
    for file in tmp_path.glob("slow.started.*"):
        while lives(int(file.suffix[1:])):
            time.sleep(0.01)


def test_an_ignored_signal_stays_ignored(tmp_path):
    """As nohup and a shell's background jobs have it."""
    given = ["sh", "-c", 'trap "" INT HUP; "$@" & wait $!', "sh", sys.executable, str(BISHENG), *COMMANDS["bisheng"]]
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nkill -INT $PPID; kill -HUP $PPID; : > k.o\n")
    slow.chmod(0o755)
    done = subprocess.run(given, cwd=tmp_path, env=environment(tmp_path, str(slow)), timeout=300)
    assert done.returncode == 0 and list((tmp_path / "aside").iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_compile_that_fails_leaves_nothing(tmp_path, command):
    env = environment(tmp_path, "false")
    given = [sys.executable, str(BISHENG.parent / command), *COMMANDS[command]]
    done = subprocess.run(given, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert list((tmp_path / "aside").iterdir()) == [] and not (tmp_path / "package").exists()
