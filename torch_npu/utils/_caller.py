"""The program's line that something is about, and not one of ours: for warnings."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

# "": code that torch makes, whose globals have no name.
_BETWEEN = "torch", "torch_npu", "importlib", "contextlib", ""


def _nearest() -> tuple[int, FrameType]:
    """The nearest frame that is neither torch's nor ours nor of an import or a context, and how far it is."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level, frame


def warn(text: str) -> None:
    """A UserWarning at that line."""
    warnings.warn(text, stacklevel=_nearest()[0] + 1)


def caller() -> tuple[str, int]:
    """That line: its file and number, for warnings.warn_explicit later."""
    frame = _nearest()[1]
    return frame.f_code.co_filename, frame.f_lineno
