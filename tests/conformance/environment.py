"""The vendor's torch_npu in an environment of its own, beside ours: build/vendor.

    python -m tests.conformance.environment          make it if need be, print its Python

Its packages are links to this environment's, so that both use the same torch; only the vendor's wheel is installed, and
everything of ours is left out.
"""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

WHEEL = "torch-npu==2.13.0"
WANTED = (WHEEL, "protobuf==3.20.3")  # the wheel's graph mode imports protobuf
HOME = Path(__file__).resolve().parents[2] / "build" / "vendor"
OURS = ("torch_npu", "anycend", "pytorch_gpu2npu", "softnpu", "_anycend", "__pycache__", "pip")


class Unavailable(Exception):
    """The environment cannot be made, and why."""


def site_packages(home: Path = HOME) -> Path:
    return home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """One process at a time makes the environment: pytest's workers ask for it at once."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(home: Path) -> None:
    venv.EnvBuilder(with_pip=False, clear=True).create(home)
    site = site_packages(home)
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(OURS) and package.suffix != ".pth":
            (site / package.name).symlink_to(package)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), *WANTED]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"pip cannot install {' '.join(WANTED)}: {done.stderr.strip().splitlines()[-1]}")


def python(home: Path = HOME) -> Path:
    """The environment's interpreter; makes the environment the first time."""
    ready, wanted = home / "ready", " ".join(WANTED)
    with alone(home):
        if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
            make(home)
            ready.write_text(wanted, encoding="utf-8")
    return home / "bin" / "python"


if __name__ == "__main__":
    print(python())
