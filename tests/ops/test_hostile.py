"""Indices and labels that no tensor has are errors, and end no process."""

from __future__ import annotations

from tests import forked
from tests.conftest import ROOT

# As on the CPU: what counts from the end, and what ends the labels of a row.
TAKEN = [
    "take -1", "take -5", "put -1", "put -5", "index_fill -1", "index -1", "index_put -1", "index_put, summed -1",
    "multilabel_margin_loss -1",
]  # fmt: skip


def test_no_index_ends_the_process():
    run = forked.run(["-m", "tests.ops.hostile"], cwd=ROOT, timeout=300)
    *calls, last = run.stdout.splitlines()
    assert run.returncode == 0 and last == "all", f"the process ended in {last}: {run.stderr[-2000:]}"
    assert [call.removesuffix(" taken") for call in calls if not call.endswith(" refused")] == TAKEN
