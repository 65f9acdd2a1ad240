"""What forks for tests/forked.py: a program that was given as to `python`, in a process that has torch alone."""

from __future__ import annotations

import multiprocessing.process
import os
import runpy
import sys
import types
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from tests.nursery import code_of

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    pipe = Connection(int(sys.argv[1]))
    arguments, folder, out, err = pipe.recv()
    pipe.close()
    os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = folder  # of what it spawns
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(out, os.O_WRONLY | os.O_APPEND), 1)
    os.dup2(os.open(err, os.O_WRONLY | os.O_APPEND) if err else 1, 2)
    safe = bool(os.environ.get("PYTHONSAFEPATH"))
    while arguments[0] in ("-P", "-W"):
        if arguments.pop(0) == "-P":
            safe = True
        else:
            assert arguments[0] in ("ignore", "error")
            sys.warnoptions.append(arguments[0])
            warnings.simplefilter(arguments.pop(0))
    own = {"-c": "", "-m": folder}.get(arguments[0], os.path.dirname(os.path.realpath(arguments[0])))
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [*([] if safe else [own]), *named, *(p for p in sys.path if p not in ("", str(ROOT)))]
    if folder == str(ROOT):  # what `import tests` does
        sys.path[:] = [*(p for p in sys.path if p not in ("", folder)), folder]
    return code_of(execute, arguments)


def execute(arguments: list[str]) -> None:
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0":
        torch._import_device_backends()
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        text, file = arguments[1], "<string>"
    else:
        sys.argv[:] = arguments
        text, file = Path(arguments[0]).read_bytes(), os.path.abspath(arguments[0])
        module.__file__ = file
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
