"""The vendor's torch_npu on our libraries against CPU PyTorch: programs × chips × task queue modes."""

from __future__ import annotations

import re

import pytest

from tests.conformance import client

# Read, not imported: the programs belong to another environment.
SOURCE = (client.ROOT / "tests" / "conformance" / "programs.py").read_text(encoding="utf-8")
ALLOWED = {name: float(n) for n, name in re.findall(r"^@program\((.*)\)\ndef (\w+)", SOURCE, re.M)}
# What must be refused, with these words: (program, chips, modes) → a regular expression. In the modes with a queue, the
# vendor's thread that calls an operator by name ends the process when it is refused.
BY_NAME = "not supported by the software NPU: DynamicRNN"
REFUSED = {
    ("graph_replay", client.PROFILES, ("2",)): "Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture",
    ("lstm", ("Ascend910B3",), client.QUEUES): BY_NAME,
    ("lstm_two_ways", ("Ascend910B3",), client.QUEUES): BY_NAME,
}


# The chip decides which operators the wheel calls, the mode how they get there: one pair in every run, the other pairs
# are full tests. Mode 0 is that of test_differences.py, on both chips.
QUICK = {("Ascend950", "1")}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("chip", "queue"),
    [
        pytest.param(chip, queue, marks=() if (chip, queue) in QUICK else pytest.mark.full)
        for chip in client.PROFILES
        for queue in client.QUEUES
    ],
)
def test_programs_agree_with_the_cpu(vendor, chip, queue, capsys):
    found = client.results(vendor, ALLOWED, ANYCEND_SOC=chip, TASK_QUEUE_ENABLE=queue)
    refused = {name: text for (name, chips, modes), text in REFUSED.items() if chip in chips and queue in modes}
    wrong = {name: line for name, line in found.items() if not line.get("difference", 1e9) <= line["allowed"]}
    unexpected = {name: line for name, line in wrong.items()
                  if not (name in refused and re.search(refused[name], line.get("error", "")))}  # fmt: skip
    with capsys.disabled():
        figures = ", ".join(client.figure(line) for line in found.values())
        print(f"\n{chip}, TASK_QUEUE_ENABLE={queue}: {figures}", end=" ")
    assert unexpected == {}
    assert set(found) == set(ALLOWED) and set(wrong) == set(refused)
