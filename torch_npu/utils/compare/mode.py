"""The dispatch mode that compares each operator with the CPU. Who uses it: this package's context manager.

It sees what the autograd engine's threads call, too, since they take over the modes of the thread that calls backward;
other threads that a program starts are not seen.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu.utils.compare import operators
from torch_npu.utils.compare.findings import Findings
from torch_npu.utils.compare.judge import Verdict, judge
from torch_npu.utils.compare.line import Lines
from torch_npu.utils.compare.replay import Replay, results
from torch_npu.utils.compare.tolerance import Tolerances
from torch_npu.utils.compare.twins import HELD


def nbytes(tree: Any) -> int:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))


def held(func: OpOverload, args: tuple) -> int:
    of = HELD.get(func._schema.name)
    return of(*args) if of else 0


class CompareMode(TorchDispatchMode):
    """Fills `findings`. `limit`: a call with more bytes of arguments or results is not compared."""

    supports_higher_order_operators = True

    def __init__(self, tolerances: Tolerances, limit: int) -> None:
        super().__init__()
        self.findings = Findings()
        self.on = True
        self._tolerances, self._limit = tolerances, limit
        self._lines = Lines()
        self._lock = threading.Lock()  # of the findings; backward may run on a thread for each device

    def begin_anew(self) -> None:
        """Forgets what was found. A forked child may have inherited the lock as another thread held it."""
        self.findings, self._lock = Findings(), threading.Lock()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        func, kwargs = operators.held(func), kwargs or {}
        if not self.on:
            return func(*args, **kwargs)
        if not isinstance(func, OpOverload):
            return self._skip(operators.HIGHER_ORDER, func, args, kwargs)
        if any(kind.__torch_dispatch__ != torch.Tensor.__torch_dispatch__ for kind in types):
            # Tensors that dispatch by themselves: what they call comes here.
            return NotImplemented
        device = kwargs.get("device")
        made_there = device is not None and torch.device(device).type in operators.NAMES
        if not made_there and not operators.npu_tensors((args, kwargs)) or operators.is_view(func):
            return func(*args, **kwargs)
        begin = time.perf_counter()
        line = self._lines.now()
        reason = operators.skipped(func, args, kwargs)
        if reason is None and max(nbytes((args, kwargs)), held(func, args)) > self._limit:
            reason = operators.TOO_LARGE
        if reason is not None:
            return self._skip(reason, func, args, kwargs)
        replay = Replay(func, args, kwargs)
        started = time.perf_counter()
        returned = func(*args, **kwargs)
        torch.npu.synchronize()
        replay.drew(returned)
        took = time.perf_counter() - started
        mine = results(func, returned, args, kwargs)
        verdict: Verdict | str
        if not operators.plain(mine):
            verdict = operators.LAYOUT
        elif nbytes(mine) > self._limit:
            verdict = operators.TOO_LARGE
        else:
            verdict = judge(mine, replay, self._tolerances, torch.Tag.pointwise in func.tags)
        with self._lock:
            self.findings.calls += 1
            if isinstance(verdict, str):
                self.findings.skip(verdict, str(func))
            else:
                self._note(str(func), line, verdict)
            self.findings.overhead += time.perf_counter() - begin - took
        return returned

    def _skip(self, reason: str, func: Any, args: tuple, kwargs: dict) -> Any:
        with self._lock:
            self.findings.calls += 1
            self.findings.skip(reason, str(func))
        return func(*args, **kwargs)

    def _note(self, operator: str, line: str, verdict: Verdict) -> None:
        self.findings.compared += 1
        row = self.findings.row(operator, line)
        row.calls += 1
        worse = (verdict.deviates, verdict.difference.error) > (row.deviated > 0, row.error)
        if verdict.deviates:
            row.deviated += 1
            row.first = row.first or self.findings.calls
        if worse:
            apart = verdict.difference
            row.error, row.absolute, row.relative = apart.error, apart.absolute, apart.relative
            row.found, row.expected, row.kind, row.why = apart.found, apart.expected, verdict.kind, verdict.why
