"""Run the wheel and write down what came of it: tests/conformance/record.yaml, from which docs/status.md is made.

    python -m tests.conformance.record --opinfo Ascend950=build/950.json --opinfo Ascend910B3=build/910.json \\
        --without-fallback Ascend950=build/950-strict.json --without-fallback Ascend910B3=build/910-strict.json

The files are status files of tests.upstream.run --samples 3, the strict ones with TORCH_NPU_FALLBACK_CPU_DISABLE=1 set.
Also the operators that the wheel can call, read from its library. What is not given keeps what the record says.
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
from tools.codegen import tables

FALLBACK = re.compile(r"The operator '([^']*)' would execute its main computation on CPU")
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


def programs_with_fallback(python: Path) -> dict[str, dict[str, str]]:
    """Program → chip → the first operator that the wheel runs on the CPU, found by forbidding it."""
    found: dict[str, dict[str, str]] = {}
    for chip in client.PROFILES:
        strict = {"ANYCEND_SOC": chip, "TASK_QUEUE_ENABLE": "0", "TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}
        for name, line in client.results(python, ALLOWED, **strict).items():
            if fell := FALLBACK.search(line.get("error", "")):
                found.setdefault(name, {})[chip] = fell.group(1)
    return found


def opinfo(path: Path) -> dict:
    cases = {name: result for name, result in json.loads(path.read_text())["cases"].items() if name.startswith("op ")}
    counts = Counter(result["status"] for result in cases.values())
    reasons = {name[3:]: result["detail"].split("\n")[0][:160] for name, result in cases.items()
               if result["status"] not in ("right", "skipped")}  # fmt: skip
    return {"cases": {k: v for k, v in sorted(counts.items()) if k != "skipped"}, "not right": reasons}


def fallbacks(path: Path) -> dict:
    """How many cases need an operator that the wheel runs on the CPU; the first such operator → its cases."""
    cases = {name: result for name, result in json.loads(path.read_text())["cases"].items() if name.startswith("op ")}
    first = {name: fell.group(1) for name, result in cases.items() if (fell := FALLBACK.search(result["detail"]))}
    operators = Counter(first.values())
    return {"cases": len(first), "entries": len({name.split("[")[0] for name in first}),
            "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0])))}  # fmt: skip


def pairs(values: list[str]) -> dict[str, Path]:
    found = dict(value.split("=", 1) for value in values)
    if unknown := set(found) - set(client.PROFILES):
        raise SystemExit(f"{', '.join(unknown)}: the chips are {', '.join(client.PROFILES)}")
    return {chip: Path(path) for chip, path in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opinfo", action="append", default=[], metavar="CHIP=FILE")
    parser.add_argument("--without-fallback", action="append", default=[], metavar="CHIP=FILE")
    parser.add_argument("--keep-programs", action="store_true", help="do not run the programs")
    options = parser.parse_args()
    python = environment.python()
    record = tables.load(RECORD)
    if not options.keep_programs:
        record |= {"programs": programs(python), "programs that fall back": programs_with_fallback(python)}
    record["opinfo"] |= {chip: opinfo(path) for chip, path in pairs(options.opinfo).items()}
    record.setdefault("fallbacks", {}).update(
        {chip: fallbacks(path) for chip, path in pairs(options.without_fallback).items()}
    )
    record["operators"] = wheel_operators(environment.site_packages())
    text = "# What the last run of the vendor's wheel gave: python -m tests.conformance.record. Not edited by hand."
    text += " Long because it is data.\n"
    RECORD.write_text(text + yaml.safe_dump(record, sort_keys=False, width=120), encoding="utf-8")


if __name__ == "__main__":
    main()
