"""One worker of the runner: cases in, verdicts out, as JSON lines. It may crash; pool.py notices.

PYTHONPATH=. python -P tests/upstream/worker.py \
    '{"device": "npu", "plugin": "torch_npu", "kinds": ["op"], "samples": 1, "forms": [...]}'
"""

from __future__ import annotations

import dataclasses
import faulthandler
import importlib
import json
import os
import sys
import time
import warnings

import torch

from tests.upstream import modules, operators, optimizers
from tests.upstream.cases import Case, database
from tests.upstream.verdict import Verdict


def fallbacks(plugin: object) -> dict[str, int]:
    """Operators that ran on the CPU so far, where the plugin counts them."""
    count = getattr(getattr(plugin, "npu", None), "fallback_counts", None)
    return dict(count()) if count else {}


def judge(case: Case, options: dict) -> Verdict:
    entry, dtype = database(case.kind)[case.name], getattr(torch, case.dtype)
    device, samples = options["device"], options["samples"]
    if case.kind == "op":
        return operators.judge(entry, dtype, device, samples, tuple(options["forms"]))
    if case.kind == "module":
        return modules.judge(entry, dtype, device, samples)
    return optimizers.judge(entry, dtype, device, samples)


def alive(device: str) -> bool:
    """After an error: does the device still compute? A sticky asynchronous error would blame the next cases."""
    try:
        return (torch.ones(4).to(device) + 1).cpu().tolist() == [2.0] * 4
    except Exception:
        return False


def main() -> None:
    options = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")  # what an operator prints goes to stderr
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    plugin = importlib.import_module(options["plugin"]) if options["plugin"] else None
    torch.ones(1).to(options["device"])  # an absent device or a broken plugin is one clear error, not three thousand
    fallbacks(plugin)
    for kind in options["kinds"]:
        database(kind)  # before the first case, whose time is its own

    def answer(message: dict) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    answer({"ready": True})
    for line in sys.stdin:
        case = Case(*json.loads(line))
        before, start = fallbacks(plugin), time.monotonic()
        verdict = judge(case, options)
        used = {name: n - before.get(name, 0) for name, n in fallbacks(plugin).items() if n > before.get(name, 0)}
        stop = verdict.unhealthy and not alive(options["device"])
        seconds = round(time.monotonic() - start, 3)
        answer({**dataclasses.asdict(verdict), "fallbacks": used, "seconds": seconds, "stop": stop})
        if stop:
            break


if __name__ == "__main__":
    main()
