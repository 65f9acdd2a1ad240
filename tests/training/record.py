"""Train the networks and write down what came of them: tests/training/record.yaml, from which docs/training.md is made.

python -m tests.training.record [NETWORK ...]     what is not named keeps what the record says
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from tests.training import zoo
from tests.training.test_zoo import STEPS
from tools.codegen import tables

RECORD = Path(__file__).with_name("record.yaml")
HEAD = "# What came of the networks; record.py writes it. loss: first, last, the CPU's last; seconds: npu, CPU.\n"


def row(npu: zoo.Run, cpu: zoo.Run) -> dict:
    """Rounded: digits beyond these differ from run to run."""
    return {
        "loss": [float(f"{loss:.4g}") for loss in (npu.losses[0], npu.losses[-1], cpu.losses[-1])],
        "difference": float(f"{zoo.difference(npu, cpu):.1e}"),
        "fallbacks": npu.fallbacks,
        "seconds": [round(npu.seconds, 1), round(cpu.seconds, 1)],
    }


def main() -> None:
    record = tables.load(RECORD) if RECORD.exists() else {}
    names = sys.argv[1:] or list(zoo.ZOO)
    zoo.run(zoo.ZOO[names[0]], "fp32", 1)  # libraries and threads of a process that begins are no row's time
    for name in names:
        for precision in zoo.PRECISIONS:
            found = row(*zoo.run(zoo.ZOO[name], precision, STEPS))
            print(name, precision, found, flush=True)
            record.setdefault(name, {})[precision] = found
        ordered = {name: record[name] for name in zoo.ZOO if name in record}
        body = yaml.safe_dump(ordered, sort_keys=False, default_flow_style=None, width=200)
        RECORD.write_text(HEAD + body, encoding="utf-8")


if __name__ == "__main__":
    main()
