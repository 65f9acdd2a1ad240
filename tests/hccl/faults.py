"""The fault table of libhccl:  python -m tests.hccl.faults [--full] [--only WORD]

A cell is a fault, a phase, a number of ranks, of hosts, and a victim. It is right when every rank that lives succeeds
(where the fault leaves that possible: strangers, outages that are shorter than a host's time) or gets an error that
names the victim, within the cell's bound, and its process ends well.
test_faults.py runs the cells as tests; this prints them as a table.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
import time
from dataclasses import dataclass
from random import Random

from tests.hccl import programs
from tests.hccl.namespaces import Hosts
from tests.hccl.namespaces import reason as no_namespaces
from tests.hccl.ranks import BadEnd, Job

EXEC, CONNECT = 2, 3  # HCCL_EXEC_TIMEOUT, HCCL_CONNECT_TIMEOUT of the jobs
SURVIVING = 18  # more of both where the network is away: shorter outages than ANYCEND_HOST_TIMEOUT (10 s) are survived
SLACK = 6  # seconds for a busy machine
PHASES = {
    "init": programs.phase_init,
    "first": programs.phase_first,
    "large": programs.phase_large,
    "replay": programs.phase_replay,
    "destroy": programs.phase_destroy,
    "sub": programs.phase_sub,
}
RUNNING = ("large", "replay")  # the fault comes while all ranks are at it; else before the victim begins
ENDS = ("kill", "exit", "exception", "abort")
OUTAGES = {"outage-0.5": 0.5, "outage-2": 2.0, "outage-5": 5.0}


@dataclass(frozen=True)
class Cell:
    fault: str  # kill, exit, exception, abort, hang, outage-*, stranger
    phase: str
    ranks: int
    hosts: int
    victim: int

    def __str__(self) -> str:
        return f"{self.fault}-{self.phase}-{self.ranks}ranks-{self.hosts}hosts-victim{self.victim}"

    @property
    def must_succeed(self) -> bool:
        return self.fault == "stranger" or self.fault in OUTAGES or self.phase == "destroy"


def table() -> list[Cell]:
    cells = []
    for hosts in (1, 2):
        for n in (2, 4, 8):
            for phase in PHASES:
                victims = (n - 1, 0) if n == 4 else (n - 1,)
                for victim in victims:
                    # Rank 0 has the root: without it, in init, there is nobody to join.
                    if phase == "init" and victim == 0:
                        continue
                    cells += [Cell(f, phase, n, hosts, victim) for f in (*ENDS, "hang")]
                # Inside a host only the root listens, while the world is made.
                if hosts == 2 or phase == "init":
                    cells.append(Cell("stranger", phase, n, hosts, -1))
                if hosts == 2:
                    cells += [Cell(f, phase, n, hosts, -1) for f in OUTAGES]
    return cells


QUICK = [
    Cell("kill", "large", 4, 1, 3),
    Cell("exception", "first", 2, 1, 1),
    Cell("hang", "sub", 2, 1, 1),
    Cell("kill", "sub", 4, 1, 0),
    Cell("hang", "replay", 4, 2, 0),
    Cell("abort", "destroy", 2, 1, 1),
    Cell("kill", "replay", 2, 2, 1),
    Cell("hang", "first", 4, 2, 0),
    Cell("hang", "first", 2, 2, 1),
    Cell("exit", "init", 2, 2, 1),
    Cell("stranger", "init", 2, 1, -1),
    Cell("stranger", "large", 2, 2, -1),
    Cell("outage-0.5", "large", 2, 2, -1),
]


def listening(job: Job, hosts: Hosts | None) -> list[tuple[int, str, int]]:
    """(host, address, port) on which the job's processes listen by TCP."""
    import os
    from pathlib import Path

    found = set()
    for r, worker in enumerate(job.workers):
        mine = set()
        for fd in Path(f"/proc/{worker.pid}/fd").iterdir():
            try:
                mine.add(os.readlink(fd))
            except OSError:
                pass
        for line in Path(f"/proc/{worker.pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in mine:
                address, port = fields[1].split(":")
                host = r * 2 // job.size if hosts else 0
                found.add((host, socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return sorted(found)


# Told as a program, so that it can run inside a host: noise of several kinds at each socket.
NOISE = """
import random, socket, struct, sys
chance, taken = random.Random(int(sys.argv[1])), 0
for place in sys.argv[2:]:
    address, port = place.rsplit(":", 1)
    kept = []
    for i in range(40):
        try:
            s = socket.create_connection((address, int(port)), timeout=2)
        except OSError:
            continue
        kinds = [chance.randbytes(77), b"\\x01", struct.pack("<II", 40, 1) + chance.randbytes(40), bytes(77),
                 struct.pack("<II", 0xffffffff, 1), chance.randbytes(chance.randrange(1, 5000))]
        try:
            s.sendall(kinds[i % len(kinds)])
        except OSError:
            pass
        kept.append(s)
    taken += bool(kept)
print(taken)
"""


def disturb(job: Job, hosts: Hosts | None, seed: int) -> int:
    """Noise at every socket on which the job listens, from its own host and from the other; how many took some."""
    import subprocess

    places, taken = listening(job, hosts), 0
    for where in range(2 if hosts else 1):
        names = [
            f"{address}:{port}"
            for host, address, port in places
            if hosts is None or address != "127.0.0.1" or host == where
        ]
        prefix = hosts.prefix(where) if hosts else []
        if names:
            command = [*prefix, sys.executable, "-c", NOISE, str(seed), *names]
            taken += int(subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE).stdout)
    return taken


def inflict(cell: Cell, job: Job, hosts: Hosts | None) -> None:
    if cell.fault == "kill":
        job.kill(cell.victim)
    elif cell.fault == "hang":
        job.kill(cell.victim, signal.SIGSTOP)
    elif cell.fault == "stranger":
        assert disturb(job, hosts, Random(str(cell)).randrange(1 << 30)), f"{cell}: no socket took any noise"
    elif cell.fault in OUTAGES:
        hosts.cut()
        time.sleep(OUTAGES[cell.fault])
        hosts.mend()
    elif cell.phase in RUNNING:  # it is busy with the phase: a signal makes it end
        how = {"exit": signal.SIGTERM, "exception": signal.SIGINT, "abort": signal.SIGABRT}[cell.fault]
        job.kill(cell.victim, how)
    else:
        job.may_die(cell.victim)
        job.start(programs.end, cell.fault, ranks=[cell.victim])
        job.workers[cell.victim].wait(20)


def run(cell: Cell) -> str:
    """What is wrong with the cell; empty when nothing is."""
    hosts = Hosts() if cell.hosts == 2 else None
    env = {
        "HCCL_EXEC_TIMEOUT": str(EXEC + SURVIVING * (cell.fault in OUTAGES)),
        "HCCL_CONNECT_TIMEOUT": str(CONNECT + SURVIVING * (cell.fault in OUTAGES)),
    }
    each = {r: {"HCCL_IF_IP": hosts.addresses[r * 2 // cell.ranks]} for r in range(cell.ranks)} if hosts else None
    prefix = {r: hosts.prefix(r * 2 // cell.ranks) for r in range(cell.ranks)} if hosts else None
    wrong = []
    try:
        with Job(cell.ranks, env=env, each=each, prefix=prefix) as job:
            wrong.append(judge(cell, job, hosts))
    except BadEnd as error:
        wrong.append(str(error))
    finally:
        if hosts:
            hosts.close()
    return "; ".join(filter(None, wrong))


def names(victim: int, text: str) -> bool:
    """Does an error blame this rank? Every message ends by saying whose it is ("rank 1 of 4"), which blames nobody."""
    blamed = re.sub(r"\brank \d+ of \d+\b(?! did not connect)", "", text)
    return bool(re.search(rf"\brank (\d+, )*{victim}\b", blamed))


def judge(cell: Cell, job: Job, hosts: Hosts | None) -> str:
    others = [r for r in range(cell.ranks) if r != cell.victim]
    program, seconds = PHASES[cell.phase], 3.0 if cell.fault in OUTAGES else 1.5
    job.run(programs.mapped, "libhccl")  # all have started: the root waits for them no longer than CONNECT
    (info,) = job.run(programs.make_root, ranks=[0])
    if cell.phase != "init":
        job.run(programs.join_world, info)
        if cell.phase != "first":
            job.run(programs.all_reduce_once)
    late = [] if cell.fault in ENDS or cell.fault == "hang" else [cell.ranks - 1]
    if cell.phase in RUNNING:
        job.start(program, info, 30.0 if cell.victim >= 0 else seconds)
        time.sleep(0.5)
        inflict(cell, job, hosts)
        rest = []
    else:  # the last one waits for the noise or the outage, so that it falls into the phase
        job.start(program, info, seconds, ranks=[r for r in others if r not in late])
        time.sleep(0.3)
        inflict(cell, job, hosts)
        rest = late
    felt = time.monotonic()
    job.start(program, info, seconds, ranks=rest)
    bound = SLACK + (CONNECT if cell.phase in ("init", "sub") else EXEC) + 2 + SURVIVING * (cell.fault in OUTAGES)
    wrong = []
    try:
        answers = job.results(ranks=others, timeout=bound + (OUTAGES.get(cell.fault, 0)))
    except TimeoutError as error:
        return f"hung for {bound} s: {error}"
    finally:
        if cell.fault == "hang":
            job.kill(cell.victim, signal.SIGKILL)
    took = time.monotonic() - felt
    for r, answer in zip(others, answers, strict=True):
        if isinstance(answer, Exception):
            wrong.append(f"rank {r} answered {answer!r}")
            continue
        _, text = answer
        if not text:
            if not cell.must_succeed:
                wrong.append(f"rank {r} knows of nothing")
        elif cell.must_succeed:
            wrong.append(f"rank {r} failed: {text}")
        elif not names(cell.victim, text):
            wrong.append(f"rank {r} was not told who: {text}")
    if took > bound:
        wrong.append(f"it took {took:.1f} s")
    return "; ".join(wrong)


def main() -> None:
    cells = table() if "--full" in sys.argv else QUICK
    if "--only" in sys.argv:
        word = sys.argv[sys.argv.index("--only") + 1]
        cells = [c for c in cells if word in str(c)]
    bad = 0
    for cell in cells:
        if cell.hosts == 2 and no_namespaces():
            print(f"skipped  {cell}: {no_namespaces()}")
            continue
        began = time.monotonic()
        try:
            wrong = run(cell)
        except Exception as error:  # before the fault: the table goes on
            wrong = f"could not be tried: {error!r}"
        bad += bool(wrong)
        print(f"{'WRONG' if wrong else 'right'} {time.monotonic() - began:6.1f} s  {cell}  {wrong}", flush=True)
    print(f"{len(cells)} cells, {bad} wrong")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
