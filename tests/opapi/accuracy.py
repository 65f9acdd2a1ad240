"""Numbers that are wrong without a word: each kernel in every type against itself in fp64, on calls of other tests.

    pytest -p tests.opapi.recorder --record-calls FILE tests/opapi    calls with their values
    python -m tests.opapi.accuracy FILE [--ops REGEX] [--all]         what the judge says of them, or every comparison

A call is made again with its floating operands in another type and compared with the same numbers in fp64. It finds:

  rounding    an error above LIMIT units of the type's epsilon times the largest result: arithmetic narrower than fp32
  overflow    a result that fp16 holds is infinite or NaN where operands are large: an intermediate was fp16
  single      a result in fp64 does not follow its operands smoothly: some of the arithmetic is fp32.
              f(x+2d) - 2 f(x+d) + f(x) is of the order of d^2 for fp64, and of 6e-8 for fp32
  imaginary   a complex operand is taken, and its imaginary part changes no result
  real        complex operands are taken and a real result has no room for what they give

What it cannot find: an error that fp64 has too. That is what the other tests of the room are for.
"""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from tests.opapi.client import DTYPES, AclError, Client

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
C64, C128 = torch.complex64, torch.complex128
COMPLEX = {F16: torch.complex32, F32: C64, F64: C128}
WHOLE = {F16: F64, BF16: F64, F32: F64, C64: C128}  # a type and the one it is compared in
LIMIT = {F16: 4, BF16: 4, F32: 64, C64: 64}  # units of epsilon: one rounding is half of one
STEP = 3e-8  # of the operands, where smoothness is judged
ROUGH = 1e-9  # of the results: a bend above it is looked at again with a smaller step
LARGE = (16.0, 256.0, 1024.0)  # of the operands, where overflow is judged: 256 squared is no fp16


class Finding(NamedTuple):
    op: str
    what: str
    types: str
    words: str


def each(value: object, change) -> object:
    return [each(v, change) for v in value] if isinstance(value, list | tuple) else change(value)


def members(value: object) -> list[torch.Tensor]:
    return [t for t in (value if isinstance(value, list | tuple) else [value]) if torch.is_tensor(t)]


def computed(t: object) -> bool:
    """A tensor of floating or complex numbers; not two 4-bit numbers in a byte, which torch converts to nothing."""
    return torch.is_tensor(t) and (t.is_floating_point() or t.is_complex()) and t.dtype != torch.float4_e2m1fn_x2


def floats(value: object) -> bool:
    return any(computed(t) for t in members(value))


def cast(value: object, dtype: torch.dtype) -> object:
    """Floating and complex members in that type; a complex one stays complex unless the type is complex itself."""

    def one(t: object) -> object:
        if not computed(t):
            return t
        return t.to(COMPLEX.get(dtype, C64) if t.is_complex() and not dtype.is_complex else dtype)

    return each(value, one)


class Judge:
    """Makes calls in other types, and says what is wrong with their results."""

    def __init__(self, client: Client) -> None:
        self.client, self.made = client, 0
        self.judged: set[tuple[str, torch.dtype]] = set()
        self.refused: set[str] = (
            set()
        )  # calls that phase one does not take in fp64: quantized numbers, documented types
        self.worst: dict[tuple[str, torch.dtype], float] = {}

    # -- calls ---------------------------------------------------------------------------------------------------
    def attempt(self, op: str, values: dict) -> dict | AclError:
        """Results by name, or the refusal."""
        self.made += 1
        try:
            self.client.launch(op, *self.client.prepare(op, **values))
            self.client.synchronize()
        except AclError as error:
            return error
        results: dict = {}
        for p in self.client.signatures[op]:
            if p.way == "in":
                continue
            if p.name in self.client.lists:
                results[p.name] = []
                for memory, cpu in self.client.lists[p.name]:
                    memory.read()
                    seen = memory.tensor.as_strided(cpu.shape, cpu.stride(), cpu.storage_offset())
                    results[p.name].append(seen.clone())
            elif hasattr(handle := self.client.alive.get(p.name), "read"):
                results[p.name] = handle.read().clone()
        return results

    def named(self, op: str, values: dict, dtype: torch.dtype) -> dict:
        """Parameters that name a data type follow the results'."""
        changed = {}
        for p in self.client.signatures[op]:
            value = values[p.name]
            if p.name.lower().endswith("dtype") and (value in DTYPES or isinstance(value, int)):
                known = value if isinstance(value, torch.dtype) else {n: t for t, n in DTYPES.items()}.get(value)
                if known is not None and known.is_floating_point:
                    changed[p.name] = DTYPES[dtype]
        return changed

    def groups(self, values: dict) -> Iterator[list[str]]:
        """Which parameters to change together: all floating ones, else those of the first's type."""
        names = [n for n, v in values.items() if floats(v)]
        yield names
        main = members(values[names[0]])[0].dtype
        rest = [n for n in names if members(values[n])[0].dtype == main]
        if rest != names:
            yield rest

    def typed(self, op: str, values: dict, dtype: torch.dtype) -> tuple[dict, dict] | None:
        """The call in that type: arguments and results; None where phase one refuses it."""
        for names in self.groups(values):
            arguments = values | {n: cast(values[n], dtype) for n in names} | self.named(op, values, dtype)
            found = self.attempt(op, arguments)
            if not isinstance(found, AclError):
                return arguments, found
        return None

    # -- comparisons -----------------------------------------------------------------------------------------------
    def judge(self, op: str, values: dict) -> Iterator[Finding]:
        if not any(floats(values[n]) for n in self.inputs(op)):
            return
        yield from self.rounding(op, values)
        yield from self.overflow(op, values)
        yield from self.single(op, values)
        yield from self.imaginary(op, values)

    def inputs(self, op: str) -> list[str]:
        return [p.name for p in self.client.signatures[op] if p.way != "out"]

    def changed(self, op: str, values: dict, change) -> dict:
        """The call with its operands' floating members changed."""
        given = self.inputs(op)
        return {n: each(v, lambda t: change(t) if computed(t) and not t.is_complex() else t)
                if n in given else v for n, v in values.items()}  # fmt: skip

    def rounding(self, op: str, values: dict) -> Iterator[Finding]:
        made = torch.Generator().manual_seed(3)
        turned = self.changed(op, values, lambda t: torch.complex(t.float(), torch.rand(t.shape, generator=made)))
        for dtype, whole in WHOLE.items():
            call = self.typed(op, turned if dtype.is_complex else values, dtype)
            exact = call and self.typed(op, call[0], whole)
            if not exact:
                continue
            self.judged.add((op, dtype))
            for name, got, want in self.pairs(call[1], exact[1]):
                own = members(call[1][name])[0].dtype
                if own not in LIMIT:
                    continue
                units = self.units(torch.finfo(own), got, want)
                self.worst[op, own] = max(self.worst.get((op, own), 0), units)
                if units > LIMIT[own]:
                    yield Finding(op, "rounding", str(dtype), f"{name}: {units:.3g} units of {own}'s epsilon")

    @staticmethod
    def units(info: torch.finfo, got: torch.Tensor, want: torch.Tensor) -> float:
        """The largest error, in the type's epsilon of the largest result, where the type holds what is wanted."""
        sure = torch.isfinite(want) & (want.abs() < info.max / 2)
        if not sure.any():
            return 0.0
        error = (got - want)[sure].abs().nan_to_num(float("inf")).max().item()
        scale = want[sure].abs().max().item()
        return max(error - info.smallest_normal, 0) / (info.eps * scale or 1)

    def pairs(self, results: dict, exact: dict) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        for name, value in results.items():
            for got, want in zip(members(value), members(exact[name]), strict=True):
                if got.numel() and floats(got) and floats(want):
                    yield name, *(t.to(C64 if t.dtype == torch.complex32 else t.dtype)
                                  .to(C128 if want.is_complex() else F64) for t in (got, want))  # fmt: skip

    def overflow(self, op: str, values: dict) -> Iterator[Finding]:
        for factor in LARGE:
            grown = self.changed(op, values, lambda t, f=factor: (t.float() if t.itemsize == 1 else t) * f)
            call = self.typed(op, grown, F16)
            exact = call and self.typed(op, call[0], F64)
            if not exact:
                continue
            single = self.typed(op, call[0], F32) or exact  # fp32's own cancellation may leave what fp16 holds
            both = zip(self.pairs(call[1], exact[1]), self.pairs(single[1], exact[1]), strict=True)
            for (name, got, want), (_, wide, _) in both:
                lost = (want.abs() < 60000) & (wide.abs() < 60000) & ~torch.isfinite(got)
                if members(call[1][name])[0].dtype == F16 and lost.any():
                    at = tuple(lost.nonzero()[0].tolist())
                    yield Finding(op, "overflow", str(F16), f"{name}{list(at)}: {got[at]:g} for {want[at]:.5g}")

    def single(self, op: str, values: dict) -> Iterator[Finding]:
        start = self.typed(op, values, F64)
        if not start:
            self.refused.add(op)
            return
        arguments, given = start[0], self.inputs(op)

        def moved(steps: int, step: float) -> dict | AclError:
            made = torch.Generator().manual_seed(1)
            change = {}
            for p in self.client.signatures[op]:
                value = arguments[p.name]
                if p.name in given and floats(value):
                    change[p.name] = each(value, lambda t: self.move(t, made, steps * step))
                elif p.type.startswith("double") and value:
                    change[p.name] = value * (1 + steps * step)
            return self.attempt(op, arguments | change)

        def bends(step: float) -> dict[str, float]:
            """Of each result, the largest second difference, in units of the largest number."""
            points, found = [moved(steps, step) for steps in (1, 2, 3)], {}
            if any(isinstance(p, AclError) for p in points):
                return {}
            for name in points[0]:
                for a, b, c in zip(*(members(p[name]) for p in points), strict=True):
                    if b.dtype not in (F64, C128):
                        continue
                    self.judged.add((op, F64))
                    sure = torch.isfinite(a) & torch.isfinite(b) & torch.isfinite(c)
                    if sure.any() and (scale := b[sure].abs().max().item()):
                        bend = (a - 2 * b + c)[sure].abs().max().item() / scale
                        found[name] = max(found.get(name, 0), bend)
            return found

        rough = {name: bend for name, bend in bends(STEP).items() if bend > ROUGH}
        again = bends(STEP / 16) if rough else {}
        for name, bend in rough.items():
            if again.get(name, 0) > bend / 64:  # a curve's would be 256 times smaller
                yield Finding(op, "single", str(F64), f"{name}: {bend:.2g} off a line")

    @staticmethod
    def move(t: object, generator: torch.Generator, step: float) -> object:
        if not torch.is_tensor(t) or t.dtype not in (F64, C128) or not t.numel():
            return t
        direction = torch.rand(t.shape, generator=generator, dtype=F64) + 0.5
        return t + step * direction * (t.abs().max().item() if t.isfinite().all() else 1.0)

    def imaginary(self, op: str, values: dict) -> Iterator[Finding]:
        inputs = [n for n in self.inputs(op) if floats([t for t in members(values[n]) if t.numel()])]
        results = [p.name for p in self.client.signatures[op] if p.way != "in" and floats(values[p.name])]
        if not results:
            return
        every = list(dict.fromkeys([*inputs, *results]))
        # Of a call of complex numbers the real parts, so that there are imaginary ones to give.
        values = values | {n: each(values[n], lambda t: t.real.clone() if computed(t) and t.is_complex() else t)
                           for n in every}  # fmt: skip
        made = torch.Generator().manual_seed(2)

        def turned(name: str) -> object:
            def one(t: object) -> object:
                if not torch.is_tensor(t) or not t.is_floating_point() or not t.numel():
                    return t
                return torch.complex(t.float(), torch.rand(t.shape, generator=made) + 0.25)

            return each(values[name], one)

        plain = values | {n: cast(values[n], F32) for n in every}
        wide = {n: cast(values[n], C64) for n in every}
        sets = [every, [*inputs], *([n, *results] for n in inputs), *([n] for n in inputs)]
        for names in {tuple(sorted(set(s))): s for s in sets}.values():
            turned_inputs = [n for n in names if n in inputs]
            arguments = plain | {n: wide[n] for n in names}
            if any(n in results for n in names):
                arguments |= self.named(op, values, C64)
            without = self.attempt(op, arguments)
            types = "+".join(names) + ": complex64"
            if isinstance(without, AclError):
                continue
            for name in turned_inputs:
                found = self.attempt(op, arguments | {name: turned(name)})
                if isinstance(found, AclError):
                    continue
                self.judged.add((op, C64))
                if self.same(without, found):
                    yield Finding(op, "imaginary", types, f"{name}'s imaginary part changes nothing")
            whole = {n: turned(n) for n in turned_inputs}
            real = [n for n in results if n not in names and n not in inputs]
            if real and whole:
                narrow = self.attempt(op, arguments | whole)
                full = self.attempt(op, arguments | whole | {n: wide[n] for n in real})
                if isinstance(narrow, AclError) or isinstance(full, AclError):
                    continue
                for name in real:
                    if any(t.is_complex() and t.imag.abs().max() > 1e-6 for t in members(full[name]) if t.numel()):
                        yield Finding(op, "real", types, f"{name} is real, and what it should hold is not")

    @staticmethod
    def same(one: dict, other: dict) -> bool:
        """Whether floating results are equal, and say anything."""
        pairs = [
            (a, b)
            for n in one
            for a, b in zip(members(one[n]), members(other[n]), strict=True)
            if floats(a) and torch.isfinite(a.to(C128 if a.is_complex() else F64)).any()
        ]
        return bool(pairs) and all(torch.equal(*(t.to(C128).nan_to_num(7) for t in pair)) for pair in pairs)


def load(path: Path) -> list[tuple[str, dict]]:
    try:
        return torch.load(path, weights_only=False)
    except pickle.UnpicklingError as error:
        words = "is no record of calls with their values: pytest -p tests.opapi.recorder --record-calls FILE writes one"
        raise SystemExit(f"tests.opapi.accuracy: {path} {words}") from error


def judged(client: Client, calls: Iterable[tuple[str, dict]]) -> tuple[Judge, list[Finding]]:
    judge, found = Judge(client), {}
    for op, values in calls:
        for finding in judge.judge(op, values) if client.has(op) else ():  # another CANN may lack it
            found.setdefault((finding.op, finding.what, finding.types), finding)
    return judge, list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--ops", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    calls = [(op, v) for op, v in load(options.file) if re.search(options.ops, op)]
    judge, found = judged(Client(), calls)
    for finding in found:
        print(*finding, sep="\t")
    if options.all:
        for (op, dtype), units in sorted(judge.worst.items(), key=lambda item: -item[1]):
            print(f"{units:10.2f}  {dtype}  {op}")
    print(f"{len(found)} findings; {judge.made} calls; {len(judge.judged)} kernels and types")


if __name__ == "__main__":
    main()
