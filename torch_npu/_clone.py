"""For programs started in a clone: its directory torch_npu, found first, holds sources without the compiled part. The
installed package then gives everything below; nothing of the clone but __init__.py and this file is used."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES


def use_installed(path: list[str]) -> None:
    """Points the package's search path at the first place that has the compiled part. One stat where it is here."""

    def complete(directory: str) -> bool:
        return os.path.exists(os.path.join(directory, "_C" + EXTENSION_SUFFIXES[0]))

    if complete(path[0]):
        return
    for entry in sys.path:
        candidate = os.path.join(os.path.abspath(entry), "torch_npu")
        if complete(candidate):
            path[:] = [candidate]
            return
    raise ImportError(f"torch_npu in {path[0]} is not built and not installed: run `make build` or `pip install .`")
