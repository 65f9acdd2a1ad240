"""Runs files in child processes, each with a limit of time a test. A child that crashes or hangs costs one test."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

CHILD = str(Path(__file__).with_name("child.py"))
START_SECONDS = 300  # importing torch and a large file on a busy machine
BREAKDOWNS = 3  # a child that ends so often between two tests is not started again


@dataclasses.dataclass
class Unit:
    """A file of tests, or a share of its tests."""

    file: str
    shard: tuple[int, int]
    done: list[str] = dataclasses.field(default_factory=list)
    breakdowns: int = 0


def say_how(process: subprocess.Popen, log: Path) -> str:
    code = process.wait()
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-25:]
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{how}: " + "\n".join(lines)


class Runner:
    def __init__(self, python: str, options: dict, limit: float, until: float, report: Callable[[dict], None]):
        self.python, self.options, self.limit, self.until, self.report = python, options, limit, until, report
        self.lock, self.folder = threading.Lock(), Path(tempfile.mkdtemp(prefix="graphs_"))

    def tell(self, record: dict) -> None:
        with self.lock:
            self.report(record)

    def run(self, units: list[Unit], jobs: int) -> None:
        waiting = list(units)

        def work(number: int) -> None:
            while time.monotonic() < self.until:
                with self.lock:
                    unit = waiting.pop(0) if waiting else None
                if unit is None:
                    return
                while self.child(unit, number):
                    pass

        threads = [threading.Thread(target=work, args=(number,)) for number in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def child(self, unit: Unit, number: int) -> bool:
        """One process over what is left of the unit. True: there is more left."""
        options, log = self.folder / f"{number}.json", self.folder / f"{number}.log"
        options.write_text(json.dumps({**self.options, **dataclasses.asdict(unit)}))
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / f"cache{number}"), **os.environ}
        environment.update(TORCHINDUCTOR_COMPILE_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        with log.open("w") as written, selectors.DefaultSelector() as selector:
            process = subprocess.Popen(
                [self.python, "-P", CHILD, str(options)], env=environment, start_new_session=True,
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=written, text=True,
            )  # fmt: skip
            selector.register(process.stdout, selectors.EVENT_READ)
            try:
                return self.listen(unit, process, selector, log)
            finally:
                with_its_children(process)

    def listen(self, unit: Unit, process: subprocess.Popen, selector: selectors.BaseSelector, log: Path) -> bool:
        running, finished = None, False
        while True:
            left = self.until - time.monotonic()
            limit = self.limit if running else START_SECONDS
            ready = selector.select(max(0.0, min(limit, left)))
            line = process.stdout.readline() if ready else ""
            if line:
                message = json.loads(line)
                running = message.get("start")
                finished |= "collected" in message
                if "broken" in message:  # it cannot be imported, so there is nothing to run
                    self.tell({"id": message["broken"], "outcome": "broken", "detail": message["detail"]})
                    return False
                if "id" in message:
                    unit.done.append(message["id"])
                    self.tell(message)
                continue
            if not ready and left <= limit:
                return False  # the whole run's time is over
            if not ready:
                with_its_children(process)
            how = f"longer than {limit:.0f} s" if not ready else say_how(process, log)
            if running:
                unit.done.append(running)
                self.tell({"id": running, "outcome": "timeout" if not ready else "crash", "detail": how})
                return True
            if finished and process.wait() in (0, 1, 5):
                return False
            self.tell({"id": Path(unit.file).name, "outcome": "broken", "detail": how})
            unit.breakdowns += 1
            return finished and unit.breakdowns < BREAKDOWNS


def with_its_children(process: subprocess.Popen) -> None:
    """The child has a session of its own: compilers and what tests started end with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process.stdout.close()
