"""The command `anycend`: where the software NPU is, and programs run on it.

A package of its own that imports nothing but the standard library: the distribution anycend installs it as `anycend`,
beside torch_npu, which holds the root; the distribution anycend-softnpu as `softnpu`, which holds the root itself.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

_HERE = Path(__file__).resolve().parent


class Refused(Exception):
    """What cannot be done, and the remedy: one line for a person."""


def root() -> Path:
    """The CANN root: set_env.sh, lib64, include and the rest."""
    found = [_HERE, _HERE.parent / "torch_npu" / "softnpu"]
    for place in found:
        if (place / "set_env.sh").is_file() and (place / "lib64" / "libascendcl.so").exists():
            return place
    raise Refused(f"the software NPU is neither in {' nor in '.join(map(str, found))}: reinstall this distribution")


def distribution() -> str:
    """Which distribution this package belongs to."""
    return "anycend" if __name__ == "anycend" else "anycend-softnpu"


def torch_version() -> str:
    """The torch that this package was built against: by its own requirement, or, of a build folder, its own version."""
    try:
        required, own = metadata.requires(distribution()) or [], metadata.version(distribution())
    except metadata.PackageNotFoundError:
        return "2.13.0"
    pins = [found[1] for text in required if (found := re.match(r"torch==([\d.]+)", text))]
    return pins[0] if pins else own


def version() -> str:
    """ "anycend 0.1.0" """
    try:
        return f"{distribution()} {metadata.version(distribution())}"
    except metadata.PackageNotFoundError:
        return f"{distribution()} (a build folder, not installed)"
