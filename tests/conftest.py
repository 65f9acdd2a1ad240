"""What every test may use: the seeds' folder, one place for skips, and a header that says what is being judged."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path

import pytest

import tests  # noqa: F401  (orders sys.path: see there)

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
LONG = 300  # seconds of a run of which is told where they went


def pytest_report_header() -> str:
    try:
        import torch

        import torch_npu
    except ImportError as error:
        return f"torch_npu cannot be imported ({error}): run `make build`, or name a staged build in PYTHONPATH"
    return f"torch {torch.__version__}, torch_npu from {Path(torch_npu.__file__).parent}"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What the tests and torch's import are made of stays for the whole run: the collector passes over it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where a long run's time goes: the rooms and files that took most, over all processes."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds.update({file: report.duration, file.rpartition("/")[0] + "/": report.duration})
    if seconds.total() < 2 * LONG:
        return
    terminalreporter.section("rooms and files that took most")
    for name, taken in seconds.most_common(30):
        terminalreporter.write_line(f"{taken:7.0f}s {name}")


@pytest.fixture(scope="session")
def root() -> Path:
    """The clone."""
    return ROOT


@pytest.fixture(scope="session")
def seeds() -> Path:
    """The documents whose scripts must run as written; they are not part of the repository."""
    folder = Path(os.environ.get("ANYCEND_SEEDS", SHARED / "seeds"))
    if not folder.is_dir():
        pytest.skip(f"the source documents are not here: {folder} (ANYCEND_SEEDS names another folder)")
    return folder


@pytest.fixture(scope="session")
def facts() -> Path:
    """Tables of CANN's ABI and the vendor's plugin that ours are compared with; not part of the repository."""
    folder = Path(os.environ.get("ANYCEND_FACTS", SHARED / "facts"))
    if not folder.is_dir():
        pytest.skip(f"the fact tables are not here: {folder} (ANYCEND_FACTS names another folder)")
    return folder
