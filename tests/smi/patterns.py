"""What public tools read from npu-smi and its kin, and whether they find it:  python -m tests.smi.patterns

Prints a row a tool: what it runs, what it looks for, and what became of the tests that read as it does. A row stands
above its test (`reads`), so that no row is without one. docs/monitoring.md has the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent


class Row(NamedTuple):
    tool: str
    command: str
    pattern: str


# What a software NPU has nothing to be read from; npu-smi is not asked.
ABSENT = {
    Row("swanlab", "`/dev/davinci*`", "the file is there"): "no: a software NPU has no device file",
    Row("triton-ascend", "`lspci`", "0xd806"): "no: a software NPU lies on no bus",
}
rows: dict[str, Row] = {}  # by the test's name


def reads(tool: str, command: str, pattern: str) -> Callable[[Callable], Callable]:
    """Above a test: which tool it reads like."""

    def of(test: Callable) -> Callable:
        rows[test.__name__] = Row(tool, command, pattern)
        return test

    return of


class Verdicts:
    """Of a run of pytest: how many of each test's cases passed, of how many."""

    def __init__(self) -> None:
        self.passed: dict[str, list[bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.location[2].partition("[")[0]
        if report.when == "call" or report.outcome != "passed":
            self.passed.setdefault(name, []).append(report.passed)

    def of(self, name: str) -> str:
        cases = self.passed.get(name, [])
        if all(cases) and cases:
            return "yes" + (f" ({len(cases)} cases)" if len(cases) > 1 else "")
        return f"{cases.count(False)} of {len(cases)} FAIL"


def main() -> int:
    verdicts = Verdicts()
    tests = [str(HERE / f"test_{room}.py") for room in ("consumers", "acl_module", "dcmi")]
    pytest.main([*tests, "-q", "--no-header", "--no-summary", "-p", "no:cacheprovider"], plugins=[verdicts])
    found = sys.modules["tests.smi.patterns"].rows  # the tests import this file by its name; here it is __main__
    lines = [(row, verdicts.of(name)) for name, row in found.items()] + list(ABSENT.items())
    print("\n| tool | runs | looks for | does so here |\n|---|---|---|---|")
    for row, verdict in sorted(lines, key=lambda line: line[0].tool.lower()):
        print(f"| {' | '.join(row)} | {verdict} |")
    return int(any("FAIL" in verdict for _, verdict in lines))


if __name__ == "__main__":
    sys.exit(main())
