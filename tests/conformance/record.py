"""Run the wheel and write down what came of it: tests/conformance/record.yaml, from which docs/status.md is made.

    python -m tests.conformance.record --opinfo build/vendor.json      the status file of tests.upstream.run --samples 3

Also the operators that the wheel can call, read from its library.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path

import yaml

from tests.conformance import client, environment
from tests.conformance.test_programs import ALLOWED

RECORD = Path(__file__).with_name("record.yaml")


def wheel_operators(site: Path) -> list[str]:
    """Operators whose two names are strings of the wheel's library."""
    library = (site / "torch_npu" / "lib" / "libtorch_npu.so").read_bytes()
    words = {word.decode() for word in re.findall(rb"(?<=\0)(?:aclnn\w+|aclStft\w*)(?=\0)", library)}
    return sorted(word for word in words if word + "GetWorkspaceSize" in words)


def programs(python: Path) -> dict[str, dict[str, str]]:
    """Program → setting → difference from the CPU, or `refused`."""
    found: dict[str, dict[str, str]] = {name: {} for name in ALLOWED}
    for chip in client.PROFILES:
        for queue in client.QUEUES:
            lines = client.results(python, ALLOWED, ANYCEND_SOC=chip, TASK_QUEUE_ENABLE=queue)
            for name, line in lines.items():
                text = "refused" if "error" in line else f"{line['difference']:.1e}"
                found[name][f"{chip} {queue}"] = text
    return found


def opinfo(path: Path) -> dict:
    cases = {name: result for name, result in json.loads(path.read_text())["cases"].items() if name.startswith("op ")}
    counts = Counter(result["status"] for result in cases.values())
    reasons = {name[3:]: result["detail"].split("\n")[0][:160] for name, result in cases.items()
               if result["status"] not in ("right", "skipped")}  # fmt: skip
    return {"cases": {k: v for k, v in sorted(counts.items()) if k != "skipped"}, "not right": reasons}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opinfo", type=Path, required=True)
    options = parser.parse_args()
    python = environment.python()
    record = {"programs": programs(python), "opinfo": opinfo(options.opinfo),
              "operators": wheel_operators(environment.site_packages())}  # fmt: skip
    text = "# What the last run of the vendor's wheel gave: python -m tests.conformance.record. Not edited by hand.\n"
    RECORD.write_text(text + yaml.safe_dump(record, sort_keys=False, width=120), encoding="utf-8")


if __name__ == "__main__":
    main()
