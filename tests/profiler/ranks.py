"""The profiles of rank.py's ranks. Who uses it: test_ranks, test_trace_page, and the clients that read profiles."""

from __future__ import annotations

from pathlib import Path

from tests import forked

RANKS = 2


def profiled(base: Path, out: Path | None = None) -> Path:
    """The folder, `out` or base / "out", in which each rank has left its own."""
    out = out or base / "out"
    program = Path(__file__).with_name("rank.py")
    running = [forked.Python([program, str(rank), str(RANKS), base / "store", out]) for rank in range(RANKS)]
    for process in running:
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said[-4000:]
    return out
