"""Which step of the program this is, where it says so: npugraph_mark_step_begin, and torch.compiler's function of the
same purpose, whose counter is read where it lives. What a step decides is in outputs.py."""

from __future__ import annotations

import sys

_marked = 0


def mark_step_begin() -> None:
    """A new step of training or inference begins: what compiled functions returned before is not needed any more."""
    global _marked
    _marked += 1


def current() -> tuple[int, int]:
    """Two calls return the same as long as no step began between them."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    box = getattr(trees, "MarkStepBox", None)  # another thread may be importing it
    return _marked, 0 if box is None else box.mark_step_counter
