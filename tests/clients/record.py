"""Run the clients and write down what came of them: tests/clients/record.yaml, from which docs/clients.md is made.

python -m tests.clients.record [ROW ...]          what is not named keeps what the record says
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import yaml

from tests.clients import client
from tools.codegen import tables

RECORD = Path(__file__).with_name("record.yaml")
HEAD = (
    "# What came of the clients' runs; record.py writes it. loss: first, last, the CPU's last; seconds: npu, CPU.\n"
    "# seen: the day and the commit of a group's runs; groups without it were run before that was written down.\n"
    "# Long because every run has its figures.\n"
)


def row(outcome: client.Outcome) -> dict:
    """Rounded: digits beyond these differ from run to run."""
    if outcome.error:
        return {"error": outcome.error.splitlines()[0][:200]}
    return {
        "loss": [float(f"{loss:.4g}") for loss in (outcome.first, outcome.last, outcome.last_cpu)],
        "difference": float(f"{outcome.difference:.1e}"),
        "fallbacks": outcome.fallbacks,
        "seconds": [round(outcome.seconds, 1), round(outcome.seconds_cpu, 1)],
    }


def seen() -> dict:
    """Day and commit of figures that are made now: "-dirty" where files are changed, without git only the day."""
    day = {"date": datetime.date.today().isoformat()}
    command = ["git", "-C", str(RECORD.parent), "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return day | ({"commit": told.stdout.strip()} if told.returncode == 0 else {})


def main() -> None:
    known = client.groups()
    for group in known:
        if sys.argv[1:] and group.name not in sys.argv[1:]:
            continue
        found = client.outcomes(group)
        print("", *found, sep=f"\n{group} ", flush=True)
        record = tables.load(RECORD) if RECORD.exists() else {}  # as another record of other rows has left it
        record[str(group)] = {"seen": seen(), **{f"{one.run} {one.precision}": row(one) for one in found}}
        ordered = {str(one): record[str(one)] for one in known if str(one) in record}
        body = yaml.safe_dump(ordered, sort_keys=False, default_flow_style=None, width=200)
        RECORD.write_text(HEAD + body, encoding="utf-8")


if __name__ == "__main__":
    main()
