"""The vendor's torch_npu in an environment of its own, beside ours: build/vendor.

    python -m tests.conformance.environment          make it if need be, print its Python

Its packages are links to this environment's, so that both use the same torch; only the vendor's wheel is installed, and
everything of ours is left out.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

WHEEL = "torch-npu==2.13.0"
WANTED = (WHEEL, "protobuf==3.20.3")  # the wheel's graph mode imports protobuf
HOME = Path(__file__).resolve().parents[2] / "build" / "vendor"
OURS = ("torch_npu", "anycend", "pytorch_gpu2npu", "softnpu", "_anycend", "__pycache__", "pip")


class Unavailable(Exception):
    """The environment cannot be made, and why."""


def site_packages(home: Path = HOME) -> Path:
    return home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def python(home: Path = HOME) -> Path:
    """The environment's interpreter; makes the environment the first time."""
    site, ready = site_packages(home), home / "ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != " ".join(WANTED):
        venv.EnvBuilder(with_pip=False, clear=True).create(home)
        for package in Path(sysconfig.get_path("purelib")).iterdir():
            if not package.name.startswith(OURS) and package.suffix != ".pth":
                (site / package.name).symlink_to(package)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), *WANTED]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"pip cannot install {' '.join(WANTED)}: {done.stderr.strip().splitlines()[-1]}")
        ready.write_text(" ".join(WANTED), encoding="utf-8")
    return home / "bin" / "python"


if __name__ == "__main__":
    print(python())
