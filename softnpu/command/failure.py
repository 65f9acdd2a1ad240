"""An OSError as one line for a person: the file, the reason, the remedy. Every verb uses it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EROFS: "name a folder that can be written",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "links there lead in a circle: remove them",
    errno.ENOTDIR: "a file is where a folder is needed: name another folder, or move the file away",
    errno.EISDIR: "it is a folder: name a file",
    errno.EEXIST: "something of that name is there: move it away, or name another folder",
    errno.EMFILE: "ulimit -n 4096",
}


def again() -> str:
    """The command that runs, for another user's rights."""
    return f"sudo {' '.join([str(Path(sys.argv[0]).absolute()), *sys.argv[1:]])}"


def one_line(error: OSError, remedy: str = "", place: str | Path = "") -> str:
    """file: reason: remedy. `remedy` is taken where the reason has none of its own, `place` where the error names no
    file: that of a write does not."""
    if error.errno == errno.ENOENT and error.filename is None:
        return "the working folder is gone: cd to one that is there"
    named = isinstance(error.filename, str | bytes | os.PathLike)
    parts = [os.fsdecode(error.filename) if named else str(place)]
    if not remedy and isinstance(error, PermissionError):
        remedy = "give yourself the right to it, or name another"
    parts += [error.strerror or str(error), REMEDIES.get(error.errno or 0, remedy)]
    return ": ".join(filter(None, parts))


def need_rights(folders: set[Path]) -> None:
    """Before anything is done: those of them that are there can be changed."""
    for folder in sorted(folders):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
