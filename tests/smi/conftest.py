"""A machine of the test's own: its registry of processes, npu-smi, and programs that use its devices."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hccl.ranks import library_folder

HERE = Path(__file__).parent


class User:
    """A process on a device; it holds `mib` of its memory."""

    def __init__(self, device: int, mib: int, env: dict[str, str], uid: int | None = None):
        command = [sys.executable, HERE / "user.py", library_folder() / "libascendcl.so", str(device), str(mib)]
        command += [] if uid is None else [str(uid)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.pid = self.process.pid
        assert self.line() == "ready"

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def do(self, word: str) -> None:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.line() == word

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Machine:
    def __init__(self, folder: Path, **env: str):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANYCEND_", "ASCEND_RT_"))}
        own = {"XDG_RUNTIME_DIR": str(folder), "ANYCEND_PROCESS_FOLDER": str(folder), "ANYCEND_MEMORY": "1G"}
        self.env = {**kept, **own, **env}
        self.registry = folder / "anycend" / "registry"
        self.users: list[User] = []

    @property
    def tool(self) -> Path:
        return library_folder().parent / "bin" / "npu-smi"

    def run(self, *args) -> tuple[int, str, str]:
        done = subprocess.run(
            [self.tool, *map(str, args)], env=self.env, capture_output=True, text=True, errors="replace", timeout=600
        )
        return done.returncode, done.stdout, done.stderr

    def smi(self, *args) -> str:
        code, out, err = self.run(*args)
        assert (code, err) == (0, ""), err
        return out

    def refused(self, *args) -> str:
        code, out, err = self.run(*args)
        assert code == 1 and out == "", out
        assert err.startswith("npu-smi: ") and err.count("\n") == 1 and len(err) > 20, err
        return err

    def user(self, device: int, mib: int = 64, uid: int | None = None, **env: str) -> User:
        self.users.append(User(device, mib, {**self.env, **env}, uid))
        return self.users[-1]

    def close(self) -> None:
        for user in self.users:
            user.kill()


def until(what: Callable[[], bool], seconds: float = 60) -> bool:
    """A busy machine may take its time: the limit only ends a test that has failed."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def machine(tmp_path):
    """Makes machines; the registry is one."""
    made = []

    def make(soc: str = "Ascend910B3", devices: int = 8, **env: str) -> Machine:
        made.append(Machine(tmp_path, ANYCEND_SOC=soc, ANYCEND_DEVICES=str(devices), **env))
        return made[-1]

    yield make
    for m in made:
        m.close()
