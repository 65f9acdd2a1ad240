"""Run PyTorch's own databases of operators, modules and optimizers on a device, and judge the results by the CPU's.

    python -m tests.upstream.run --samples 3 --jobs 2 --out status.json
    python -m tests.upstream.run --kinds op --ops '^(add|mul)$' --dtypes float32 --forms forward,gradient,inplace,out
    python -m tests.upstream.run --device cpu --plugin ''            what differs here is PyTorch's

right        all samples agree with the CPU (tests/upstream/compare.py says what agreement is)
wrong        a result, dtype, shape or device differs
crash        the process died or did not answer in time; the run goes on with a new one
unsupported  refused: NotImplementedError, or an error that says a dtype or layout is not supported
error        any other exception where the CPU has a result
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.upstream import pool
from tests.upstream.cases import KINDS, Case, select
from tests.upstream.compiled import BACKENDS
from tests.upstream.exceptions import Exceptions
from tests.upstream.operators import FORMS
from tests.upstream.verdict import ORDER

SHOWN = ("right", "wrong", "crash", "unsupported", "error")
TITLE = {"op": "OpInfo", "module": "ModuleInfo", "optimizer": "OptimizerInfo"}
DTYPES = "float32,float16,bfloat16,float64,complex64,int64,int32,int16,uint8,bool"


class Summary:
    """Results by case, and what is said about them."""

    def __init__(self, options: dict):
        self.options_ = options
        self.results: dict[Case, dict] = {}

    def add(self, case: Case, result: dict) -> None:
        self.results[case] = result

    def entries(self, kind: str) -> dict[str, str]:
        """Database entry → its worst status over dtypes; entries the CPU cannot do at all are left out."""
        worst: dict[str, str] = {}
        for case, result in self.results.items():
            if case.kind == kind:
                worst[case.name] = max(worst.get(case.name, "skipped"), result["status"], key=ORDER.index)
        return {name: status for name, status in worst.items() if status != "skipped"}

    def counts(self, kind: str) -> Counter:
        return Counter(self.entries(kind).values())

    def cases(self, kind: str, *statuses: str) -> list[Case]:
        return [case for case, result in self.results.items() if case.kind == kind and result["status"] in statuses]

    def fallbacks(self, kind: str) -> dict[str, list[str]]:
        """Operator that fell back to the CPU → the database entries that used it."""
        used: dict[str, set[str]] = {}
        for case, result in self.results.items():
            if case.kind == kind:
                for name in result["fallbacks"]:
                    used.setdefault(name, set()).add(case.name)
        return {name: sorted(entries) for name, entries in sorted(used.items(), key=lambda item: -len(item[1]))}

    def lines(self) -> list[str]:
        text = []
        for kind in KINDS:
            total = len(self.entries(kind))
            if not total:
                continue
            counts, cases = self.counts(kind), self.cases(kind, *SHOWN)
            samples = Counter()
            for case in cases:
                samples.update({k: v for k, v in self.results[case]["samples"].items() if k != "skipped"})
            by_case = Counter(self.results[case]["status"] for case in cases)
            name = TITLE[kind]
            text.append(f"{name:13} {'/'.join(SHOWN)} {'/'.join(str(counts[s]) for s in SHOWN)} out of {total}")
            for what, counter in (("cases", by_case), ("samples", samples)):
                figures = "/".join(str(counter[s]) for s in SHOWN)
                text.append(f"{'':13} by {what}: {figures} out of {sum(counter.values())}")
            fell = {entry for entries in self.fallbacks(kind).values() for entry in entries}
            text.append(f"{'':13} used a fallback: {len(fell)} out of {total}")
        return text

    def complaints(self, *statuses: str) -> list[str]:
        return [
            f"{result['status']:12}{case}: {result['detail']}"
            for case, result in sorted(self.results.items())
            if result["status"] in statuses
        ]

    def unexpected(self, exceptions: Exceptions) -> list[str]:
        """Everything that is not right and not excepted, sample by sample."""
        return [line for case in sorted(self.results) for line in self.unexpected_of(case, exceptions)]

    def unexpected_of(self, case: Case, exceptions: Exceptions) -> list[str]:
        return [
            f"{status:12}{case}: {detail}"
            for status, detail in self.results[case]["complaints"]
            if not exceptions.cover(str(case), status, detail)
        ]

    def document(self, seconds: float) -> dict:
        return {
            "options": self.options_,
            "seconds": round(seconds, 1),
            "totals": {kind: {**self.counts(kind), "out of": len(self.entries(kind))} for kind in KINDS},
            "fallbacks": {kind: self.fallbacks(kind) for kind in KINDS},
            "entries": {kind: self.entries(kind) for kind in KINDS},
            "cases": {str(case): result for case, result in sorted(self.results.items())},
        }


def judge(cases: list[Case], options: dict, jobs: int = 2, timeout: float = 60, quiet: bool = False) -> Summary:
    """Judge the cases; a line of progress every five seconds, with what has become known not to be right."""
    summary, start, shown = Summary(options), time.monotonic(), 0.0
    exceptions = Exceptions()

    def report(case: Case, result: dict) -> None:
        nonlocal shown
        summary.add(case, result)
        if not quiet:
            for line in summary.unexpected_of(case, exceptions):
                print(line, flush=True)
        now = time.monotonic()
        if not quiet and (now - shown > 5 or len(summary.results) == len(cases)):
            shown = now
            counts = Counter(result["status"] for result in summary.results.values())
            figures = "  ".join(f"{status} {counts[status]}" for status in SHOWN)
            print(f"{now - start:6.0f} s  {len(summary.results)}/{len(cases)} cases  {figures}  {case}", flush=True)

    kinds = sorted({case.kind for case in cases})
    pool.judge_all(cases, {**options, "kinds": kinds}, jobs, timeout, report)
    return summary


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1, help="samples of each entry and dtype")
    parser.add_argument("--dtypes", default=DTYPES, help="default: %(default)s")
    parser.add_argument("--kinds", default=",".join(KINDS), help="default: %(default)s")
    parser.add_argument("--forms", default="forward,gradient", help=f"of {','.join(FORMS)}; default: %(default)s")
    parser.add_argument("--ops", default="", help="regular expression on the entry's name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--timeout", type=float, help="seconds a case may take; default: 60, or 10 (compiled: 100) a sample, up to 3600"
    )
    parser.add_argument("--device", default="npu")
    parser.add_argument("--plugin", default="torch_npu", help="module to import first; '' for none")
    parser.add_argument("--out", type=Path, help="write every result to this JSON file")
    parser.add_argument("--show", default="wrong,crash,error", help="statuses listed at the end; default: %(default)s")
    parser.add_argument("--every", action="store_true", help="list every sample that is not right and not excepted")
    options = parser.parse_args(arguments)
    # The reference takes its time, too: 40 s for the CPU's gradients of 30 samples of grid_sampler_3d in float16.
    # A kernel of inductor's takes g++ ten seconds.
    a_sample = 100 if set(options.forms.split(",")) & set(BACKENDS) else 10
    options.timeout = options.timeout or min(3600, max(60, a_sample * options.samples))
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    forms = options.forms.split(",")
    if set(forms) - set(FORMS) or set(options.kinds.split(",")) - set(KINDS):
        raise SystemExit(f"--forms are of {','.join(FORMS)}, --kinds of {','.join(KINDS)}")
    cases = list(select(options.kinds.split(","), options.dtypes.split(","), options.ops))
    if not cases:
        raise SystemExit(f"no entry matches {options.ops!r}")
    start = time.monotonic()
    worker = {"device": options.device, "plugin": options.plugin, "samples": options.samples, "forms": forms}
    try:
        summary = judge(cases, worker, options.jobs, options.timeout)
    except pool.WorkerDied as death:
        raise SystemExit(f"a worker cannot start on device {options.device}: {death}") from None
    seconds = time.monotonic() - start
    if options.out:
        options.out.write_text(json.dumps(summary.document(seconds), indent=1) + "\n", encoding="utf-8")
    exceptions = Exceptions()
    unexpected = summary.unexpected(exceptions)
    print(*(unexpected if options.every else summary.complaints(*options.show.split(","))), sep="\n")
    print(*summary.lines(), f"{'':13} in {seconds:.0f} s", sep="\n")
    print(f"{len(unexpected)} samples are not right and not excepted; {exceptions.used} are excepted (exceptions.yaml)")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
