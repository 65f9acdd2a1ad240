"""The fault table: every cell ends in success, or in an error that names the culprit, within its bound (faults.py)."""

from __future__ import annotations

import pytest

from tests.hccl import faults
from tests.hccl.namespaces import reason


def judged(cell: faults.Cell) -> None:
    if cell.hosts == 2 and (why := reason()):
        pytest.skip(why)
    wrong = faults.run(cell)
    assert not wrong, f"{cell}: {wrong}"


def test_a_message_does_not_blame_whose_it_is():
    said = "HcclAllReduce (fp32 x 16, sum, communicator a, rank 1 of 4)"
    assert not faults.names(1, f"{said}: nothing is heard")
    assert faults.names(3, f"{said}: rank 3 is gone") and faults.names(3, f"{said}: rank 0, 3 did not call it")
    assert not faults.names(3, f"{said}: rank 13 is gone")
    assert faults.names(3, "rank 3 of 4 did not connect within 3 s")


def test_a_cell_without_a_fault_fails(libraries):
    with pytest.raises(AssertionError, match="stranger-large-2ranks-1hosts-victim-1: no socket took any noise"):
        faults.run(faults.Cell("stranger", "large", 2, 1, -1))


@pytest.mark.parametrize("cell", faults.QUICK, ids=str)
def test_a_cell_of_the_fault_table(libraries, cell):
    judged(cell)


@pytest.mark.full
@pytest.mark.parametrize("cell", [c for c in faults.table() if c not in faults.QUICK], ids=str)
def test_the_rest_of_the_fault_table(libraries, cell):
    judged(cell)
