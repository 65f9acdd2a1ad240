"""A short run of the fuzzer over every family; the long one is a command (tests/opapi/fuzz.py)."""

from __future__ import annotations

import os
import re

import pytest

from tests import forked
from tests.opapi.client import ROOT, library_folder


def run(calls: int) -> list[str]:
    environment = {**os.environ, "ANYCEND_TEST_CANN": str(library_folder()), "ANYCEND_CHECK": "1"}
    command = ["-m", "tests.opapi.fuzz", "--calls", str(calls), "--seed", "7"]
    done = forked.run(command, cwd=ROOT, env=environment | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, timeout=3600)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout.splitlines()


def test_no_family_crashes():
    lines = run(3000)
    assert len(lines) > 20
    for line in lines:
        assert re.search(r"\binvalid \d+", line), line


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_calls_of_each_family():
    assert len(run(100_000)) > 20
