"""Is what an operator gave on the npu right? Compared with two runs on the CPU. Who uses it: mode.py.

A result is right if it lies within its type's tolerance of the reference in higher precision; else if the CPU in the
same type is about as far from the reference; else, unless the operator is elementwise, if the reference itself moves
about as far when its inputs are moved by one rounding: sums that cancel have no better answer. Signs that are free
(phases.py) are the reference's before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from torch_npu.utils.compare import operators
from torch_npu.utils.compare.difference import NONE, Difference, difference
from torch_npu.utils.compare.phases import aligned
from torch_npu.utils.compare.replay import Replay
from torch_npu.utils.compare.tolerance import Tolerances

AS_THE_CPU = 4.0  # times the CPU's own error
AS_ITS_INPUTS = 8.0  # times the error that one rounding of the inputs makes
# Why a result beyond its tolerance is right; the rules have their numbers in docs/precision_tools.md.
BY_THE_CPU = f"right by rule 2: the CPU in the same type is off by 1/{AS_THE_CPU:g} of it or more"
BY_ITS_INPUTS = f"right by rule 3: one rounding of the inputs moves the reference by 1/{AS_ITS_INPUTS:g} of it or more"


class Verdict(NamedTuple):
    """Of the worst of a call's results."""

    deviates: bool
    difference: Difference
    kind: str  # dtype and shape
    why: str = ""


def tried(run: Callable[[], list[torch.Tensor]]) -> tuple[list[torch.Tensor] | None, str]:
    """The results; or none, and why the CPU has none."""
    try:
        return run(), ""
    except NotImplementedError:
        return None, operators.NO_TWIN
    except Exception as error:
        return None, operators.FAILED.format(type(error).__name__)


def judge(found: list[torch.Tensor], replay: Replay, tolerances: Tolerances, elementwise: bool) -> Verdict | str:
    """A text: why the CPU has no result. `found` may be on the npu."""
    plain, why_not = tried(replay.plain)
    reference = plain if replay.higher is None and plain is not None else tried(replay.reference)[0]
    expected = reference if reference is not None else plain
    if expected is None:
        return why_not
    if len(found) != len(expected):
        return Verdict(True, NONE._replace(error=float("inf")), "", f"{len(found)} results, on the CPU {len(expected)}")
    found = aligned(replay.operator, found, expected)
    plain = plain and aligned(replay.operator, plain, expected)
    moved: list[torch.Tensor] | None = None
    worst: Verdict | None = None
    for i, mine in enumerate(found):
        mine, right = mine.detach().cpu(), expected[i]
        kind = f"{str(mine.dtype).removeprefix('torch.')}{list(mine.shape)}"
        same = plain[i] if plain is not None else None
        wrong = shape_or_type(mine, right, same)
        if wrong:
            return Verdict(True, NONE._replace(error=float("inf")), kind, wrong)
        if not (mine.dtype.is_floating_point or mine.is_complex()) and same is not None:
            right, same = same, None
        rtol = tolerances.of(mine.dtype)
        apart = difference(mine, right, rtol, same)
        deviates, why = apart.error > 1, ""
        if deviates and same is not None and reference is not None:
            own = difference(same, right, rtol)
            if own.error < float("inf") and apart.error <= AS_THE_CPU * own.error:
                deviates, why = False, BY_THE_CPU
        if deviates and rtol and apart.error < float("inf") and not elementwise and reference is not None:
            moved = moved if moved is not None else aligned(replay.operator, tried(replay.moved)[0] or [], expected)
            if i < len(moved) and moved[i].shape == right.shape:
                by_inputs = difference(moved[i].to(right.dtype), right, rtol)
                if by_inputs.error < float("inf") and apart.error <= AS_ITS_INPUTS * by_inputs.error:
                    deviates, why = False, BY_ITS_INPUTS
        verdict = Verdict(deviates, apart, kind, why)
        if worst is None or (deviates, apart.error) > (worst.deviates, worst.difference.error):
            worst = verdict
    return worst or Verdict(False, NONE, "")


def shape_or_type(mine: torch.Tensor, right: torch.Tensor, same: torch.Tensor | None) -> str:
    if mine.shape != right.shape:
        return f"shape {list(mine.shape)}, on the CPU {list(right.shape)}"
    if same is None or mine.dtype == same.dtype:
        return ""
    # Statistics that the CPU keeps in half precision may be wider on the npu, as on GPUs.
    wider = mine.dtype.is_floating_point and same.dtype.is_floating_point and mine.itemsize > same.itemsize
    if not wider:
        return f"{mine.dtype}, on the CPU {same.dtype}"
    return ""
