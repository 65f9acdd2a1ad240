"""Which line of the program an operator belongs to. Who uses it: mode.py.

Forward, it is the innermost frame that is neither PyTorch's nor ours. Backward operators run on threads of the autograd
engine without a frame of the program's: theirs is the line whose forward made the node, found by the node's number.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

KEPT = 200_000  # lines of nodes; the oldest go first
OURS = {path.parents[2] for path in (Path(__file__).absolute(), Path(__file__).resolve())}  # a build's files are links
LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, *OURS))
INNER = {"contextlib", "functools", "threading"}


def frame_line() -> str | None:
    """file:line of the innermost frame of the program; None where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        file, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
        generated = file.startswith("<") and module != "__main__"
        if not generated and not file.startswith(LIBRARIES) and module not in INNER:
            return f"{shown(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def shown(file: str) -> str:
    """Relative where it lies below the working directory; bytes that are no UTF-8 as \\xe9."""
    if file.startswith("<"):
        return file
    relative = os.path.relpath(file)
    name = os.path.abspath(file) if relative.startswith("..") else relative
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class Lines:
    """The lines of one run: remembers which line made which node of the autograd graph."""

    def __init__(self) -> None:
        self._made: dict[int, str] = {}

    def now(self) -> str:
        """The line of the operator being called."""
        if line := frame_line():
            self._remember(line)
            return line
        node = torch._C._current_autograd_node()
        if node is None:
            return "unknown"
        made = self._made.get(node._sequence_nr())
        return f"{made} (backward)" if made else f"backward of {node.name()}"

    def _remember(self, line: str) -> None:
        # The node of the operator that is being called was made just now; where none was, the last one has its line.
        if torch._C._current_autograd_node() is None:
            self._made.setdefault(torch.autograd._get_sequence_nr() - 1, line)
            if len(self._made) > KEPT:
                del self._made[next(iter(self._made))]
