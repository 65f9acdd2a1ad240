"""The public repositories' files that their licences permit, and which of these are kernels. Called by __main__.py.

Everything is taken through tools/dev/licensed_files.py: of other files no more than the licence is read.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from pathlib import Path

from tools.dev import licensed_files

# A checkout's folder has the repository's name.
REPOSITORIES = ("vllm-ascend", "sgl-kernel-npu", "DrivingSDK", "MindSpeed", "mmcv")
KERNELS = (".cpp", ".cce", ".asc")
HEADERS = (".h", ".hpp")
_GLOBAL = re.compile(r"\b__global__\b")


class NoCheckout(Exception):
    """A sentence about a folder."""


def taken(checkouts: Path, repository: str, results: Path) -> Path | None:
    """The folder with the permitted files of this commit; none where the repository is not there."""
    clone = checkouts / repository
    if not clone.exists():
        return None
    try:
        commit = git(clone, "rev-parse", "HEAD")
    except subprocess.CalledProcessError as error:
        raise NoCheckout(f"{clone} is no git checkout: git clone it there ({error.stderr.strip()})") from error
    target = results / "sources" / repository / commit
    if not (target / ".whole").exists():
        with contextlib.redirect_stdout(io.StringIO()) as told:
            licensed_files.main(str(clone), str(target))
        (target / ".whole").write_text(told.getvalue())
    return target


def git(clone: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def kernels(folder: Path) -> tuple[list[str], int]:
    """Paths of the kernel sources, and how many headers have __global__ as well (they come in with their sources)."""
    found, headers = [], 0
    for file in sorted(folder.rglob("*")):
        if file.suffix in KERNELS + HEADERS and _GLOBAL.search(file.read_text(errors="replace")):
            if file.suffix in KERNELS:
                found.append(str(file.relative_to(folder)))
            else:
                headers += 1
    return found, headers
