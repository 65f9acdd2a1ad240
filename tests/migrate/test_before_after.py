"""The original tool's 185 cases: what it did right stays, what it did wrong is right here.

cases/before_after.tsv has for each the input, the right output and the verdict on the original: kept (ours is the
same), unchanged (the original only added an import that nothing needs) or fixed, with the reason.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.migrate.toolbox import table, unescape

CASES = table(Path(__file__).parent / "cases" / "before_after.tsv")


@pytest.fixture(scope="module")
def outputs(tool):
    from tests.migrate.toolbox import Migrate

    results = Migrate(tool).each([unescape(row["before"]) for row in CASES], "-v", "2.8.0")
    return dict(zip([row["case"] for row in CASES], results, strict=True))


@pytest.mark.parametrize("row", CASES, ids=[row["case"] for row in CASES])
def test_case(row, outputs):
    assert outputs[row["case"]] == unescape(row["expected"])


def test_every_departure_has_a_reason():
    assert len(CASES) == 185
    assert [row["case"] for row in CASES if row["verdict"] != "kept" and len(row["reason"]) < 10] == []
    assert {row["verdict"] for row in CASES} == {"kept", "unchanged", "fixed"}


def test_kept_cases_are_what_the_original_wrote(facts):
    """Against the record of the original's output, so that "kept" cannot drift."""
    with (facts / "migrate" / "before_after.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    original = {case: unescape(after) for case, _, after in rows}
    for row in CASES:
        if row["verdict"] == "kept":
            expected = unescape(row["expected"])
            if not row["case"].startswith("c"):  # single lines were run below `import torch`
                expected = expected.removeprefix("import torch_npu\nimport torch\n").removesuffix("\n")
            assert expected == original[row["case"]], row["case"]


def test_a_second_run_changes_nothing(tool, outputs):
    from tests.migrate.toolbox import Migrate

    assert Migrate(tool).each(list(outputs.values()), "-v", "2.8.0") == list(outputs.values())
