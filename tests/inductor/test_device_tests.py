"""The list of the places where Inductor asks whether a device is the CPU, against the installed PyTorch."""

from __future__ import annotations

import pytest
import torch

from tests.inductor import device_tests

BRANCHES = {"cpu", "other", "-"}
VERDICTS = {"none", "elsewhere", "right", "cured", "open"}


def test_each_place_of_this_pytorch_is_listed():
    of = device_tests.version()
    if not torch.__version__.startswith(of):
        pytest.skip(f"the list is of PyTorch {of}, this is {torch.__version__}")
    listed = {file: [row[0] for row in rows] for file, rows in device_tests.listed().items()}
    assert device_tests.differences(device_tests.found(), listed) == []


def test_each_place_is_judged():
    for file, rows in device_tests.listed().items():
        for line, decides, branch, verdict, reason in rows:
            assert all((line, decides)) and branch in BRANCHES and verdict in VERDICTS, (file, line)
            assert reason or verdict == "none", f"{file}: {line}: why is it {verdict}?"


def test_a_place_that_is_new_or_gone_is_named():
    was = device_tests.lines_of('if device.type == "cpu":\n    x = 1  # "cpu"\n')
    now = device_tests.lines_of('if True:\n    x = is_gpu(device)  # "cpu"\n')
    assert was == ['if device.type == "cpu":'] and now == ['x = is_gpu(device)  # "cpu"']
    assert device_tests.differences({"a.py": now, "b.py": was}, {"a.py": was, "b.py": was}) == [
        '- a.py: if device.type == "cpu":',
        '+ a.py: x = is_gpu(device)  # "cpu"',
    ]
