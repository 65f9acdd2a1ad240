"""Frameworks that people train with, unmodified, on the NPU: losses equal the CPU's, nothing falls back.

A test is a program on a number of ranks (clients.yaml); its environment is made the first time it is needed.
"""

from __future__ import annotations

import pytest

from tests.clients import client, environment

GROUPS = [
    pytest.param(group, marks=[] if group.ranks in group.row["quick"] else pytest.mark.full, id=str(group))
    for group in client.groups()
]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("group", GROUPS)
def test_losses_equal_the_cpus_and_nothing_falls_back(group, capsys):
    try:
        environment.python(group.row["family"])
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    found = client.outcomes(group)
    with capsys.disabled():
        print("", *found, sep=f"\n{group} ", end=" ")
    wrong = {f"{one.run} {one.precision}": client.wrong(group, one) for one in found}
    assert {case: text for case, text in wrong.items() if text} == {}
