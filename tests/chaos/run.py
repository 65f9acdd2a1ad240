"""Runs random programs and compares each with its oracle.

python -m tests.chaos.run --programs 10000 --seed 1        seeds 1 to 10000, in two processes, with random delays
python -m tests.chaos.run --ranks 3 --programs 500         programs of collectives over three ranks (ranks.py)
python -m tests.chaos.run --show 17                        the program of a seed
python -m tests.chaos.run --only 17 --repeat 50            one seed, many times (with --ranks, too)

A process that hangs, dies or finds a difference names the seed; the program is then made smaller (shrink.py) and
printed, of one that hangs also where its threads stand. Whatever runs a program, --only and shrinking too, does so in a
process of its own with what `environment` says: random delays, threads, a registry. ANYCEND_CHAOS, which draws the
delays, is the seed of the process's first program unless it is set already; a failure says which it was.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from queue import Empty, Queue

from tests.chaos.program import Program, generate

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = tempfile.TemporaryDirectory(prefix="anycend-chaos-")  # of who holds what of a device: these programs alone
COMMAND = "tests.chaos.run"
BATCH = 250  # programs a process
PATIENCE = 120  # seconds without a finished program: it hangs
STARTING = 600  # the same for the first, behind which importing and connecting lie


def worker(first: int, count: int, ranks: int) -> None:
    """Runs seeds and says so, a line each: "ok <seed>" or "bad <seed> <error>"."""
    import torch

    torch.set_num_threads(2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if ranks:
        from tests.chaos.ranks import serve

        return serve(ranks, first, count)
    from tests.chaos.execute import execute

    for seed in range(first, first + count):
        try:
            execute(generate(seed))
            print(f"ok {seed}", flush=True)
        except Exception as error:
            print(f"bad {seed} {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            os._exit(1)  # the devices are in an unknown state


def environment(seed: int) -> dict[str, str]:
    """Of every process that runs programs, the first of them that of `seed`."""
    env = {**os.environ}
    env.setdefault("ANYCEND_CHAOS", str(seed))
    env.setdefault("OMP_NUM_THREADS", "2")
    env["XDG_RUNTIME_DIR"] = REGISTRY.name
    env["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
    return env


def start(first: int, count: int, ranks: int = 0) -> subprocess.Popen:
    command = [sys.executable, "-X", "faulthandler", "-m", COMMAND, "--worker", f"{first},{count},{ranks}"]
    return subprocess.Popen(
        command, env=environment(first), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def run_alone(program: Program, repeat: int, patience: float = PATIENCE, **options) -> subprocess.CompletedProcess:
    """The program, so many times, in one process, which ends when one of them takes longer than `patience`."""
    command = [sys.executable, "-X", "faulthandler", "-m", COMMAND]
    command += ["--program", "-", "--repeat", str(repeat), "--patience", str(patience)]
    env = environment(program.seed)
    return subprocess.run(command, input=program.to_json(), env=env, cwd=ROOT, text=True, **options)


def run_batch(first: int, count: int, ranks: int = 0) -> dict[int, str]:
    """Seeds that failed and how. A process that fails is replaced by one that begins behind the failing seed."""
    failures: dict[int, str] = {}
    end = first + count
    while first < end:
        process, delays = start(first, end - first, ranks), environment(first)["ANYCEND_CHAOS"]
        lines: Queue = Queue()
        errors: list[str] = []
        threads = [
            threading.Thread(target=lambda p=process, q=lines: [q.put(x) for x in p.stdout] + [q.put(None)]),
            threading.Thread(target=lambda p=process, e=errors: e.extend(p.stderr)),
        ]
        for t in threads:
            t.start()
        why, patience, hangs = "", STARTING, False
        while True:
            try:
                line = lines.get(timeout=patience)
            except Empty:
                hangs = True
                why = f"hangs (nothing for {patience} s)"
                os.killpg(process.pid, signal.SIGUSR1)  # with its ranks
                time.sleep(2)
                os.killpg(process.pid, signal.SIGKILL)
                break
            patience = PATIENCE
            if line is None:
                break
            word, _, rest = line.strip().partition(" ")
            if word == "ok":
                first = int(rest) + 1
            elif word == "bad":
                why = rest.partition(" ")[2]
        process.wait()
        for t in threads:
            t.join()
        if hangs:
            why += "\n" + "".join(errors)[-20_000:]
        if first < end:
            why = why or f"the process ended with {process.returncode}: {''.join(errors)[-1500:]}"
            failures[first] = f"{why} (ANYCEND_CHAOS={delays})"
            first += 1
    return failures


def run_all(first: int, count: int, jobs: int, ranks: int = 0, size: int = BATCH) -> dict[int, str]:
    todo: Queue = Queue()
    for at in range(first, first + count, size):
        todo.put((at, min(size, first + count - at)))
    failures: dict[int, str] = {}
    began = time.monotonic()

    def take() -> None:
        while True:
            try:
                at, n = todo.get_nowait()
            except Empty:
                return
            found = run_batch(at, n, ranks)
            failures.update(found)
            print(f"seeds {at} to {at + n - 1}: {len(found)} failed, {time.monotonic() - began:.0f} s", flush=True)
            for seed, why in found.items():
                print(f"  {seed}: {why}", flush=True)

    threads = [threading.Thread(target=take) for _ in range(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failures


def repeat_program(program: Program, times: int, patience: float) -> int:
    """In this process, which ends at once with a failure's traceback and its status 1."""
    import torch

    from tests.chaos.execute import execute

    torch.set_num_threads(2)
    for _ in range(times):
        faulthandler.dump_traceback_later(patience, exit=True)
        try:
            execute(program)
        except Exception as error:
            traceback.print_exc()
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--show", type=int)
    parser.add_argument("--only", type=int)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--patience", type=float, default=PATIENCE, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--no-shrink", action="store_true")
    args = parser.parse_args()
    if args.worker:
        worker(*map(int, args.worker.split(",")))
        return 0
    if args.program:
        return repeat_program(Program.from_json(sys.stdin.read()), args.repeat, args.patience)
    if args.show is not None:
        if args.ranks:
            from tests.chaos.ranked import draw

            print(draw(args.show, args.ranks))
        else:
            print(generate(args.show))
        return 0
    if args.only is not None and args.ranks:
        failed = [found for _ in range(args.repeat) if (found := run_batch(args.only, 1, args.ranks))]
        print(*failed, f"{args.repeat} runs, {len(failed)} failed", sep="\n")
        return bool(failed)
    if args.only is not None:
        code = run_alone(generate(args.only), args.repeat).returncode
        print(f"the process ended with {code}" if code else f"{args.repeat} runs, none failed")
        return bool(code)
    failures = run_all(args.seed, args.programs, args.jobs, args.ranks, BATCH if not args.ranks else 100)
    for seed in sorted(failures):
        print(f"\nseed {seed}: {failures[seed]}")
        if not args.ranks and not args.no_shrink:
            from tests.chaos.shrink import shrink

            print(shrink(generate(seed)) or "by itself it does not fail in 40 runs, and is not made smaller")
    print(f"{args.programs} programs, seeds {args.seed} to {args.seed + args.programs - 1}: {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
