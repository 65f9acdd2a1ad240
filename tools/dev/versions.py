"""The tree as packages for another torch than pyproject.toml names: python tools/dev/versions.py VERSION FOLDER

Every file that git knows is copied; pyproject.toml and softnpu/pyproject.toml name VERSION instead of their own, as
requirement and as version of the packages. What changed since the last time alone is written, so that a build goes on.
What it is not: a branch. No source differs: torch_version.h of csrc/core and torch_npu/_torch_version.py ask torch.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ".laid-out"  # what was copied: all else there was built
PROJECTS = ("pyproject.toml", "softnpu/pyproject.toml")


def of_version(text: str, version: str) -> str:
    """The project with another torch: `version = "2.13.0"` and each `torch==2.13.0`."""
    own = re.search(r'^version = "(.*)"$', text, re.M)[1]
    return text.replace(f'version = "{own}"', f'version = "{version}"').replace(f"torch=={own}", f"torch=={version}")


def lay_out(version: str, folder: Path) -> None:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    record = folder / RECORD
    former = set(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else set()
    for name in former - names:
        (folder / name).unlink(missing_ok=True)
    for name in sorted(names):
        source, copy = ROOT / name, folder / name
        data = source.read_bytes()
        if name in PROJECTS:
            data = of_version(data.decode(), version).encode()
        if copy.is_file() and copy.read_bytes() == data:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        shutil.copymode(source, copy)
    record.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


if __name__ == "__main__":
    lay_out(sys.argv[1], Path(sys.argv[2]))
