"""Warnings that show the line of the program they are about, and not one of ours."""

from __future__ import annotations

import sys
import warnings


def warn(text: str) -> None:
    """A UserWarning at the nearest line that is neither torch's nor ours nor of an import."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "torch",
        "torch_npu",
        "importlib",
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
