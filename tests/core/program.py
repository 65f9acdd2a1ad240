"""A test's program in a process that forks from one with torch imported (tests/nursery.py)."""

from __future__ import annotations

import os
import sys
import types
from multiprocessing.connection import Connection
from pathlib import Path

from tests.nursery import code_of

# As in an interpreter that starts in /: the clone's own torch_npu has no compiled part.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [p for p in sys.path if p not in ("", str(ROOT))]

import torch  # noqa: E402, F401


def main() -> int:
    return executed(received())


def received() -> str:
    pipe = Connection(int(sys.argv[1]))
    text, out, err = pipe.recv()
    pipe.close()
    os.chdir("/")
    for file, fd in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(file, os.O_RDWR), fd)
    return text


def executed(text: str) -> int:
    return code_of(execute, text)


def execute(text: str) -> None:
    sys.argv[:] = ["-c"]
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), module.__dict__)
