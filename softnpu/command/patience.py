"""A program that is waited for as long as it goes on: on a machine under load it is slow, and slow is not broken.

Whether it goes on is judged by what it does: it is given up if it does nothing for so many seconds, or has computed
for so many seconds of processor time. So a load that keeps it from computing does not end it. The doctor calls this.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LOOK = 0.2  # seconds from one look at the program to the next
FIRST = 30.0  # after so many seconds it is told what the program does, then each time after twice as many
DOING = "doing: "  # begins a line in which the program says what it is about to do
STATES = {"R": "computes, as far as it gets a processor", "D": "waits for a disk", "S": "sleeps", "T": "is stopped",
          "t": "is stopped", "Z": "is ending"}  # fmt: skip


class Waiting(NamedTuple):
    """It still runs."""

    seconds: float
    doing: str  # the last that it said
    state: str


class Ended(NamedTuple):
    status: int | None  # None: it was given up, and why
    output: str
    errors: str
    why: str = ""


class Patience:
    """When a program is given up, by what each look at it finds."""

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds, self.since, self.last = seconds, now, (0.0, 0)

    def ends(self, now: float, computed: float, said: int) -> str:
        """Why it is given up; empty as long as it goes on. computed: seconds of processor time; said: bytes."""
        if (computed, said) != self.last:
            self.since, self.last = now, (computed, said)
        if computed >= self.seconds:
            return f"did not end within {self.seconds:g} s of processor time"
        return f"did nothing for {self.seconds:g} s" if now - self.since >= self.seconds else ""


def look(pid: int) -> tuple[float, str]:
    """Seconds of processor time of all the process's threads and ended children, and the state of its first thread."""
    # Behind the name, which may hold spaces and brackets.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"), STATES.get(fields[0], f"is in {fields[0]}")


def follow(command: list[str], seconds: float) -> Iterator[Waiting | Ended]:
    """Runs the command: Waiting now and then, Ended at last."""
    begin = time.monotonic()
    patience, tell = Patience(seconds, begin), FIRST
    # Files, as a pipe would fill, and would stay open in a process that the command leaves behind.
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)

        def text(file) -> str:
            return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

        try:
            while True:
                try:
                    yield Ended(process.wait(LOOK), text(output), text(errors))
                    return
                except subprocess.TimeoutExpired:
                    computed, state = look(process.pid)
                now, said = time.monotonic(), text(output) + text(errors)
                if why := patience.ends(now, computed, len(said)):
                    yield Ended(None, text(output), text(errors), f"{why}: {doing(said)}")
                    return
                if now - begin >= tell:
                    tell *= 2
                    yield Waiting(now - begin, doing(said), state)
        finally:
            process.kill()
            process.wait()


def doing(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith(DOING)]
    return lines[-1].removeprefix(DOING) if lines else "starting"
