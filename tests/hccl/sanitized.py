"""Collectives over two hosts under a sanitizer:  python -m tests.hccl.sanitized asan|tsan

`make sanitize` builds build/<preset> before. The ranks are Python processes with the sanitizer's runtime loaded first;
what it finds ends up in build/<preset>/found.* and makes this fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.hccl import programs
from tests.hccl.ranks import ROOT, Job

WAIT = 120  # seconds; everything is many times slower


def environment(preset: str) -> dict[str, str]:
    folder = ROOT / "build" / preset

    def library(name: str) -> str:
        found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        return os.path.realpath(found.stdout.strip())

    log = f"log_path={folder}/found"
    # UCX is not instrumented: what goes on inside it is its own affair. At the end of a process it unlocks what it was
    # not seen to lock.
    quiet = folder / "ucx.supp"
    libraries = "".join(f"called_from_lib:lib{name}.so.0\n" for name in ("ucp", "uct", "ucs"))
    quiet.write_text(f"{libraries}mutex:_dl_call_fini\n")
    return {
        "ANYCEND_TEST_CANN_LIB": str(folder / "stage" / "torch_npu" / "softnpu" / "lib64"),
        # The C++ runtime beside it: AddressSanitizer looks once, at the start, for the function that throws.
        "LD_PRELOAD": f"{library(f'lib{preset}.so')} {library('libstdc++.so')}",
        "TSAN_OPTIONS": f"{log} suppressions={quiet}",
        "ASAN_OPTIONS": f"{log}:detect_leaks=0",
        "UBSAN_OPTIONS": f"{log}:print_stacktrace=1",
    }


def collectives(job: Job) -> None:
    (info,) = job.run(programs.make_root, ranks=[0], timeout=WAIT)
    job.run(programs.join_world, info, timeout=WAIT)
    job.run(programs.all_reduce_matrix, [0, 13, 40_000], ["int32", "fp16", "fp32"], timeout=WAIT)
    job.run(programs.reduce_matrix, [13, 40_000], ["bf16", "fp32"], timeout=WAIT)
    job.run(programs.move_matrix, [0, 777, 30_000], ["fp32"], timeout=WAIT)
    for scale in (1, 3_000):
        job.run(programs.uneven_matrix, scale, timeout=WAIT)
    for way in ("batch", "group", "alone"):
        job.run(programs.ring, 300_000, way, timeout=WAIT)
    job.run(programs.sub_communicators, timeout=WAIT)
    (info,) = job.run(programs.make_root, ranks=[0], timeout=WAIT)
    job.run(programs.two_communicators, info, 5, timeout=WAIT)
    job.run(programs.replays_beside_calls, 30_000, "geGEhgH", timeout=WAIT)
    job.run(programs.mismatched, "dtype", timeout=WAIT)
    job.run(programs.resume, timeout=WAIT)
    job.run(programs.all_reduce, "fp32", "sum", 100_000, timeout=WAIT)
    job.start(programs.watch_async_error, 30.0, ranks=[0, 1, 2])
    job.kill(3)
    assert all(code == "REMOTE" for _, code in job.results(ranks=[0, 1, 2], timeout=WAIT))


def main(preset: str) -> None:
    folder = ROOT / "build" / preset
    for old in folder.glob("found.*"):
        old.unlink()
    # setarch: the sanitizers' shadow memory needs addresses that are not random.
    hosts = {r: {"ANYCEND_HOST_ID": "ab"[r // 2]} for r in range(4)}
    with Job(4, env=environment(preset), each=hosts, prefix={r: ["setarch", "-R"] for r in range(4)}) as job:
        collectives(job)
    if found := sorted(map(Path.read_text, folder.glob("found.*"))):
        sys.exit("\n".join(found))
    print(f"{preset}: nothing found")


if __name__ == "__main__":
    main(sys.argv[1])
