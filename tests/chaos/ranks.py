"""Runs programs of collectives, messages, kernels, copies, graphs and aborted groups over several ranks of one host,
and compares each rank's buffers with the oracle's (ranked.py).
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import torch

from tests.chaos.program import MODULUS
from tests.chaos.ranked import LENGTHS, SLOTS, STREAMS, Oracle, Ranked, draw, groups_of, initial, kernel, pieces
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


class Rank:
    """This rank's part of the programs."""

    def __init__(self, rank: int, size: int):
        import torch.distributed as dist

        self.dist, self.rank, self.size = dist, rank, size
        torch.npu.set_device(rank)
        dist.init_process_group("hccl", rank=rank, world_size=size)
        self.groups = [dist.group.WORLD, *(dist.new_group(list(g)) for g in groups_of(size)[1:])]
        self.streams = [torch.npu.current_stream(), *(torch.npu.Stream(priority=-(i % 2)) for i in range(STREAMS - 1))]

    def run(self, program: Ranked) -> None:
        self.oracle = Oracle(program)
        self.state = [[initial(self.rank, n, s).npu() for s in range(SLOTS)] for n in range(len(LENGTHS))]
        torch.npu.synchronize()
        self.last: dict[tuple[int, int], torch.npu.Stream] = {}  # who used a buffer last
        self.graphs: dict[int, torch.npu.NPUGraph] = {}
        for number, step in enumerate(program.steps):
            self.oracle.step(step)
            self.step(number, step)
        torch.npu.synchronize()
        self.compare(len(program.steps))

    def compare(self, number: int) -> None:
        for n, slots in enumerate(self.state):
            for i, mine in enumerate(slots):
                got, want = mine.cpu(), self.oracle.state[self.rank][n][i]
                if not torch.equal(got, want):
                    at = int((got != want).nonzero()[0])
                    raise AssertionError(
                        f"rank {self.rank}, before step {number}: buffer {n}.{i}[{at}] is {got[at].item()}, not "
                        f"{want[at].item()}; {int((got != want).sum())} of {len(got)} differ"
                    )

    def use(self, stream, step: dict, slots: list[int]) -> list[torch.Tensor]:
        """The step's buffers, for work on `stream`."""
        for slot in slots:
            place = (step["length"], slot)
            if (last := self.last.get(place, stream)) != stream:
                stream.wait_stream(last)
            self.last[place] = stream
        return self.state[step["length"]]

    def step(self, number: int, s: dict) -> None:
        dist = self.dist
        members, group = groups_of(self.size)[s["group"]], self.groups[s["group"]]
        stream, other = self.streams[s["stream"]], self.streams[s["other"]]
        first, second, third = s["slots"][:3]
        op = getattr(dist.ReduceOp, s["op"])
        if s["kind"] == "check":
            torch.npu.synchronize()
            return self.compare(number)
        if s["kind"] == "abort":
            return self.abort(s)
        if s["kind"] not in ("kernel", "batch", "message") and self.rank not in members:
            return None
        n = len(members)
        with torch.npu.stream(stream):
            of = self.use(stream, s, s["slots"])
            part = LENGTHS[s["length"]] // n
            match s["kind"]:
                case "kernel":
                    kernel(s, self.rank, of)
                case "barrier":
                    dist.barrier(group)
                case "all_reduce":
                    dist.all_reduce(of[first], op, group)
                    of[first].remainder_(MODULUS)
                case "capture":
                    self.capture(s, of, group, op, stream)
                case "replay":
                    self.graphs[s["graph"]].replay()
                case "copies":
                    self.copies(s, of)
                case "temporary":
                    self.temporary(s, of, group, op, stream, other)
                case "burst":
                    works = [dist.all_reduce(of[i], op, group, async_op=True) for i in (first, second, third)]
                    with torch.npu.stream(other):
                        for work, i in list(zip(works, (first, second, third), strict=True))[
                            :: -1 if s["k"] % 2 else 1
                        ]:
                            work.wait()
                            of[i].remainder_(MODULUS)
                    stream.wait_stream(other)
                case "coalesced":
                    with dist._coalescing_manager(group, device=of[first].device, async_ops=True) as manager:
                        for i in (first, second, third):
                            dist.all_reduce(of[i], op, group)
                    manager.wait()
                    for i in (first, second, third):
                        of[i].remainder_(MODULUS)
                case "broadcast":
                    dist.broadcast(of[first], s["root"], group)
                case "all_gather":
                    dist.all_gather_into_tensor(of[first][: part * n], of[second][:part], group)
                case "reduce_scatter":
                    dist.reduce_scatter_tensor(of[first][:part], of[second][: part * n], op, group)
                    of[first][:part].remainder_(MODULUS)
                case "all_to_all":
                    dist.all_to_all_single(of[first][: part * n], of[second][: part * n], group=group)
                case "reduce" | "gather" | "scatter" | "all_gather_list" | "reduce_scatter_list" | "all_to_all_list":
                    self.rooted_or_of_lists(s, of, group, op, n)
                case "batch":
                    self.batch(s, of)
                case "message":
                    self.message(s, of)
        return None

    def rooted_or_of_lists(self, s: dict, of: list[torch.Tensor], group, op, n: int) -> None:
        dist, root, here = self.dist, s["root"], self.rank == s["root"]
        a, b = of[s["slots"][0]], of[s["slots"][1]]
        part, later = len(a) // n, {"group": group, "async_op": s["k"] % 3 == 0}
        match s["kind"]:
            case "reduce":
                work = dist.reduce(a, root, op, **later)
            case "gather":
                work = dist.gather(b[:part], pieces(s, a, n) if here else None, root, **later)
            case "scatter":
                work = dist.scatter(a[:part], pieces(s, b, n) if here else None, root, **later)
            case "all_gather_list":
                work = dist.all_gather(pieces(s, a, n), b[:part], **later)
            case "reduce_scatter_list":
                work = dist.reduce_scatter(a[:part], pieces(s, b, n), op, **later)
            case "all_to_all_list":
                work = dist.all_to_all(pieces(s, a, n), pieces(s, b, n), **later)
        if work:
            work.wait()
        if s["kind"] == "reduce" and here:
            a.remainder_(MODULUS)
        if s["kind"] == "reduce_scatter_list":
            a[:part].remainder_(MODULUS)

    def capture(self, s: dict, of: list[torch.Tensor], group, op, stream) -> None:
        stream.synchronize()
        graph = torch.npu.NPUGraph()
        graph.capture_begin()
        try:
            kernel(s, self.rank, of)
            a = of[s["slots"][0]]
            if s["async"]:
                self.dist.all_reduce(a, op, group, async_op=True).wait()
            else:
                self.dist.all_reduce(a, op, group)
            a.remainder_(MODULUS)
        finally:
            graph.capture_end()
        self.graphs[s["graph"]] = graph

    def copies(self, s: dict, of: list[torch.Tensor]) -> None:
        """To pinned memory and back, the way back once an event has happened; a kernel on a third buffer meanwhile."""
        first, second, third = s["slots"][:3]
        host = torch.empty(of[second].shape, pin_memory=True)
        host.copy_(of[second], non_blocking=True)
        event = torch.npu.Event()
        event.record()
        of[third].add_(s["k"]).remainder_(MODULUS)
        event.synchronize()
        of[first].copy_(host, non_blocking=True)

    def temporary(self, s: dict, of: list[torch.Tensor], group, op, stream, other) -> None:
        """Memory that is made on one stream, reduced on the group's, used on another and freed while all of it runs."""
        first, second = s["slots"][:2]
        t = of[first] + s["k"]
        work = self.dist.all_reduce(t, op, group, async_op=True)
        other.wait_stream(stream)
        with torch.npu.stream(other):
            work.wait()
            of[second].add_(t.remainder_(MODULUS)).remainder_(MODULUS)
        t.record_stream(other)
        del t, work
        torch.empty_like(of[first]).fill_(-1)  # takes the memory again, if it may
        stream.wait_stream(other)

    def abort(self, s: dict) -> None:
        """A group whose collective one rank does not call, and which all give up; nothing else may notice."""
        dist = self.dist
        group = dist.new_group(list(range(self.size)))
        t = torch.ones(LENGTHS[s["length"]], device="npu")
        dist.all_reduce(t, group=group)
        torch.npu.current_stream().synchronize()
        dist.barrier()  # all have the communicator
        if self.size == 1 or self.rank != s["root"]:
            try:
                dist.all_reduce(t, group=group, async_op=True)
            except dist.DistBackendError:
                pass  # another rank was faster
        group._get_backend(torch.device("npu")).abort()
        dist.destroy_process_group(group)

    def ends(self, s: dict, of: list[torch.Tensor]) -> list[tuple[bool, torch.Tensor, int]]:
        """This rank's sends and receives: (sends, tensor, peer)."""
        part = LENGTHS[s["length"]] // self.size
        first, second = s["slots"][:2]
        found = []
        for a, b in s["pairs"]:
            if a == self.rank:
                found.append((True, of[first][b * part : (b + 1) * part], b))
            if b == self.rank:
                found.append((False, of[second][a * part : (a + 1) * part], a))
        return found

    def batch(self, s: dict, of: list[torch.Tensor]) -> None:
        dist = self.dist
        ops = [dist.P2POp(dist.isend if sends else dist.irecv, t, peer) for sends, t, peer in self.ends(s, of)]
        for work in dist.batch_isend_irecv(ops) if ops else []:
            work.wait()

    def message(self, s: dict, of: list[torch.Tensor]) -> None:
        for sends, tensor, peer in self.ends(s, of):
            if s["k"] % 2:
                (self.dist.send if sends else self.dist.recv)(tensor, peer)
            else:
                (self.dist.isend if sends else self.dist.irecv)(tensor, peer).wait()


def main() -> None:
    rank, size, first, count = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # run.py asks where a rank is that hangs
    me = Rank(rank, size)
    print("ready", flush=True)
    for seed in range(first, first + count):
        try:
            me.run(draw(seed, size))
            print(f"ok {seed}", flush=True)
        except Exception as error:
            print(f"bad {seed} {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            os._exit(1)
    me.dist.destroy_process_group()


def serve(size: int, first: int, count: int) -> None:
    """Starts the ranks and passes on what they say: "ok" when all have said it, "bad" when one has."""
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.ranks", *map(str, (rank, size, first, count))],
            env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    said: dict[int, int] = {}
    lock = threading.Lock()

    def listen(process: subprocess.Popen) -> None:
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            with lock:
                if word == "bad":
                    print(line.strip(), flush=True)
                    for p in ranks:
                        p.kill()
                elif word == "ready":
                    print(word, flush=True)
                elif word == "ok":
                    said[int(rest)] = said.get(int(rest), 0) + 1
                    if said[int(rest)] == size:
                        print(f"ok {rest}", flush=True)

    threads = [threading.Thread(target=listen, args=(p,)) for p in ranks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sys.exit(max(abs(p.wait()) for p in ranks) != 0)


if __name__ == "__main__":
    main()
