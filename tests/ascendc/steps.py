"""Makes random steps of programs, and does to a buffer what each does. Not how programs run (programs.py).

Long because it has a maker for each family of instructions; what an element becomes is instructions.py.
"""

from __future__ import annotations

import ctypes as C
import random
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tests.ascendc import instructions as has
from tests.ascendc.kit import Call
from tests.ascendc.oracle import active, places

SLOT, STEPS, FRESH = 3072, 9, 200
# How many stretches of the buffer hold which type; those of offsets are never written.
SLOTS = {
    "half": 4, "float": 4, "int16_t": 3, "uint16_t": 2, "int32_t": 3, "uint32_t": 2, "int64_t": 2, "bfloat16_t": 2,
    "int8_t": 2, "uint8_t": 2, "offsets": 1, "blocks": 1,
}  # fmt: skip
PLACES = [(kind, i) for kind, n in SLOTS.items() for i in range(n)]
BYTES = SLOT * len(PLACES)
STARTS = {kind: [SLOT * i for i, (k, _) in enumerate(PLACES) if k == kind] for kind in SLOTS}


class Step(C.Structure):
    """What common.h calls Step."""

    _fields_ = [("instruction", C.c_int32), ("d", C.c_uint32), ("a", C.c_uint32), ("b", C.c_uint32), ("call", Call)]


def dtype(kind: str) -> np.dtype:
    return np.dtype("u4" if kind in ("offsets", "blocks") else has.TYPES[kind])


@cache
def fresh(number: int) -> np.ndarray:
    """A buffer of random numbers. To make one takes longer than a program."""
    rng = np.random.default_rng(number)
    memory = np.zeros(BYTES, np.uint8)
    for kind, starts in STARTS.items():
        for start in starts:
            t = dtype(kind)
            slot = memory[start : start + SLOT].view(t)
            if kind in ("offsets", "blocks"):
                slot[:] = (
                    rng.integers(0, 300, len(slot)) * 4 if kind == "offsets" else rng.integers(0, 90, len(slot)) * 32
                )
            elif kind == "bfloat16_t":
                slot[:] = rng.uniform(-300, 300, len(slot)).astype("f4").view("u4") >> 16
            elif t.kind == "f":
                slot[:] = rng.uniform(-300, 300, len(slot))
                slot[::3] = np.round(slot[::3] / 8) / 2  # equal ones, and halves
            else:
                info = np.iinfo(t)
                slot[:] = rng.integers(info.min, info.max, len(slot), dtype=t, endpoint=True)
                slot[::2] = rng.integers(0, 40, len(slot[::2]))
    return memory


@dataclass
class Operand:
    kind: str
    slot: int
    start: int = 0  # bytes from the slot's start on
    blk: int = 1
    rep: int = 8

    @property
    def at(self) -> int:
        return self.slot + self.start

    @property
    def bytes(self) -> int:
        return SLOT - self.start

    def view(self, memory: np.ndarray) -> np.ndarray:
        return memory[self.at : self.at + self.bytes].view(dtype(self.kind))

    def places(self, repeats: int, each: int) -> np.ndarray:
        return places(repeats, each, dtype(self.kind).itemsize, self.blk, self.rep)


@dataclass
class Program:
    steps: list[Step] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


CASTS = {f"Cast_{to}_{source}": (to, source) for to in has.TYPES for source in has.TYPES}
_CAST = (
    "float_half float_bfloat16_t float_float float_int16_t float_int32_t float_int64_t half_float half_int8_t "
    "half_uint8_t half_int16_t bfloat16_t_float int32_t_float int32_t_half int32_t_bfloat16_t int32_t_int64_t "
    "int16_t_float int16_t_half int16_t_int32_t int8_t_half uint8_t_half int64_t_float int64_t_int32_t"
)
_FAMILIES = [
    ("cast", "Cast", _CAST),
    ("compare", "Compare", "half float int32_t"),
    ("select", "Select", "half float"),
    ("gather", "Gather", "half float int32_t"),
    ("gather_mask", "GatherMask", "int16_t int32_t"),
    ("brcb", "Brcb", "half uint32_t"),
    ("sort", "Sort32", "half float"),
    ("blocks", "TransDataTo5HD", "int8_t half float"),
    *(("reduce", f"BlockReduce{what}", "half float") for what in ("Sum", "Max", "Min")),
    *(("reduce", f"{which}ReduceSum", "half float") for which in ("Whole", "Repeat", "Pair")),
    *(("extreme", f"WholeReduce{what}", "half float") for what in ("Max", "Min")),
    *(("reduce_all", f"Reduce{what}", "half float") for what in ("Sum", "Max", "Min")),
]
# Which maker makes a step of which instruction of kernels/programs.asc.
FAMILY = (
    dict.fromkeys(has.ELEMENTWISE, "elementwise")
    | {f"{name}_{kind}": family for family, name, kinds in _FAMILIES for kind in kinds.split()}
    | {"CastDeq": "cast_scaled", "Gatherb": "gather_blocks", "Transpose": "transpose"}
    | dict.fromkeys(("ArithProgression", "CreateVecIndex"), "progression")
)
# Several instructions each, or not to be had at random: test_arithmetic.py, test_convert.py and test_move.py have them.
ELSEWHERE = {
    "Duplicate_bfloat16_t", "ShiftRightRound_int32_t", "Bits", "CompareMask", "MrgSort", "Sort_half", "Sort_float",
    "TransDataTo5HD_addresses", "Cast_int4b_t_half", "Cast_half_int4b_t", "Int4Sizes", "Scalars", "Magnitudes",
}  # fmt: skip


class Maker:
    """Makes steps, and does to `memory` what each does."""

    def __init__(self, rng: random.Random, numbers: dict[str, int]):
        self.rng, self.numbers = rng, numbers
        self.memory = fresh(rng.randrange(FRESH)).copy()
        self.makers = [(getattr(self, f"make_{family}"), name) for name, family in FAMILY.items()]

    # What is chosen at random.
    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def operand(self, kind: str, *taken: Operand | None) -> Operand:
        free = [s for s in STARTS[kind] if all(t is None or t.slot != s for t in taken)]
        return Operand(kind, self.rng.choice(free), self.pick(0, 3) * 32 if self.chance(0.4) else 0)

    def strides(self, o: Operand, repeats: int, each: int, written: bool = False) -> bool:
        """Strides with which the operand stays in its slot. False: there are none for so many repeats."""
        size = dtype(o.kind).itemsize
        blocks, room = -(-each * size // 32), o.bytes // 32
        plain = self.chance(0.4)
        o.blk = 1 if plain else self.pick(1 if written else 0, 2)
        span = o.blk * (blocks - 1) + 1
        o.rep = blocks if plain else span + self.pick(0, 2) if written or self.chance(0.7) else self.pick(0, blocks)
        return (repeats - 1) * o.rep + span <= room

    def mask(self, call: Call, form: int, each: int, repeats: int) -> np.ndarray:
        """Sets the mask of a form; which lanes are active."""
        call.form, call.repeats = form, repeats
        if form == 1:
            call.mask[0] = each if self.chance(0.3) else self.pick(1, each)
        elif form == 3:
            call.mask[0] = self.pick((repeats - 1) * each + 1, repeats * each)
        else:
            low, high = self.rng.getrandbits(64), self.rng.getrandbits(64)
            if self.chance(0.2):
                low, high = (1 << self.pick(1, min(each, 63))) - 1, 0
            call.mask[0] = (low | 1) & ((1 << min(each, 64)) - 1)
            call.mask[1] = high if each == 128 else 0
        return active(call, each)

    def step(self, name: str, call: Call, d: Operand, a: Operand, b: Operand, said: str = "") -> Step:
        call.dst_blk, call.a_blk, call.b_blk = d.blk, a.blk, b.blk
        call.dst_rep, call.a_rep, call.b_rep = d.rep, a.rep, b.rep
        call.dst_bytes, call.a_bytes, call.b_bytes = d.bytes, a.bytes, b.bytes
        masks = f"{call.mask[0]:#x} {call.mask[1]:#x}"
        self.said = (
            f"{name} form {call.form} count {call.count} mask {masks} repeats {call.repeats} mode {call.mode} "
            f"scalar {call.scalar} d {d} a {a} b {b} {said}"
        )
        return Step(self.numbers[name], d.at, a.at, b.at, call)

    # Elements, one by one. Repeats follow each other: a repeat may read what one before it wrote, if dst is a source.
    def lanewise(self, name, call, d, a, b, each, f):
        if call.form == 0:
            n = slice(0, call.count)
            d.view(self.memory)[n] = f(d.view(self.memory)[n], a.view(self.memory)[n], b.view(self.memory)[n])
            return
        on = active(call, each)
        x, y, to = a.view(self.memory), b.view(self.memory), d.view(self.memory)
        of = [o.places(len(on), each) for o in (d, a, b)]
        for r in range(len(on)):
            i, j, k = (p[r][on[r]] for p in of)
            to[i] = f(to[i], x[j], y[k])

    def make_elementwise(self, name):
        to, source, f = has.ELEMENTWISE[name]
        sizes = [dtype(k).itemsize for k in (to, source)]
        each = 256 // max(sizes)
        d = self.operand(to)
        same = self.chance(0.25) and to == source
        a = d if same else self.operand(source, d)
        b = d if same and self.chance(0.5) else self.operand(source, d)
        call = Call(scalar=self.pick(0, 20) if "Shift" in name else self.pick(-8, 8) / (2 if "int" not in to else 1))
        if to == "uint16_t" or to == "uint32_t":
            call.scalar = abs(call.scalar)
        form = self.pick(1 if name in has.BY_MASK_ONLY else 0, 4)
        if form == 0:
            call.form, call.count = 0, self.pick(1, min(o.bytes // dtype(o.kind).itemsize for o in (d, a, b)))
        else:
            repeats = self.pick(1, 4)
            if not self.strides(d, repeats, each, written=True):
                return None
            if not all(o is d or self.strides(o, repeats, each) for o in (a, b)):
                return None
            self.mask(call, form, each, repeats)
        s = dtype(to).type(call.scalar)
        if name == "Axpy_float_half":
            s = np.float32(np.float16(call.scalar))
        self.lanewise(name, call, d, a, b, each, lambda x, y, z: f(x, y, z, s))
        return self.step(name, call, d, a, b)

    def make_cast(self, name):
        to, source = CASTS[name]
        d = self.operand(to)
        a = self.operand(source, d)
        call = Call(mode=self.rng.choice(has.modes(to, source)))
        each = 256 // max(dtype(k).itemsize for k in (to, source))
        form = self.pick(0, 4)
        if form == 0:
            call.count = self.pick(1, min(o.bytes // dtype(o.kind).itemsize for o in (d, a)))
        else:
            repeats = self.pick(1, 4)
            if not (self.strides(d, repeats, each, written=True) and self.strides(a, repeats, each)):
                return None
            self.mask(call, form, each, repeats)
        self.lanewise(name, call, d, a, a, each, lambda x, y, z: has.cast(y, to, source, call.mode))
        return self.step(name, call, d, a, a)

    def make_cast_scaled(self, name):
        d, a = self.operand("half"), self.operand("int32_t")
        call = Call(count=self.pick(1, 700), scalar=self.pick(1, 8) / 16)
        call.count = min(call.count, d.bytes // 2, a.bytes // 4)
        scaled = a.view(self.memory)[: call.count].astype("f4") * np.float32(call.scalar)
        d.view(self.memory)[: call.count] = has.to_short(scaled, "half", has.RINT).view("f2")
        return self.step(name, call, d, a, a)

    def make_compare(self, name):
        kind = name.split("_", 1)[1]
        size = dtype(kind).itemsize
        each = 256 // size
        d, a, b = self.operand("uint8_t"), self.operand(kind), self.operand(kind)
        call = Call(mode=2 if kind == "int32_t" else self.pick(0, 5), scalar=self.pick(-8, 8) / (1 if size == 4 else 2))
        compare, s = has.COMPARISONS[call.mode], dtype(kind).type(call.scalar)
        form = self.rng.choice([0, 5, 1, 2, 3, 4, 11, 12, 13, 14])
        bits = d.view(self.memory)
        if form in (0, 5):
            call.form = form
            call.count = n = each * self.pick(1, min(a.bytes, b.bytes) // 256)
            y = b.view(self.memory)[:n] if form == 0 else s
            result = compare(a.view(self.memory)[:n], y)
        else:
            repeats = self.pick(1, 4)
            if not (self.strides(a, repeats, each) and self.strides(b, repeats, each)):
                return None
            on = self.mask(call, form % 10, each, repeats)
            call.form = form
            x, y = (o.view(self.memory)[o.places(len(on), each)] for o in (a, b))
            result = (compare(x, y if form < 10 else s) & on).ravel()
        bits[: len(result) // 8] = np.packbits(result, bitorder="little")
        return self.step(name, call, d, a, b)

    def make_select(self, name):
        kind = name.split("_", 1)[1]
        each = 256 // dtype(kind).itemsize
        d, b = self.operand(kind), self.operand("uint8_t")
        a = d if self.chance(0.2) else self.operand(kind, d)
        call = Call(scalar=self.pick(-8, 8) / 2)
        s = dtype(kind).type(call.scalar)
        form = self.rng.choice([0, 5, 1, 2, 3, 4, 6, 7])
        bits = np.unpackbits(b.view(self.memory), bitorder="little").astype(bool)
        to = d.view(self.memory)
        if form in (0, 5):
            call.form = form
            call.count = n = self.pick(1, min(o.bytes for o in (d, a)) // dtype(kind).itemsize)
            to[:n] = np.where(bits[:n], a.view(self.memory)[:n], to[:n] if form == 0 else s)
            return self.step(name, call, d, a, b)
        repeats = self.pick(1, 4)
        if not (self.strides(d, repeats, each, written=True) and (a is d or self.strides(a, repeats, each))):
            return None
        on = self.mask(call, form if form < 6 else 1, each, repeats)
        call.form = form
        where, of = d.places(len(on), each), a.places(len(on), each)
        for r in range(len(on)):
            chosen = bits[:each] if form == 6 else bits[r * each : (r + 1) * each]
            i, j, c = where[r][on[r]], of[r][on[r]], chosen[on[r]]
            to[i] = np.where(c, a.view(self.memory)[j], s if form == 7 else to[i])
        b.blk, b.rep = d.blk, d.rep  # the kernel's second operand is dst
        return self.step(name, call, d, a, b)

    def make_gather(self, name):
        kind = name.split("_", 1)[1]
        size = dtype(kind).itemsize
        each = 256 // size
        d = self.operand(kind)
        a, b = self.operand(kind, d), self.operand("offsets")
        call = Call(mode=self.pick(0, 300) * 4)
        d.blk, form = 1, self.pick(0, 2)
        offsets = (call.mode + b.view(self.memory)) // size
        x, to = a.view(self.memory), d.view(self.memory)
        if form == 0:
            call.count = n = self.pick(1, min(d.bytes // size, b.bytes // 4))
            to[:n] = x[offsets[:n]]
            return self.step(name, call, d, a, b)
        repeats = self.pick(1, 4)
        d.rep = self.pick(8, 12)
        if (repeats - 1) * d.rep + 8 > d.bytes // 32 or repeats * each > b.bytes // 4:
            return None
        on = self.mask(call, form, each, repeats)
        to[d.places(repeats, each)[on]] = x[offsets[: repeats * each].reshape(on.shape)[on]]
        return self.step(name, call, d, a, b)

    # Reductions. Sums are taken in a tree of neighbours.
    def rows(self, kind, form, repeats, a):
        """A call, which lanes are active, their numbers (0 elsewhere)."""
        each, call = 256 // dtype(kind).itemsize, Call()
        on = self.mask(call, form, each, repeats)
        x = np.zeros(on.shape, dtype(kind))
        x[on] = a.view(self.memory)[a.places(len(on), each)[on]]
        return call, on, x

    def make_reduce(self, name):
        what, kind = name.split("_")
        size, form = dtype(kind).itemsize, 1 if "Pair" in name or "Repeat" in name else self.pick(1, 2)
        each, repeats = 256 // size, self.pick(1, 4)
        d = self.operand(kind)
        a = self.operand(kind, d)
        if not self.strides(a, repeats, each):
            return None
        call, on, x = self.rows(kind, form, repeats, a)
        groups = 8 if "Block" in name else each // 2 if "Pair" in name else 1
        d.rep = self.pick(1, 2 if groups > 8 else 4)
        step = d.rep * groups
        if (repeats - 1) * step + groups > d.bytes // size:
            return None
        x, on = x.reshape(repeats, groups, -1), on.reshape(repeats, groups, -1)
        to = d.view(self.memory)
        for r in range(repeats):
            for g in np.flatnonzero(on[r].any(-1)):
                row = x[r, g]
                value = tree_of(row) if "Sum" in what else has.extreme("Max" in what, row, on[r, g])[0]
                to[r * step + g] = value
        return self.step(name, call, d, a, a)

    def make_extreme(self, name):
        what, kind = name.split("_")
        size = dtype(kind).itemsize
        repeats, order = self.pick(1, 4), self.pick(0, 3)
        d = self.operand(kind)
        a = self.operand(kind, d)
        if not self.strides(a, repeats, 256 // size):
            return None
        call, on, x = self.rows(kind, self.pick(1, 2), repeats, a)
        call.mode, d.rep = order, self.pick(1, 4)
        bits = d.view(self.memory).view(f"u{size}")
        for r in range(repeats):
            value, where = has.extreme("Max" in what, x[r], on[r])
            value = value.view(bits.dtype)
            if order == 3:
                bits.view("u4")[r * d.rep] = where
            elif order == 2:
                bits[r * d.rep] = value
            else:
                bits[2 * r * d.rep + order], bits[2 * r * d.rep + 1 - order] = value, where
        return self.step(name, call, d, a, a)

    def make_reduce_all(self, name):
        what, kind = name.split("_")
        size = dtype(kind).itemsize
        each = 256 // size
        d = self.operand(kind)
        a = self.operand(kind, d)
        work = self.operand(kind, d, a)
        form = self.rng.choice([0, 1, 2, 3, 4])
        if form == 0:
            n = self.pick(1, a.bytes // size)
            call, rows = Call(count=n), -(-n // each)
            on = (np.arange(rows * each) < n).reshape(rows, each)
            x = np.zeros(rows * each, dtype(kind))
            x[:n] = a.view(self.memory)[:n]
            x = x.reshape(rows, each)
        else:
            repeats = self.pick(1, 4)
            if not self.strides(a, repeats, each) or a.blk != 1:
                return None
            call, on, x = self.rows(kind, form, repeats, a)
        call.mode = int("Sum" not in what)
        to = d.view(self.memory)
        if "Sum" in what:
            sums = [tree_of(row) for row in x]
            to[0] = in_order(sums) if form == 0 else tree_of(sums)
        else:
            found = [has.extreme("Max" in what, x[r], on[r]) for r in range(len(x))]
            best = 0
            for r, (value, _) in enumerate(found):
                if r and has.beats("Max" in what, value, found[best][0]):
                    best = r
            to[0] = found[best][0]
            to.view(f"u{size}")[1] = best * each + found[best][1]
        # What the shared buffer holds afterwards is not said: the software NPU leaves it.
        return self.step(name, call, d, a, work)

    # What moves.
    def make_brcb(self, name):
        kind = name.split("_", 1)[1]
        per = 32 // dtype(kind).itemsize
        d = self.operand(kind)
        a = self.operand(kind, d)
        repeats = self.pick(1, 4)
        if not self.strides(d, repeats, 8 * per, written=True):
            return None
        to, x = d.view(self.memory), a.view(self.memory)
        for r, i in np.ndindex(repeats, 8):
            at = (r * d.rep + i * d.blk) * per
            to[at : at + per] = x[r * 8 + i]
        return self.step(name, Call(repeats=repeats), d, a, a)

    def make_progression(self, name):
        kind, difference = ("int32_t", 3) if name == "ArithProgression" else ("half", 1)
        d = self.operand(kind)
        call = Call(scalar=self.pick(-50, 50))
        call.count = n = self.pick(1, d.bytes // dtype(kind).itemsize)
        d.view(self.memory)[:n] = (np.arange(n) * difference + call.scalar).astype(dtype(kind))
        return self.step(name, call, d, d, d)

    def make_transpose(self, name):
        d, a = self.operand("uint16_t"), self.operand("uint16_t")
        square = a.view(self.memory)[:256].reshape(16, 16).T.copy()
        d.view(self.memory)[:256] = square.ravel()
        return self.step(name, Call(), d, a, a)

    def make_gather_mask(self, name):
        kind = name.split("_", 1)[1]
        size = dtype(kind).itemsize
        counter, repeats = self.chance(0.5), self.pick(1, 3)
        each = self.pick(1, 150) if counter else 256 // size
        d = self.operand(kind)
        a, b = self.operand(kind, d), self.operand(f"u{kind}")
        if not self.strides(a, repeats, each) or a.blk == 0:
            return None
        pattern, b.rep = self.pick(0, 7), self.pick(0, 5)
        if pattern == 0:
            bits = np.unpackbits(b.view(self.memory).view(np.uint8), bitorder="little")
            chosen = np.stack([bits[r * b.rep * 256 :][:each] for r in range(repeats)]).astype(bool)
        else:
            every, first = [(2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3), (1, 0)][pattern - 1]
            chosen = np.tile(np.arange(each) % every == first, (repeats, 1))
        kept = a.view(self.memory)[a.places(repeats, each)][chosen]
        to = d.view(self.memory)
        if len(kept) >= len(to):
            return None
        to[: len(kept)] = kept
        to[-1] = len(kept)
        call = Call(form=3 if counter else 0, mode=pattern, mask=(each if counter else 0, 0), repeats=repeats)
        return self.step(name, call, d, a, b)

    def make_gather_blocks(self, name):
        d, a, b = self.operand("uint16_t"), self.operand("uint16_t"), self.operand("blocks")
        d, repeats = self.operand("uint16_t", a), self.pick(1, 4)
        if not self.strides(d, repeats, 128, written=True):
            return None
        to, x, offsets = d.view(self.memory), a.view(self.memory), b.view(self.memory)
        for r, i in np.ndindex(repeats, 8):
            at, of = (r * d.rep + i * d.blk) * 16, int(offsets[r * 8 + i]) // 2
            to[at : at + 16] = x[of : of + 16]
        return self.step(name, Call(repeats=repeats), d, a, b)

    def make_blocks(self, name):
        """TransDataTo5HD of lists whose blocks lie `repeats` blocks apart: repeat r takes block r of each."""
        kind = name.split("_", 1)[1]
        per, repeats = 32 // dtype(kind).itemsize, self.pick(1, 3)
        d = self.operand(kind)
        a = self.operand(kind, d)
        d.blk = a.blk = repeats
        d.rep = a.rep = 1
        mode = self.pick(0, 3) if kind == "int8_t" else 0
        x, to = (o.view(self.memory)[: 16 * repeats * per].reshape(16, repeats, per) for o in (a, d))
        for r in range(repeats):
            if kind == "int8_t":
                high, of = 16 * (mode & 1), 16 * (mode >> 1)
                to[:, r, high : high + 16] = x[:, r, of : of + 16].T
            else:
                to[:, r] = x[:, r].T.reshape(16, per)
        return self.step(name, Call(mode=mode, repeats=repeats), d, a, a)

    def make_sort(self, name):
        kind = name.split("_", 1)[1]
        size, repeats = dtype(kind).itemsize, self.pick(1, 4)
        d = self.operand(kind)
        a, b = self.operand(kind, d), self.operand("uint32_t")
        n = repeats * 32
        scores = a.view(self.memory)[:n].copy()
        if np.isnan(scores).any() or d.bytes < n * 8:
            return None
        order = np.concatenate(
            [np.argsort(-scores[i : i + 32].astype("f8"), kind="stable") + i for i in range(0, n, 32)]
        )
        index = b.view(self.memory)[order]
        to = d.view(self.memory)[: n * 8 // size]
        if size == 2:
            to[1::4] = np.float16(0)
        to[:: 8 // size] = scores[order]
        to.view("u4")[1::2] = index
        return self.step(name, Call(repeats=repeats), d, a, b)

    def program(self, most: int) -> Program:
        made = Program()
        with np.errstate(all="ignore"):
            while len(made.steps) < most:
                make, name = self.makers[self.pick(0, len(self.makers) - 1)]
                if step := make(name):
                    made.steps.append(step)
                    made.said.append(self.said)
        return made


def tree_of(values):
    """As tree, of any number: what has no neighbour waits for the next round."""
    v = np.asarray(values)
    while len(v) > 1:
        pairs = v[: len(v) // 2 * 2]
        v = np.concatenate([pairs[::2] + pairs[1::2], v[len(pairs) :]])
    return v[0]


def in_order(sums):
    total = sums[0]
    for s in sums[1:]:
        total = total + s
    return total
