"""Random programs over several streams, right by themselves: whoever uses what another stream made or changed waits for
it, by a stream or an event. `program(seed)` gives two functions of the same arguments: one on streams of torch.npu, and
its oracle, the same operators one after the other. While a program is launched one of its streams stands still, another
at each call: what does not wait for it has begun too early.

    python -m tests.dynamo.stream_programs inductor 0 200       the programs of 200 seeds, behind that back end
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import torch

from tests.core.tools import Gate

SIZE = 64
POINTWISE = ["torch.sin({a} * 0.5)", "torch.relu({a})", "({a} + {b}) * 0.7", "({a} - {b}) * 0.7", "({a} * {b}) * 0.7"]
OTHERS = [
    "({a} @ {b}) / 64", "((({a} @ {b}) / 64) @ {a} / 64) @ {b} / 64", "torch.softmax({a}, 1)", "{a}[index]",
    "{a}.sum(0, keepdim=True).expand(64, 64).clone() / 9", "torch.cat([{a}[:32], {b}[32:]])",
    "torch.empty_like({a}).copy_({b})", "{a}.argmax() * 0.01 + {b}", "torch.where({a} > 0, {a}, {b})",
]  # fmt: skip
IN_PLACE = ["{a}.mul_(0.5)", "{a}.add_({b} / 9)", "{a}[:32].add_(1.0)", "{a}.copy_({b})"]
WAITS = [
    "s{to}.wait_stream(s{of})", "s{to}.wait_event(s{of}.record_event())",
    "e = torch.npu.Event(); e.record(s{of}); e.wait(s{to})",
]  # fmt: skip


class _Writer:
    """Lines of both functions; knows which stream has seen what of the others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.streams = 2 + seed % 2
        self.steps = [0] * self.streams
        self.seen = [[0] * self.streams for _ in range(self.streams)]
        self.memory = {name: name for name in ("x", "y", "z")}  # of each value
        self.uses: dict[str, list[tuple[int, int, bool]]] = {name: [] for name in self.memory}  # stream, step, written
        self.ours, self.plain = ["def ours(x, y, z, index):", "    s0 = torch.npu.current_stream()"], [
            "def plain(x, y, z, index):"
        ]  # fmt: skip

    def wait(self, to: int, of: int) -> None:
        self.ours.append("    " + self.random.choice(WAITS).format(to=to, of=of))
        self.seen[of][of] = self.steps[of]
        self.seen[to] = [max(pair) for pair in zip(self.seen[to], self.seen[of], strict=True)]

    def write(self, stream: int, line: str, read: set[str], written: set[str]) -> None:
        for name in sorted(read | written):
            for other, step, changed in self.uses[name]:
                if other != stream and (changed or name in written) and self.seen[stream][other] < step:
                    self.wait(stream, other)
        self.steps[stream] += 1
        for name in read | written:
            self.uses[name].append((stream, self.steps[stream], name in written))
        self.plain.append("    " + line)
        self.ours += [f"    with torch.npu.stream(s{stream}):", "        " + line] if stream else ["    " + line]

    def step(self, index: int) -> None:
        stream, values = self.random.randrange(self.streams), list(self.memory)
        a, b = self.random.choice(values), self.random.choice(values[-6:])
        own = [name for name in values if self.memory[name] not in ("x", "y", "z")]
        if own and self.random.random() < 0.15:
            a = self.random.choice(own)
            line = self.random.choice(IN_PLACE).format(a=a, b=b)
            self.write(stream, line, {self.memory[a], self.memory[b]}, {self.memory[a]})
            return
        name = f"v{index}"
        if self.random.random() < 0.1:
            self.memory[name] = self.memory[a]
            self.write(stream, f"{name} = {a}.t()", set(), set())
            return
        expression = self.random.choice(self.random.choice((POINTWISE, OTHERS))).format(a=a, b=b)
        self.memory[name], self.uses[name] = name, []
        self.write(stream, f"{name} = {expression}", {self.memory[a], self.memory[b]}, {name})


def program(seed: int) -> tuple[Callable[..., tuple], Callable[..., tuple], list[torch.npu.Stream]]:
    writer = _Writer(seed)
    for stream in range(1, writer.streams):
        writer.wait(stream, 0)
    for index in range(6 + seed % 12):
        writer.step(index)
    for stream in range(1, writer.streams):
        writer.wait(0, stream)
    values = [name for name in writer.memory if name not in ("x", "y", "z")] or ["x"]
    result = f"    return ({', '.join(writer.random.sample(values, min(3, len(values))))},)"
    scope = {f"s{stream}": torch.npu.Stream() for stream in range(1, writer.streams)} | {"torch": torch}
    source = "\n".join([*writer.ours, result, *writer.plain, result])
    exec(compile(source, f"<streams {seed}>", "exec"), scope)
    return scope["ours"], scope["plain"], [scope[f"s{stream}"] for stream in range(1, writer.streams)]


def wrong(function: Callable[..., tuple], plain: Callable[..., tuple], sides: list[torch.npu.Stream], seed: int) -> str:
    """What differs between a function on the npu and its oracle in some calls; empty if nothing does."""
    streams = [torch.npu.current_stream(), *sides]
    for call in range(1 + 2 * len(streams)):
        torch.manual_seed(seed + call)
        args = *(torch.randn(SIZE, SIZE) for _ in range(3)), torch.randperm(SIZE)
        expected, given = plain(*args), [arg.npu() for arg in args]
        torch.npu.synchronize()
        gate = Gate(streams[call % len(streams)]) if call else None  # the first compiles
        found = function(*given)
        if gate is not None:
            gate.open()
        torch.npu.synchronize()
        for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            if not torch.allclose(ours.cpu(), theirs, rtol=2e-3, atol=2e-3):
                return f"seed {seed}, call {call}, result {index}: by {(ours.cpu() - theirs).abs().max().item():.3g}"
    return ""


if __name__ == "__main__":
    backend, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, last):
        torch._dynamo.reset()
        ours, plain, sides = program(number)
        try:
            said = wrong(torch.compile(ours, fullgraph=True, backend=backend), plain, sides, number)
        except Exception as error:  # one of many: told, and the next
            said = f"seed {number}: {type(error).__name__}: {str(error).splitlines()[0]}"
        print(said or f"seed {number}: right", flush=True)
