"""tests/opapi/fuzz.py on the build with AddressSanitizer, a process a family: a report ends that family alone.

python -m tests.opapi.sanitized --calls 10000 [--launch] [--seed 1] [--family pool]     after `make fuzz` has built it
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

from tests.opapi.client import ROOT
from tools.codegen import tables

BUILD = ROOT / "build" / "asan-kernels" / "stage" / "torch_npu" / "softnpu" / "lib64"
OPTIONS = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:handle_sigfpe=1:handle_abort=1"
TELLING = re.compile(r"ERROR: AddressSanitizer|^ *#\d+ .*/softnpu/|AssertionError", re.M)


def runtime(name: str) -> str:
    done = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default="10000")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--family", default="")
    parser.add_argument("--launch", action="store_true")
    options = parser.parse_args()
    # torch's libraries are not instrumented: the sanitizer, and the C++ runtime it watches, come first.
    preload = {"LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libstdc++.so')}", "ASAN_OPTIONS": OPTIONS}
    checked = {"ANYCEND_TEST_CANN": str(BUILD), "ANYCEND_CHECK": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment = os.environ | preload | checked | {"OMP_NUM_THREADS": "1"}
    table = tables.load(ROOT / "ops" / "aclnn.yaml")
    failed = []
    for family in [options.family] if options.family else table:
        command = [sys.executable, "-m", "tests.opapi.fuzz", "--calls", options.calls, "--seed", options.seed]
        command += ["--family", family] + ["--launch"] * options.launch
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace")
        print(done.stdout.strip() or f"{family:12} ended with {done.returncode}", flush=True)
        if done.returncode:
            failed.append(family)
            lines = done.stderr.splitlines()
            last = [line for line in lines if line.startswith("acl")][-1:]  # the call that was running
            print(*last, *[line for line in lines if TELLING.search(line)][:12], sep="\n", flush=True)
    print("no report" if not failed else f"reports in {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
