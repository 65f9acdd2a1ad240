"""A test's program in a process that forks from one with torch imported (tests/hccl/nursery.py).

It ends as an interpreter ends, destructors included.
"""

from __future__ import annotations

import ctypes
import os
import sys
import types
from multiprocessing.connection import Connection
from pathlib import Path

# As in an interpreter that starts in /: the clone's own torch_npu has no compiled part.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [p for p in sys.path if p not in ("", str(ROOT))]

import torch  # noqa: E402, F401


def main() -> None:
    """The process that the nursery forked waits for the program's and says its number and its return code."""
    pipe = Connection(int(sys.argv[1]))
    text, out, err = pipe.recv()
    program = os.fork()
    if program:
        pipe.send(program)
        pipe.send(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))
        return
    pipe.close()
    os.chdir("/")
    for file, fd in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(file, os.O_RDWR), fd)
    # Unwinding to the top would run what the nursery does after this.
    ctypes.pythonapi.Py_Exit(executed(text))


def executed(text: str) -> int:
    sys.argv[:] = ["-c"]
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    try:
        exec(compile(text, "<string>", "exec"), module.__dict__)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__.tb_next)
        return 1
    return 0
