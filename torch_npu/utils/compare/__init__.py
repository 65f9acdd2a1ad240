"""torch_npu.utils.compare: each operator called on the npu also runs on the CPU, and what deviates is reported.

    from torch_npu.utils.compare import Compare
    with Compare("out") as found:
        train()
    assert found.first is None, found.first

`anycend compare -- python train.py` does the same for a whole program. docs/precision_tools.md says what is compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode, _get_current_dispatch_mode_stack

from torch_npu.utils.compare import report
from torch_npu.utils.compare.findings import Findings, Row
from torch_npu.utils.compare.mode import CompareMode
from torch_npu.utils.compare.tolerance import Tolerances

__all__ = ["Compare", "Findings", "Row"]

LIMIT = 256 << 20


class Compare:
    """A context in which operators on the npu are compared with the CPU; it gives the Findings.

    folder: where compare.csv and compare.html are written at the end; None writes nothing. rtol: relative tolerances
    by type, {torch.float32: 1e-3}, for those that differ from the defaults. limit: bytes; a call with larger
    arguments or results is counted, not compared. report: whether the table is printed at the end.
    The Findings have `calls`, `compared` and `skipped` (how many), `rows` (one an operator and line, with its largest
    deviation) and `first`, the first row that deviates, or None.
    Raises ValueError for a wrong tolerance or limit, TypeError for another folder, RuntimeError inside another Compare,
    OSError for the folder.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        rtol: Mapping[torch.dtype | str, float] | None = None,
        limit: int = LIMIT,
        report: bool = True,
    ) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"compare: limit is a number of bytes from 1 on, not {limit!r}")
        if folder is not None and not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"compare: folder is a str or a Path, not {folder!r}")
        self._folder = None if folder is None else Path(folder)
        self._report = report
        self._mode = CompareMode(Tolerances(rtol), limit)
        self._begin = 0.0

    def __enter__(self) -> Findings:
        if any(isinstance(mode, CompareMode) for mode in _get_current_dispatch_mode_stack()):
            raise RuntimeError("compare: there is a comparison around this one; leave it first")
        if self._begin:
            raise RuntimeError("compare: this context was used before; make another Compare")
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._begin = time.perf_counter()
        self._mode.__enter__()
        return self._mode.findings

    def begin_anew(self) -> None:
        """In a forked child: what was found so far is its parent's to tell."""
        self._mode.begin_anew()
        self._begin = time.perf_counter()

    def stop(self) -> Findings:
        """Nothing is compared from here on; the findings so far."""
        self._mode.on = False
        self._mode.findings.seconds = time.perf_counter() - self._begin
        return self._mode.findings

    def __exit__(self, *error: Any) -> None:
        found = self.stop()
        if _get_current_dispatch_mode() is self._mode:
            self._mode.__exit__(*error)
        if self._folder is not None:
            report.write(found, self._folder)
        if self._report:
            print(report.text(found), flush=True)
