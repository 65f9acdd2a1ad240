"""Random programs of asynchronous work on one process's devices: what a program is, and how one is drawn from a seed.

A program is a list of steps over numbered buffers, streams and graphs. Steps say what happens to which buffer on
which stream; they do not say how streams are ordered: execute.py derives events and waits from the conflicts
between the steps that are there, so removing steps keeps a program valid. The result of a program is that of its
steps one after another (oracle.py).
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field

# Tiny kernels run on their caller, middle ones are serial, large ones wide. Squares, because they are multiplied.
SIDES = {"tiny": 4, "middle": 96, "large": 256}
DTYPES = ("int32", "float32")
MODULUS = 97  # of every value, so that sums of products stay exact in fp32

UNARY = ("fill", "scale", "flip", "roll", "cumsum", "sort", "transpose")
BINARY = ("add", "copy", "where", "gather")
TERNARY = ("addcmul", "mm")


@dataclass
class Buffer:
    device: int
    size: str
    dtype: str


@dataclass
class Host:
    size: str
    dtype: str
    pinned: bool


@dataclass
class Program:
    seed: int
    devices: int
    streams: list[tuple[int, int]]  # device, priority; the first of each device is its default stream
    buffers: list[Buffer]
    hosts: list[Host]
    steps: list[dict] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Program:
        d = json.loads(text)
        d["streams"] = [tuple(s) for s in d["streams"]]
        d["buffers"] = [Buffer(**b) for b in d["buffers"]]
        d["hosts"] = [Host(**h) for h in d["hosts"]]
        return cls(**d)

    def __str__(self) -> str:
        head = [f"seed {self.seed}: {self.devices} devices, streams {self.streams}"]
        head += [f"  b{i}: {b.dtype} {b.size} on npu:{b.device}" for i, b in enumerate(self.buffers)]
        head += [f"  h{i}: {h.dtype} {h.size} {'pinned' if h.pinned else 'pageable'}" for i, h in enumerate(self.hosts)]
        return "\n".join(head + [f"  {i}. {s}" for i, s in enumerate(self.steps)])


class Generator:
    """Draws a program. Each kind of step is a method: it returns a step, or None where there is no place for it."""

    KINDS = (
        ("kernel", 40), ("host_to_device", 8), ("device_to_host", 6), ("across", 4), ("temporary", 8),
        ("host_write", 3), ("graph", 3), ("replay", 6), ("event", 6), ("sync", 2), ("check", 3),
        ("failure", 1), ("abort", 1),
    )  # fmt: skip

    def __init__(self, seed: int):
        self.r = r = random.Random(seed)
        devices = r.choice((1, 1, 2, 3))
        streams = [(d, 0) for d in range(devices)]
        streams += [(r.randrange(devices), r.choice((0, 0, -1))) for _ in range(r.randint(1, 4))]
        buffers = []
        kinds = {(r.choice(tuple(SIDES)), r.choice(DTYPES), r.randrange(devices)) for _ in range(r.randint(1, 3))}
        for size, dtype, device in sorted(kinds):
            buffers += [Buffer(device, size, dtype) for _ in range(r.randint(2, 4))]
        if devices > 1:  # somewhere to copy to
            b = r.choice(buffers)
            buffers += [Buffer(d, b.size, b.dtype) for d in range(devices) if d != b.device]
        kinds = sorted({(b.size, b.dtype) for b in buffers})
        hosts = [Host(*r.choice(kinds), pinned=r.random() < 0.5) for _ in range(r.randint(1, 3))]
        self.program = Program(seed, devices, streams, buffers, hosts)
        self.graphs: dict[int, int] = {}  # graph to device

    def draw(self) -> Program:
        names, weights = zip(*self.KINDS, strict=True)
        for _ in range(self.r.randint(5, 60)):
            kind = self.r.choices(names, weights)[0]
            step = getattr(self, kind)()
            if step is not None:
                self.program.steps.append({"kind": kind, "salt": self.r.randrange(1 << 30), **step})
        return self.program

    def stream_of(self, device: int, created: bool = False) -> int | None:
        found = [i for i, (d, _) in enumerate(self.program.streams) if d == device]
        return self.r.choice(found[1:] or [None]) if created else self.r.choice(found)

    def alike(self, i: int) -> list[int]:
        """The buffers of the same device, size and type."""
        bs = self.program.buffers
        return [k for k, b in enumerate(bs) if b == bs[i]]

    def any_buffer(self) -> int:
        return self.r.randrange(len(self.program.buffers))

    def kernel_on(self, to: int) -> dict:
        r, b, others = self.r, self.program.buffers[to], self.alike(to)
        names = UNARY + BINARY + TERNARY
        if b.dtype != "float32":
            names = tuple(n for n in names if n != "mm")
        op = r.choice(names)
        n = 0 if op in UNARY else 1 if op in BINARY else 2
        return {"op": op, "to": to, "of": [r.choice(others) for _ in range(n)], "k": r.randrange(1, MODULUS)}

    def kernel(self) -> dict:
        to = self.any_buffer()
        return {"stream": self.stream_of(self.program.buffers[to].device), **self.kernel_on(to)}

    def pair(self) -> tuple[int, int] | None:
        h = self.r.randrange(len(self.program.hosts))
        host = self.program.hosts[h]
        found = [i for i, b in enumerate(self.program.buffers) if (b.size, b.dtype) == (host.size, host.dtype)]
        return (h, self.r.choice(found)) if found else None

    def host_to_device(self) -> dict | None:
        if (pair := self.pair()) is None:
            return None
        h, b = pair
        device = self.program.buffers[b].device
        return {"stream": self.stream_of(device), "host": h, "buffer": b, "non_blocking": self.r.random() < 0.7}

    device_to_host = host_to_device

    def host_write(self) -> dict:
        return {"host": self.r.randrange(len(self.program.hosts)), "k": self.r.randrange(MODULUS)}

    def across(self) -> dict | None:
        bs = self.program.buffers
        to = self.any_buffer()
        sources = [
            i for i, b in enumerate(bs)
            if (b.size, b.dtype) == (bs[to].size, bs[to].dtype) and b.device != bs[to].device
        ]  # fmt: skip
        if not sources:
            return None
        of = self.r.choice(sources)
        return {
            "to": to, "of": of, "stream": self.stream_of(bs[to].device), "source": self.stream_of(bs[of].device),
            "non_blocking": self.r.random() < 0.5,
        }  # fmt: skip

    def temporary(self) -> dict:
        """Memory that is made, used on one stream or two, and freed while the work is under way."""
        to = self.any_buffer()
        device = self.program.buffers[to].device
        same = self.alike(to)
        return {
            "to": to, "also": self.r.choice(same), "stream": self.stream_of(device), "other": self.stream_of(device),
            "k": self.r.randrange(MODULUS),
        }  # fmt: skip

    def graph(self) -> dict | None:
        to = self.any_buffer()
        device = self.program.buffers[to].device
        stream = self.stream_of(device, created=True)
        if stream is None or len(self.graphs) >= 3:
            return None
        name = len(self.graphs)
        self.graphs[name] = device
        body = [self.kernel_on(self.r.choice(self.alike(to))) for _ in range(self.r.randint(1, 6))]
        side = self.stream_of(device, created=True) if self.r.random() < 0.4 else stream
        return {"graph": name, "stream": stream, "side": side, "body": body, "k": self.r.randrange(MODULUS), "to": to}

    def replay(self) -> dict | None:
        if not self.graphs:
            return None
        name = self.r.choice(sorted(self.graphs))
        return {"graph": name, "stream": self.stream_of(self.graphs[name])}

    def event(self) -> dict:
        s, t = (self.r.randrange(len(self.program.streams)) for _ in range(2))
        return {"stream": s, "other": t, "timing": self.r.random() < 0.4, "query": self.r.random() < 0.5}

    def sync(self) -> dict:
        return {"what": self.r.choice(("stream", "device")), "stream": self.r.randrange(len(self.program.streams))}

    def check(self) -> dict:
        b = self.any_buffer()
        return {"buffer": b, "stream": self.stream_of(self.program.buffers[b].device)}

    def failure(self) -> dict:
        """A task that fails, and kernels behind it that are then skipped."""
        to = self.any_buffer()
        body = [self.kernel_on(self.r.choice(self.alike(to))) for _ in range(self.r.randint(0, 5))]
        return {"stream": self.stream_of(self.program.buffers[to].device), "body": body, "busy": self.r.random() < 0.5}

    def abort(self) -> dict:
        """Additions of one to a buffer, some of which an abort drops."""
        to = self.any_buffer()
        stream = self.stream_of(self.program.buffers[to].device, created=True)
        if stream is None:
            return {"stream": self.stream_of(self.program.buffers[to].device), "to": to, "count": 0, "busy": False}
        return {"stream": stream, "to": to, "count": self.r.randint(1, 6), "busy": self.r.random() < 0.6}


def generate(seed: int) -> Program:
    return Generator(seed).draw()


def uses(program: Program, step: dict, graphs: dict[int, dict]) -> tuple[set, set]:
    """What a step reads and writes: ("b", buffer), ("h", host), ("g", graph)."""
    reads, writes = set(), set()

    def kernel(k: dict) -> None:
        reads.update(("b", i) for i in k["of"])
        writes.add(("b", k["to"]))

    match step["kind"]:
        case "kernel":
            kernel(step)
        case "host_to_device":
            reads.add(("h", step["host"]))
            writes.add(("b", step["buffer"]))
        case "device_to_host":
            reads.add(("b", step["buffer"]))
            writes.add(("h", step["host"]))
        case "host_write":
            writes.add(("h", step["host"]))
        case "across":
            reads.add(("b", step["of"]))
            writes.add(("b", step["to"]))
        case "temporary":
            writes.update({("b", step["to"]), ("b", step["also"])})
        case "replay":
            writes.add(("g", step["graph"]))
            for k in graphs[step["graph"]]["body"]:
                kernel(k)
            writes.add(("b", graphs[step["graph"]]["to"]))
        case "check":
            reads.add(("b", step["buffer"]))
        case "failure":
            for k in step["body"]:
                kernel(k)
        case "abort":
            writes.add(("b", step["to"]))
    return reads, writes
