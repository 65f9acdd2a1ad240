"""Clients that no package index serves: archives of their sources, unpacked into build/clients/third.

Nothing of them is part of the repository. Used by client.py for rows that name `archives`, and by tests that run a
sample's own scripts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from tests.clients import environment

FOLDER = Path(os.environ.get("ANYCEND_THIRD", environment.ROOT.parent / "shared" / "third"))


def unpack(name: str, target: Path) -> Path:
    """The archive's files below `target`, made anew. Raises Unavailable where the archive is not there."""
    archive = FOLDER / f"{name}.tar.xz"
    if not archive.is_file():
        raise environment.Unavailable(f"{archive} is not here (ANYCEND_THIRD names another folder)")
    half = target.with_name(f"{target.name}.{os.getpid()}")
    with tarfile.open(archive) as files:
        files.extractall(half, filter="data")
    shutil.rmtree(target, ignore_errors=True)
    half.rename(target)
    return target


def place(name: str) -> Path:
    """The archive's files in build/clients/third; unpacked once, as long as the archive does not change."""
    archive = FOLDER / f"{name}.tar.xz"
    known = hashlib.sha256(archive.read_bytes()).hexdigest()[:12] if archive.is_file() else "none"
    target = environment.HOME / "third" / f"{name}-{known}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        unpack(name, target)
    return target
