"""Runs a program on the devices. Steps of different streams that touch the same buffer are ordered by what the
program's salt says (an event, wait_stream, or a synchronization of the host), and only those that no earlier wait
has ordered already; all else runs as the devices like. Then every buffer must have the oracle's value.
"""

from __future__ import annotations

import ctypes
import random
from collections import defaultdict
from functools import cache
from pathlib import Path

import torch

import torch_npu
from tests.chaos.oracle import Oracle, apply, initial
from tests.chaos.program import MODULUS, Program, uses

HOST = "host"


class Mismatch(AssertionError):
    pass


@cache
def acl() -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(torch_npu.__file__).parent / "softnpu" / "lib64" / "libascendcl.so"))


def busy(stream: torch.Stream, microseconds: int) -> None:
    """A host function that sleeps: what comes behind it is queued."""
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    handle = ctypes.c_void_p(stream.npu_stream)
    assert acl().aclrtLaunchHostFunc(handle, usleep, ctypes.c_void_p(microseconds)) == 0


class Order:
    """Which steps come before which, as vector clocks of the streams and the host; makes the missing waits."""

    def __init__(self, streams: list[torch.npu.Stream]):
        self.streams = streams
        self.count: dict = defaultdict(int)  # steps of each actor
        self.known: dict = defaultdict(lambda: defaultdict(int))  # actor: how far it knows the others to be
        self.writer: dict = {}  # place: (actor, its step)
        self.readers: dict = defaultdict(dict)  # place: actor to its last reading step

    def learn(self, actor, of) -> None:
        for other, n in {**self.known[of], of: self.count[of]}.items():
            self.known[actor][other] = max(self.known[actor][other], n)

    def meet(self, one, other) -> None:
        self.learn(one, other)
        self.learn(other, one)

    def access(self, actor, reads: set, writes: set, r: random.Random) -> None:
        """Orders the next step of `actor` behind what it conflicts with, and counts it."""
        if actor != HOST:
            self.learn(actor, HOST)  # whatever the host has waited for is over before it submits this
        needs: dict = {}
        for place in reads | writes:
            if place in self.writer:
                other, n = self.writer[place]
                needs[other] = max(needs.get(other, 0), n)
            if place in writes:
                for other, n in self.readers[place].items():
                    needs[other] = max(needs.get(other, 0), n)
        for other, n in needs.items():
            if other not in (actor, HOST) and self.known[actor][other] < n:
                self.wait(actor, other, r)
        self.count[actor] += 1
        n = self.count[actor]
        for place in reads:
            self.readers[place][actor] = n
        for place in writes:
            self.writer[place] = (actor, n)
            self.readers[place] = {}

    def wait(self, actor, other, r: random.Random) -> None:
        source = self.streams[other]
        how = r.randrange(3) if actor == HOST else r.randrange(8)
        if how == 0:
            source.synchronize()
        elif how == 1:
            torch.npu.synchronize(source.device)
            for i, s in enumerate(self.streams):
                if s.device == source.device:
                    self.learn(HOST, i)
        elif how == 2:
            source.record_event(torch.npu.Event(enable_timing=bool(r.randrange(2)))).synchronize()
        elif how < 6:
            event = torch.npu.Event(enable_timing=how == 3)
            event.record(source)
            self.streams[actor].wait_event(event)
        else:
            self.streams[actor].wait_stream(source)
        if how < 3:
            self.learn(HOST, other)
        self.learn(actor, other)


class Run:
    def __init__(self, program: Program):
        self.program = program
        self.oracle = Oracle(program).run()
        self.streams = self.make_streams()
        self.order = Order(self.streams)
        self.buffers = [initial(b.size, b.dtype, i, f"npu:{b.device}") for i, b in enumerate(program.buffers)]
        self.hosts = []
        for i, h in enumerate(program.hosts):
            values = initial(h.size, h.dtype, 50 + i)
            self.hosts.append(values.pin_memory() if h.pinned else values)
        self.graphs: dict[int, torch.npu.NPUGraph] = {}
        self.steps: dict[int, dict] = {}
        self.events: list[torch.npu.Event] = []
        self.checked = 0
        for d in range(program.devices):
            torch.npu.synchronize(d)

    def make_streams(self) -> list[torch.npu.Stream]:
        found = []
        for i, (device, priority) in enumerate(self.program.streams):
            first = all(d != device for d, _ in self.program.streams[:i])
            found.append(
                torch.npu.default_stream(device) if first else torch.npu.Stream(device=device, priority=priority)
            )
        # Streams of the pool may be the same: then they are one actor.
        for i, s in enumerate(found):
            found[i] = next(t for t in found if t == s)
        return found

    def run(self) -> None:
        for number, step in enumerate(self.program.steps):
            try:
                self.step(step)
            except Mismatch as error:
                raise Mismatch(f"step {number}: {error}") from None
        for d in range(self.program.devices):
            torch.npu.synchronize(d)
        for kind, mine, want in (("b", self.buffers, self.oracle.buffers), ("h", self.hosts, self.oracle.hosts)):
            for i, (got, expected) in enumerate(zip(mine, want, strict=True)):
                self.compare(f"{kind}{i}", got.cpu(), expected)

    def compare(self, name: str, got: torch.Tensor, want: torch.Tensor) -> None:
        if not torch.equal(got, want):
            wrong = (got != want).nonzero()
            at = tuple(wrong[0].tolist())
            raise Mismatch(
                f"{name}{list(at)} is {got[at].item()}, not {want[at].item()}; {len(wrong)} of {got.numel()} differ"
            )

    def index(self, stream: int) -> int:
        return self.streams.index(self.streams[stream])

    def step(self, s: dict) -> None:
        r = random.Random(s["salt"])
        reads, writes = uses(self.program, s, self.steps)
        stream = self.index(s["stream"]) if "stream" in s else None
        if s["kind"] == "host_write":
            self.order.access(HOST, reads, writes, r)
        elif s["kind"] not in ("graph", "event", "sync"):
            self.order.access(stream, reads, writes, r)
        getattr(self, s["kind"])(s, r, self.streams[stream] if stream is not None else None)

    # --- one method for each kind of step -----------------------------------------------------------------------------
    def kernel(self, s: dict, r: random.Random, stream) -> None:
        with torch.npu.stream(stream):
            apply(s, self.buffers)

    def host_to_device(self, s: dict, r: random.Random, stream) -> None:
        host = self.hosts[s["host"]]
        with torch.npu.stream(stream):
            self.buffers[s["buffer"]].copy_(host, non_blocking=s["non_blocking"])
        if not (s["non_blocking"] and host.is_pinned()):
            self.order.learn(HOST, self.index(s["stream"]))

    def device_to_host(self, s: dict, r: random.Random, stream) -> None:
        host = self.hosts[s["host"]]
        with torch.npu.stream(stream):
            host.copy_(self.buffers[s["buffer"]], non_blocking=s["non_blocking"])
        if not (s["non_blocking"] and host.is_pinned()):
            self.order.learn(HOST, self.index(s["stream"]))

    def host_write(self, s: dict, r: random.Random, stream) -> None:
        self.hosts[s["host"]].fill_(s["k"])

    def across(self, s: dict, r: random.Random, stream) -> None:
        with torch.npu.stream(self.streams[s["source"]]), torch.npu.stream(stream):
            self.buffers[s["to"]].copy_(self.buffers[s["of"]], non_blocking=s["non_blocking"])
        # The copy is behind both streams' earlier work and before their later work, as on CUDA.
        self.order.meet(self.index(s["stream"]), self.index(s["source"]))

    def temporary(self, s: dict, r: random.Random, stream) -> None:
        to, also = self.buffers[s["to"]], self.buffers[s["also"]]
        other = self.streams[s["other"]]
        with torch.npu.stream(stream):
            t = torch.empty_like(to).fill_(s["k"])
            to.add_(t).remainder_(MODULUS)
            if other == stream:
                also.add_(t).remainder_(MODULUS)
        if other != stream:
            other.wait_stream(stream)
            with torch.npu.stream(other):
                also.add_(t).remainder_(MODULUS)
            t.record_stream(other)
        del t
        with torch.npu.stream(stream):  # takes the memory again, if it may
            torch.empty_like(to).fill_(-1)
            if other != stream:
                stream.wait_stream(other)
        self.order.meet(self.index(s["stream"]), self.index(s["other"]))

    def graph(self, s: dict, r: random.Random, stream) -> None:
        graph = torch.npu.NPUGraph()
        side = self.streams[s["side"]]
        to = self.buffers[s["to"]]
        stream.synchronize()
        self.order.learn(HOST, self.index(s["stream"]))
        with torch.npu.stream(stream):
            graph.capture_begin()
            try:
                if side != stream:
                    side.wait_stream(stream)
                with torch.npu.stream(side):
                    for kernel in s["body"]:
                        apply(kernel, self.buffers)
                if side != stream:
                    stream.wait_stream(side)
                to.add_(torch.full_like(to, s["k"])).remainder_(MODULUS)
            finally:
                graph.capture_end()
        self.graphs[s["graph"]] = graph
        self.steps[s["graph"]] = s

    def replay(self, s: dict, r: random.Random, stream) -> None:
        with torch.npu.stream(stream):
            self.graphs[s["graph"]].replay()

    def event(self, s: dict, r: random.Random, stream) -> None:
        event = torch.npu.Event(enable_timing=s["timing"])
        event.record(stream)
        if s["query"]:
            event.query()
        self.streams[s["other"]].wait_event(event)
        self.order.learn(self.index(s["other"]), self.index(s["stream"]))
        self.events = [*self.events[-3:], event]
        if s["query"]:
            self.events[0].query()

    def sync(self, s: dict, r: random.Random, stream) -> None:
        if s["what"] == "stream":
            stream.synchronize()
            self.order.learn(HOST, self.index(s["stream"]))
            return
        torch.npu.synchronize(stream.device)
        for i, other in enumerate(self.streams):
            if other.device == stream.device:
                self.order.learn(HOST, i)

    def check(self, s: dict, r: random.Random, stream) -> None:
        with torch.npu.stream(stream):
            got = self.buffers[s["buffer"]].cpu()
        self.order.learn(HOST, self.index(s["stream"]))
        self.compare(f"b{s['buffer']}", got, self.oracle.checks[self.checked])
        self.checked += 1

    def failure(self, s: dict, r: random.Random, stream) -> None:
        with torch.npu.stream(stream):
            index = torch.tensor([1 << 20], device=stream.device)
            source = torch.zeros(4, device=stream.device)
            stream.synchronize()
            if s["busy"]:
                busy(stream, 300)
            try:
                source.index_select(0, index)
                for kernel in s["body"]:
                    apply(kernel, self.buffers)
            except RuntimeError:
                pass  # the stream had failed by then: the rest is not even queued
            try:
                stream.synchronize()
            except RuntimeError:
                pass
            else:
                raise Mismatch("a failed task was not reported")
            stream.synchronize()
        self.order.learn(HOST, self.index(s["stream"]))

    def abort(self, s: dict, r: random.Random, stream) -> None:
        buffer = self.buffers[s["to"]]
        with torch.npu.stream(stream):
            stream.synchronize()
            self.order.learn(HOST, self.index(s["stream"]))
            if s["count"]:
                before = buffer.cpu()
                if s["busy"]:
                    busy(stream, 300)
                for _ in range(s["count"]):
                    buffer.add_(1)
                assert acl().aclrtStreamAbort(ctypes.c_void_p(stream.npu_stream)) == 0
                got = buffer.cpu()
                added = int((got - before).flatten()[0])
                if not (0 <= added <= s["count"] and torch.equal(got, before + added)):
                    raise Mismatch(f"after an abort b{s['to']} has no state that it had before")
            self.order.access(self.index(s["stream"]), set(), {("b", s["to"])}, r)
            buffer.zero_()


def execute(program: Program) -> None:
    """Raises Mismatch where the devices' values are not the oracle's."""
    Run(program).run()
