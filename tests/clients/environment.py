"""One environment a client family in build/clients: its pinned packages over those of this environment, torch included.

    python -m tests.clients.environment [FAMILY ...]      make what is missing (default: all), print the Pythons

A family is a file of requirements/; each line is installed as it stands, without dependencies, so that nothing can
bring another torch. What the file does not name comes from this environment, our plugin too (a staged build through
PYTHONPATH). An environment is kept until its pins, this environment or its torch change.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "clients"
REQUIREMENTS = Path(__file__).with_name("requirements")


class Unavailable(Exception):
    """The environment cannot be made, and why."""


def families() -> list[str]:
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def key(family: str) -> str:
    """What an environment depends on."""
    base = (sys.version, version("torch"), sysconfig.get_path("purelib"))
    return hashlib.sha256("\n".join((pins(family), *base)).encode()).hexdigest()


def pins(family: str) -> str:
    return (REQUIREMENTS / f"{family}.txt").read_text(encoding="utf-8")


def cached(family: str, home: Path = HOME) -> bool:
    ready = home / family / "ready"
    return ready.is_file() and ready.read_text(encoding="utf-8") == key(family)


def python(family: str, home: Path = HOME) -> Path:
    """The family's interpreter; makes its environment the first time."""
    place = home / family
    if not cached(family, home):
        venv.EnvBuilder(with_pip=False, clear=True).create(place)
        target = place / "bin" / "python"
        # Before this environment's packages are to be seen there: pip would take them for its own and replace them.
        command = [sys.executable, "-m", "pip", "--python", str(target), "install", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*command, "--requirement", str(REQUIREMENTS / f"{family}.txt")], capture_output=True, text=True
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
            raise Unavailable(f"pip cannot install tests/clients/requirements/{family}.txt: {said[-1][-300:]}")
        site = place / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        (site / "beneath.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        (place / "ready").write_text(key(family), encoding="utf-8")
    return place / "bin" / "python"


if __name__ == "__main__":
    for name in sys.argv[1:] or families():
        print(python(name), flush=True)
