"""The file of a compiled function: a line with a checksum, then JSON. What is believed of it, and where it lies.

A file is read if it belongs to this user or to root and nobody else may write it. It is data: reading it runs nothing.
Who uses it: inference.py and cached.py. What it is not: the meaning of the JSON (program.py)."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
from typing import Any

NAME = "compiled_module"
_FIRST = "anycend compiled_module 1 sha256:"
_LONGEST = 1 << 30  # bytes


class Unusable(Exception):
    """Why a file, or what it holds, cannot be used: the end of a sentence."""


def write(path: str, content: dict[str, Any]) -> None:
    """Puts the file in its place at once, whole. OSError where that cannot be."""
    body = json.dumps(content, separators=(",", ":")).encode()
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f"{NAME}.")  # readable and writable by this user alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(f"{_FIRST}{hashlib.sha256(body).hexdigest()}\n".encode())
            file.write(body)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _owned(handle: int) -> None:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise Unusable("it is no file")
    if status.st_uid not in (0, os.getuid()):
        raise Unusable(f"it belongs to another user ({status.st_uid})")
    if status.st_mode & 0o022:
        raise Unusable(f"others may write it (mode {stat.S_IMODE(status.st_mode):o}); chmod go-w repairs that")
    if status.st_size > _LONGEST:
        raise Unusable(f"it has {status.st_size} bytes")


def read(path: str) -> dict[str, Any]:
    """What `write` wrote. FileNotFoundError, NotADirectoryError; Unusable with the reason for any other file."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            _owned(file.fileno())
            first, _, body = file.read().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise Unusable(f"it cannot be read ({error.strerror})") from error
    if not first.startswith(_FIRST.encode()):
        raise Unusable("it is not a compiled_module of this version")
    if first[len(_FIRST) :].decode(errors="replace") != hashlib.sha256(body).hexdigest():
        raise Unusable("it is damaged (its checksum does not fit)")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unusable("it is not JSON") from error
    if not isinstance(content, dict):
        raise Unusable("it is not a compiled_module of this version")
    return content


def digest(name: str) -> str:
    """Of the file of the loaded module `name`. Unusable where there is none."""
    path = getattr(sys.modules.get(name), "__file__", None)
    try:
        with open(path or "", "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise Unusable(f"the module {name} has no file ({error.strerror})") from error
