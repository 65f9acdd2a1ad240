"""Public suites about compiled functions, run on the npu by hand: README.md. Nothing of them is in this repository."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

from tests.public.graphs import suites, table
from tests.public.graphs.processes import Runner, Unit


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.public.graphs", description=__doc__)
    parser.add_argument("suite", choices=sorted(suites.SUITES))
    parser.add_argument("checkout", type=Path, help="the folder that holds the suite's test folder")
    parser.add_argument("--side", choices=("npu", "cpu", "both"), default="both", help="cpu is the control")
    parser.add_argument("--out", type=Path, default=Path("build/graphs"), help="results; those there are not run again")
    parser.add_argument("--files", default="", help="only files whose names hold one of these, separated by commas")
    parser.add_argument("--only", type=Path, help="a file of results, or of names: only those tests")
    parser.add_argument("--python", default=sys.executable, help="whose torch_npu is judged")
    parser.add_argument("--limit", type=float, default=120, help="seconds a test")
    parser.add_argument("--minutes", type=float, default=45, help="of a side")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def names(path: Path) -> list[str]:
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    return [json.loads(line)["id"] if line.startswith("{") else line.strip() for line in lines]


def run(side: str, path: Path, only: list[str] | None, chosen: argparse.Namespace) -> None:
    suite, checkout = suites.SUITES[chosen.suite], chosen.checkout.resolve()
    wanted = [part for part in chosen.files.split(",") if part]
    units = []
    for file in suites.files(suite, checkout):
        name = Path(file).name
        if wanted and not any(part in name for part in wanted):
            continue
        if only is not None and not any(test.startswith(f"{name}::") for test in only):
            continue
        shards = chosen.jobs if suite.sharded else 1
        units += [Unit(file, (shard, shards)) for shard in range(shards)]
    done = list(table.read(path))
    for unit in units:
        unit.done = [test for test in done if test.startswith(f"{Path(unit.file).name}::")]
    random.Random(chosen.seed).shuffle(units)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as results:

        def report(record: dict) -> None:
            results.write(json.dumps(record) + "\n")
            results.flush()
            print(f"{record['outcome']:8} {record.get('seconds', 0):6} {record['id']}", flush=True)

        options = {"side": side, "checkout": str(checkout), "template": suite.template, "only": only}
        until = time.monotonic() + 60 * chosen.minutes
        runner = Runner(
            str(Path(chosen.python).absolute()), {**options, "seed": chosen.seed}, chosen.limit, until, report
        )
        runner.run(units, chosen.jobs)


def main() -> int:
    chosen = arguments()
    control = suites.SUITES[chosen.suite].control
    paths = {side: chosen.out / f"{chosen.suite}.{side}.jsonl" for side in ("npu", "control")}
    only = names(chosen.only) if chosen.only else None
    if chosen.side != "cpu":
        run("npu", paths["npu"], only, chosen)
    if chosen.side != "npu" and control:
        failed = only if chosen.side == "cpu" else table.wrong(table.read(paths["npu"]))
        run(control, paths["control"], failed, chosen)
    print(table.table(table.read(paths["npu"]), table.read(paths["control"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
