"""PyTorch's own DistributedTest class on npu and hccl.

    python -m tests.upstream.distributed [--only REGEX] [--leave REGEX] [--ranks 2] [--pixels 64] [--json FILE]

The class knows nccl, gloo and ucc and counts CUDA devices. The adapter is torch_npu's own: transfer_to_npu makes "nccl"
mean hccl and cuda mean npu, so that the tests run which were written for nccl. Ranks are forked: a started interpreter
imports PyTorch for seconds, and there are hundreds of tests. Three of them train large convolutions on images of
1000×1000, which takes a CPU many minutes and one of them more than its own time limit: --pixels makes those smaller.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import re
import sys
import time
import unittest
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The clone's own torch_npu has no compiled part: the installed or staged one must be found first.
sys.path[:] = [p for p in sys.path if p not in ("", str(ROOT))] + [str(ROOT)]


def cuda_is_npu() -> None:
    """PyTorch's test modules look for CUDA when they are imported: this comes before."""
    import torch_npu  # noqa: F401
    from torch_npu.contrib import transfer_to_npu  # noqa: F401


def module_with_images(pixels: int):
    """PyTorch's module, whose images of 1000×1000 have sides of `pixels`."""
    name = "torch.testing._internal.distributed.distributed_test"
    spec = importlib.util.find_spec(name)
    source = Path(spec.origin).read_text()
    for old, new in (("1, 3, 1000, 1000", f"1, 3, {pixels}, {pixels}"), ("    dim = 1000\n", f"    dim = {pixels}\n")):
        if old not in source:
            raise SystemExit(f"{spec.origin} has no {old.strip()!r}: its images are others than --pixels knows")
        source = source.replace(old, new)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(compile(source, spec.origin, "exec", dont_inherit=True), module.__dict__)
    return module


def test_class(ranks: int, timeout: int, pixels: int):
    """PyTorch reads its settings from the environment when its module is imported."""
    os.environ.update(
        BACKEND="nccl",
        WORLD_SIZE=str(ranks),
        TEMP_DIR=os.environ.get("TMPDIR", "/tmp"),
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(timeout),
        OMP_NUM_THREADS="1",
        GLOO_SOCKET_IFNAME="lo",
    )
    cuda_is_npu()
    import torch
    from torch.testing._internal import common_distributed, common_utils

    # Seeding would initialize the NPU in the process that forks; the ranks are seeded when they run.
    seed, parent = common_utils.set_rng_seed, os.getpid()
    common_utils.set_rng_seed = lambda *args: None if os.getpid() == parent else seed(*args)
    common_distributed.TIMEOUT_OVERRIDE.clear()  # seconds for a few tests, by PyTorch's machines
    common_distributed.requires_nccl_version = lambda version, message: lambda test: test  # HCCL has no such number
    common_distributed.DistTestCases.backend_feature["plugin"].add("hccl")
    distributed_test = module_with_images(pixels)
    torch.set_num_threads(1)

    class TestDistBackendForked(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._fork_processes()

        def _fork_processes(self):
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return TestDistBackendForked


# Tests that ask for NCCL's names and words, not for what it does, and the one failure each must have.
OTHER_NAME = "String comparison failed: 'hccl' != 'nccl'"  # compares the back end's name
OTHER_TEXT = r'"caught collective operation timeout" does not match "ProcessGroupHCCL: ALLREDUCE .* was not done within'
EXPECTED = {
    "test_Backend_enum_class": OTHER_NAME,
    "test_get_backend": OTHER_NAME,
    "test_nccl_high_priority_stream": "has no attribute 'ProcessGroupNCCL'",
    "test_monitored_barrier_allreduce_hang": OTHER_TEXT,
    "test_monitored_barrier_allreduce_hang_wait_all_ranks": OTHER_TEXT,
}


class Result(unittest.TestResult):
    """One line a test: what became of it, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict] = []
        self.began = 0.0

    def startTest(self, test) -> None:
        super().startTest(test)
        self.began = time.monotonic()

    def add(self, test, outcome: str, why: str = "") -> None:
        seconds = round(time.monotonic() - self.began, 1)
        name = test.id().rsplit(".", 1)[1]
        self.rows.append({"test": name, "outcome": outcome, "why": why, "seconds": seconds})
        print(f"{outcome:8} {seconds:6.1f} {name}  {why.strip().splitlines()[-1][:150] if why else ''}", flush=True)

    def addSuccess(self, test) -> None:
        stale = test.id().rsplit(".", 1)[1] in EXPECTED
        self.add(test, *(("failed", "it passes: take it out of EXPECTED") if stale else ("passed",)))

    def addSkip(self, test, reason: str) -> None:
        self.add(test, "skipped", reason)

    def addFailure(self, test, err) -> None:
        words, text = EXPECTED.get(test.id().rsplit(".", 1)[1]), self._exc_info_to_string(err, test)
        self.add(test, "expected" if words and re.search(words, text) else "failed", text)

    addError = addFailure


def run(only: str, ranks: int, timeout: int, leave: str, pixels: int) -> list[dict]:
    case = test_class(ranks, timeout, pixels)
    names = unittest.TestLoader().getTestCaseNames(case)
    names = [name for name in names if re.search(only, name) and not re.search(leave, name)]
    result = Result()
    case.setUpClass()
    for name in names:
        with redirect_stderr(io.StringIO()):
            case(name).run(result)
    return result.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--leave", default="^$", help="tests that are left out")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=60, help="seconds a test may take")
    parser.add_argument("--pixels", type=int, default=1000, help="the side of the largest images")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--failures", action="store_true", help="print why tests failed")
    args = parser.parse_args()
    rows = run(args.only, args.ranks, args.timeout, args.leave, args.pixels)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    if args.failures:
        for row in rows:
            if row["outcome"] == "failed":
                print(f"\n=== {row['test']}\n{row['why']}")
    print(dict(Counter(row["outcome"] for row in rows)))


if __name__ == "__main__":
    main()
