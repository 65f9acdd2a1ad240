"""Worker processes that judge cases. A worker that crashes, hangs or loses its device is recorded and replaced."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.upstream.cases import Case

ROOT = Path(__file__).resolve().parents[2]
WORKER = str(Path(__file__).with_name("worker.py"))
START_SECONDS = 180  # importing torch and the database on a busy machine


class WorkerDied(Exception):
    """The process ended or hung; the text says how."""


class Worker:
    def __init__(self, options: dict):
        # No autoload: the worker imports the plugin it is told, after it has secured its standard output for answers.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        # A refusal is an error of the call that asked. Out of the vendor's queue it comes later: the samples behind it
        # find old data, or wait forever when one was queued while the queue's thread ended (docs/vendor_wheel.md).
        environment.setdefault("TASK_QUEUE_ENABLE", "0")
        # By its file, not by `-m`: the database asks inspect.stack() at each sample, which for a frame without a file
        # (runpy's) looks through all modules; that took four fifths of a run.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(ROOT))))
        self.log_ = tempfile.TemporaryFile("w+", errors="replace")  # closed with the worker
        self.process_ = subprocess.Popen(
            [sys.executable, "-P", WORKER, json.dumps(options)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log_, text=True,
        )  # fmt: skip
        self.selector_ = selectors.DefaultSelector()
        self.selector_.register(self.process_.stdout, selectors.EVENT_READ)
        self.receive(START_SECONDS)

    def receive(self, timeout: float) -> dict:
        # A worker writes one line per case and waits for the next, so a readable pipe holds a whole line.
        if not self.selector_.select(timeout):
            self.process_.kill()
            self.process_.wait()
            raise WorkerDied(f"no answer within {timeout:.0f} s")
        line = self.process_.stdout.readline()
        if not line:
            raise WorkerDied(self.last_words())
        return json.loads(line)

    def ask(self, case: Case, timeout: float) -> dict:
        try:
            self.process_.stdin.write(json.dumps(case) + "\n")
            self.process_.stdin.flush()
        except BrokenPipeError:
            raise WorkerDied(self.last_words()) from None
        return self.receive(timeout)

    def last_words(self) -> str:
        code = self.process_.wait()
        self.log_.seek(0)
        lines = [line.strip() for line in self.log_.read().splitlines() if line.strip()]
        if code >= 0:
            return f"exit code {code}: {' | '.join(lines[-2:])}"[:600]
        frames = [line for line in lines if line.startswith("File ")][:3]  # faulthandler: innermost first
        return f"{signal.Signals(-code).name}: {' < '.join(frames)}"[:600]

    def close(self) -> None:
        self.process_.stdin.close()
        try:
            self.process_.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process_.kill()
            self.process_.wait()
        self.process_.stdout.close()
        self.selector_.close()
        self.log_.close()


def serve(cases: Iterable[Case], options: dict, timeout: float, lock: threading.Lock, report: Callable) -> None:
    """Judge cases from the shared iterator until it is empty."""
    worker = None
    while True:
        with lock:
            case = next(cases, None)
        if case is None:
            break
        worker = worker or Worker(options)
        try:
            result = worker.ask(case, timeout)
        except WorkerDied as death:
            result = {"status": "crash", "detail": str(death), "samples": {"crash": 1}, "fallbacks": {}, "stop": True}
            result["complaints"] = [("crash", str(death))]
        if result.pop("stop", False):
            worker.close()
            worker = None
        with lock:
            report(case, result)
    if worker:
        worker.close()


def judge_all(cases: Iterable[Case], options: dict, jobs: int, timeout: float, report: Callable) -> None:
    """Calls report(case, result) for each case, one call at a time. Raises WorkerDied if a worker cannot start."""
    lock, queue = threading.Lock(), iter(cases)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            serve(queue, options, timeout, lock, report)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
