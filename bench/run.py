"""Time the NPU against plain CPU PyTorch on the same machine, and write a table and a JSON file.

    make bench                                      python bench/run.py --only 'add|CNN' --rounds 7
    python tools/dev/bench_compare.py OLD NEW       compare two JSON files

Both sides use the same number of threads and take turns within a second, so the ratios hold on a machine that does
other things, too. Small operators: time of the call, below 1 the NPU is quicker. Training: speed, above 1 the NPU is.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The clone's own torch_npu has no compiled part: the installed one must be found first.
sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT), str(ROOT / "bench"))] + [str(ROOT)]

import torch  # noqa: E402

from bench import importing, operators, timing, training  # noqa: E402

# What the project promises: at most this cost of an operator and of the import, at least this speed of a step.
TARGETS = {
    "add": 2.0,
    "add + synchronize": 4.0,
    "import (s)": 0.3,
    "import (MiB)": 40.0,
    "quick-start CNN, fp32": 1.2,
    "training": 0.9,
}


def environment(options: argparse.Namespace) -> dict[str, object]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    with open("/proc/cpuinfo") as cpuinfo:
        model = next(
            (line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), platform.machine()
        )
    return {
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "torch": torch.__version__,
        "cpu": model,
        "threads": options.threads,
        "device": options.device,
        "rounds": options.rounds,
    }


class Table:
    """Prints a row when it is there, and keeps it."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def title(self, *columns: str) -> None:
        print(f"\n{columns[0]:28}" + "".join(f"{column:>14}" for column in columns[1:]), flush=True)

    def add(
        self, group: str, name: str, unit: str, device: float, cpu: float, figure: float, more_is_better: bool
    ) -> None:
        target = TARGETS.get(name, TARGETS.get(group))
        row = {"group": group, "name": name, "unit": unit, "device": device, "cpu": cpu, "figure": figure}
        self.rows.append({**row, "more_is_better": more_is_better, "target": target})
        promise = ""
        if target is not None:
            kept = figure >= target if more_is_better else figure <= target
            promise = f"{'≥' if more_is_better else '≤'} {target:g} {'kept' if kept else 'MISSED'}"
        print(f"{name:28}{device:14.2f}{cpu:14.2f}{figure:14.2f}{promise:>16}", flush=True)

    def fail(self, group: str, name: str, error: Exception) -> None:
        self.rows.append({"group": group, "name": name, "error": f"{type(error).__name__}: {error}"})
        print(f"{name:28}failed: {str(error).splitlines()[0][:90]}", flush=True)


def measure_operators(table: Table, options: argparse.Namespace) -> None:
    table.title("small operators, µs", options.device, "cpu", "times the cpu")
    finish = torch.get_device_module(options.device).synchronize
    theirs = operators.cases("cpu")
    for name, ours in operators.cases(options.device).items():
        if re.search(options.only, name):
            rounds = 3 * options.rounds
            result = timing.compare(ours, theirs[name], finish, repeat=500, rounds=rounds, wait=False)
            table.add("operators", name, "us", result.ours * 1e6, result.theirs * 1e6, result.ratio, False)


def measure_training(table: Table, options: argparse.Namespace) -> None:
    table.title("training step, ms", options.device, "cpu", "speed")
    finish = torch.get_device_module(options.device).synchronize
    for pair in training.pairs(options.device):
        if re.search(options.only, pair.name):
            try:
                result = timing.compare(*pair.make(), finish, repeat=pair.repeat, rounds=options.rounds)
            except RuntimeError as error:
                table.fail("training", pair.name, error)
            else:
                table.add("training", pair.name, "ms", result.ours * 1e3, result.theirs * 1e3, 1 / result.ratio, True)


def measure_import(table: Table, options: argparse.Namespace) -> None:
    table.title("the plugin's import", "with", "without", "difference")
    for name, unit, ours, theirs, difference in importing.run(options.plugin, options.device, options.rounds):
        if re.search(options.only, name):
            table.add("import", f"{name} ({unit})", unit, ours, theirs, difference, False)


GROUPS = {"operators": measure_operators, "training": measure_training, "import": measure_import}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="npu")
    parser.add_argument("--plugin", default="torch_npu", help="module to import first; '' for none")
    parser.add_argument("--groups", default=",".join(GROUPS), help="default: %(default)s")
    parser.add_argument("--only", default="", help="regular expression on the row's name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="default: bench/out/<date>.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.plugin:
        importlib.import_module(options.plugin)
    about = environment(options)
    print(f"torch {about['torch']}, {about['threads']} threads each, {about['cpu']}")
    table = Table()
    for group in options.groups.split(","):
        GROUPS[group](table, options)
    out = options.out or ROOT / "bench" / "out" / f"{about['date'].replace(':', '')}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"environment": about, "rows": table.rows}, indent=1) + "\n", encoding="utf-8")
    print(f"\nwrote {out}")


if __name__ == "__main__":
    main()
