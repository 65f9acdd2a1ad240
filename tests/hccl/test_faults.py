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


@pytest.mark.parametrize("cell", faults.QUICK, ids=str)
def test_a_cell_of_the_fault_table(libraries, cell):
    judged(cell)


@pytest.mark.full
@pytest.mark.parametrize("cell", [c for c in faults.table() if c not in faults.QUICK], ids=str)
def test_the_rest_of_the_fault_table(libraries, cell):
    judged(cell)
