"""What kernels of the 950 compute, compared with numpy: `python -m tests.ascendc.chip950 <check> <library>`.

A process has one chip: test_chip950.py starts one with ANYCEND_SOC=Ascend950 for each check.
"""

from __future__ import annotations

import ctypes as C
import sys
from pathlib import Path

import numpy as np

from tests.ascendc.kit import Device, Kernels


def integers(*values: int) -> tuple:
    return tuple(C.c_int32(v) for v in values)


def simt_add(kernels: Kernels, random: np.random.Generator) -> None:
    for n, threads, blocks in (1, 1, 1), (5000, 1024, 3), (777, 50, 4), (4096, 2048, 2):
        x, y = random.standard_normal((2, n), np.float32)
        got = kernels.launch("simt_add", blocks, x, y, np.zeros_like(x), scalars=integers(n, threads))[2]
        assert np.array_equal(got, x + y), (n, threads, blocks)


def simt_abs(kernels: Kernels, _: np.random.Generator) -> None:
    x, whole = np.array([-0.0, 0.0, -np.inf, -1.5], np.float32), np.array([-3, 3, -(2**31), 0], np.int32)
    z, _, i = kernels.launch("simt_abs", 1, np.ones_like(x), x, whole, scalars=integers(4))
    assert np.array_equal(z.view(np.int32), np.abs(x).view(np.int32)) and np.array_equal(i, np.abs(whole)), (z, i)


def simt_turn(kernels: Kernels, random: np.random.Generator) -> None:
    for n in 8, 40, 64, 2048:
        x = random.integers(-(2**31), 2**31, n, np.int32)
        got = kernels.launch("simt_turn", 1, x, np.zeros_like(x), scalars=integers(n))[1]
        assert np.array_equal(got, x[::-1]), n


def simt_warp(kernels: Kernels, random: np.random.Generator) -> None:
    for n, out in (32, 9), (75, 9), (75, 3), (1, 9), (64, 0):
        x = random.integers(-1000, 1000, n, np.int32)
        f = random.standard_normal(n, np.float32)
        got, _, _, sums = kernels.launch(
            "simt_warp", 1, np.zeros((n, 13), np.int32), x, f, np.zeros_like(f), scalars=integers(n, out)
        )
        for i in range(n):
            if i % 7 == out:
                assert not got[i].any() and sums[i] == 0
                continue
            first = i // 32 * 32
            lanes = [k for k in range(first, min(first + 32, n)) if k % 7 != out]

            def of(k: int, width: int, i: int = i, lanes: list = lanes, x: np.ndarray = x) -> int:
                return x[k] if k in lanes and k // width == i // width else x[i]

            values = x[lanes]
            expected = [
                of(first + 5, 32),
                of(i // 8 * 8 + (i + 3) % 8, 8),
                of(i - 2, 32),
                of(i + 3, 16),
                of(first + ((i - first) ^ 5), 32),
                values.sum(),
                values.max(),
                values.min(),
                sum(1 << (k - first) for k in lanes if x[k] > 0),
                (values > -900).all(),
                (values > 900).any(),
                sum(1 << (k - first) for k in lanes),
            ]
            assert got[i, :12].astype(np.uint32).tolist() == [int(e) % 2**32 for e in expected], (n, out, i)
            bits = f"{int(x[i]) % 2**32:032b}"
            leading = 32 if "1" not in bits else bits.index("1")
            assert got[i, 12] == bits.count("1") * 1000 + leading * 10 + 2
            assert np.isclose(sums[i], f[lanes].sum(), atol=1e-5)


def simt_count(kernels: Kernels, random: np.random.Generator) -> None:
    n, bins = 3000, 17
    x = random.integers(0, 10**6, n, np.int32)
    zeros, most, least = np.zeros(bins, np.int32), np.full(bins, -1, np.int32), np.full(bins, 2**31 - 1, np.int32)
    counts, ticket, sums, most, least, _ = kernels.launch(
        "simt_count", 5, zeros, np.zeros_like(x), np.zeros(bins, np.float32), most, least, x, scalars=integers(bins, n)
    )
    for b in range(bins):
        inside = x % bins == b
        assert counts[b] == inside.sum() and sums[b] == inside.sum() / 2
        assert sorted(ticket[inside]) == list(range(inside.sum()))
        assert most[b] == x[inside].max() and least[b] == x[inside].min()


def simt_where(kernels: Kernels, _: np.random.Generator) -> None:
    got = kernels.launch("simt_where", 1, np.zeros(105, np.uint32))[0]
    i = np.arange(105)
    assert np.array_equal(got, i % 5 + i // 5 % 7 * 100 + i // 35 * 10000 + i // 32 * 1000000)


def simt_crowd(kernels: Kernels, _: np.random.Generator) -> None:
    """The stacks of 40 blocks of 2048 threads are there at once: fewer mappings than a process may have."""
    assert kernels.launch("simt_crowd", 40, np.zeros(8, np.int32))[0][0] == 40


SMALL = "VF_CALL: a thread's stack of 64 KiB is too small"


def simt_mistakes(kernels: Kernels, _: np.random.Generator) -> None:
    for name, said in {
        "simt_apart": "VF_CALL: some lanes of a warp wait in this function, and others in a barrier of all threads",
        "simt_elsewhere": "VF_CALL: some lanes of a warp wait in this function, and others in one on line ",
        "simt_too_many": "VF_CALL: 64 x 33 x 1 threads: 1 to 2048 are possible",
        "simt_outside": "called outside of a SIMT function: VF_CALL and asc_vf_call run one",
        "simt_stops": "Trap: the kernel stopped itself",
        "simt_deep": SMALL,
    }.items():
        text = kernels.launch(name, 1, np.zeros(64, np.int32), check=False)
        assert said in text and "simt.asc:" in text, text


def simt_deep(kernels: Kernels, _: np.random.Generator) -> None:
    """A thread among others needs 80 KiB; 68, of which it writes the low end; so 100, where it waits; 900."""
    for which in range(4):
        text = kernels.launch("simt_middle", 1, np.zeros(64, np.int32), scalars=integers(which), check=False)
        assert SMALL in text and "simt.asc:" in text, (which, text)


def simt_order(kernels: Kernels, random: np.random.Generator) -> None:
    """With ANYCEND_CHECK=kernel."""
    simt_turn(kernels, random)
    x = np.arange(8, dtype=np.int32)
    text = kernels.launch("simt_turn_unordered", 1, x, x, scalars=integers(8), check=False)
    assert "VF_CALL: the vector unit (V) " in text and "WaitFlag<HardEvent::MTE2_V> is missing" in text, text


TYPES = {"float": np.float32, "half": np.float16, "int32_t": np.int32, "int16_t": np.int16}


def wide(x: np.ndarray) -> np.ndarray:
    """What is computed in: 16 bit floats as float, integers wrap."""
    return x.astype(np.float32) if x.dtype.kind == "f" else x


def floats(f):
    return lambda x, y, d, s: f(wide(x), wide(y), wide(d), s)


# Of all elements; by number as in kernels/reg.asc. d is what the register held before.
OPERATIONS = {
    0: floats(lambda x, y, d, s: x + y),
    1: floats(lambda x, y, d, s: x - y),
    2: floats(lambda x, y, d, s: x * y),
    3: lambda x, y, d, s: np.maximum(x, y),
    4: lambda x, y, d, s: np.minimum(x, y),
    5: lambda x, y, d, s: wide((wide(x) * wide(y)).astype(x.dtype)) + wide(d),
    6: lambda x, y, d, s: wide((wide(d) * wide(x)).astype(x.dtype)) + wide(y),
    7: lambda x, y, d, s: np.abs(x),
    8: lambda x, y, d, s: -x,
    9: lambda x, y, d, s: np.maximum(x, x.dtype.type(0)),
    10: floats(lambda x, y, d, s: x + s),
    11: floats(lambda x, y, d, s: x * s),
    12: lambda x, y, d, s: np.maximum(x, s),
    13: lambda x, y, d, s: np.minimum(x, s),
    14: lambda x, y, d, s: np.full_like(x, s),
}
WHOLE = {
    30: lambda x, y, d, s: x & y,
    31: lambda x, y, d, s: x | y,
    32: lambda x, y, d, s: x ^ y,
    33: lambda x, y, d, s: ~x,
    34: lambda x, y, d, s: x << s,
    35: lambda x, y, d, s: x >> s,
    36: lambda x, y, d, s: np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y),
}
OF_FLOATS = {
    40: floats(lambda x, y, d, s: x / y),
    41: floats(lambda x, y, d, s: np.exp(x)),
    42: floats(lambda x, y, d, s: np.log(y)),
    43: floats(lambda x, y, d, s: np.sqrt(y)),
    44: floats(lambda x, y, d, s: np.floor(x)),
}
# Of one register, with its mask.
REGISTERS = {
    15: lambda x, y, m, s: np.where(m & (x < y), x, y),
    16: lambda x, y, m, s: np.where(m & (x >= s) & (y != s), x, y),
    17: lambda x, y, m, s: (s + np.arange(len(x))).astype(x.dtype),
    18: lambda x, y, m, s: np.stack([x, y], 1).reshape(-1)[: len(x)],
    19: lambda x, y, m, s: np.concatenate([x, y])[1::2],
    20: lambda x, y, m, s: np.concatenate([x[m], np.zeros((~m).sum(), x.dtype)]),
}


def reg_operations(kernels: Kernels, random: np.random.Generator) -> None:
    for name, dtype in TYPES.items():
        whole = np.issubdtype(dtype, np.integer)
        each = 256 // np.dtype(dtype).itemsize
        for which in [*OPERATIONS, *(WHOLE if whole else OF_FLOATS), *REGISTERS]:
            n = each * int(random.integers(1, 4))
            count, merging = int(random.integers(0, n + 1)), bool(random.integers(2))
            scalar = dtype(random.integers(0, 8) if 34 <= which <= 35 else random.integers(-5, 6))
            if whole:
                d, x, y = random.integers(-(2**15), 2**15, (3, n)).astype(dtype)
                y[::5] = scalar
                if which == 36:
                    y[y == 0] = 3
            else:
                d, x, y = (random.standard_normal((3, n)) * 4).astype(dtype)
                y = np.abs(y) + dtype(0.25)
                x[::7] = -0.0
            scalars = (C.c_int32(which), C.c_float(scalar), C.c_uint32(n), C.c_uint32(count), C.c_int32(merging))
            got = kernels.launch(f"reg_{name}", 1, d, x, y, scalars=scalars)[0]
            active = np.arange(n) < count
            with np.errstate(over="ignore"):
                if which in REGISTERS:
                    rows = zip(*(v.reshape(-1, each) for v in (x, y, active)), strict=True)
                    expected = np.concatenate([REGISTERS[which](*row, scalar) for row in rows])
                else:
                    everywhere = (OPERATIONS | WHOLE | OF_FLOATS)[which](x, y, d, scalar).astype(dtype)
                    expected = np.where(active, everywhere, d if merging else dtype(0))
            close = {"rtol": 2e-6 if dtype is np.float32 else 2e-3} if which in (41, 42) else {"rtol": 0}
            assert np.allclose(got, expected, atol=0, **close), (name, which, n, count, merging, scalar)
            assert which != 7 or not (got[active] == 0)[np.signbit(got[active])].any(), (name, "Abs of -0")


def reg_copy(kernels: Kernels, random: np.random.Generator) -> None:
    x, y = random.standard_normal((2, 256)).astype(np.float32) * 300
    x[:6] = 3e9, -3e9, np.nan, 2.5, 70001, -40000

    def of(which: int) -> np.ndarray:
        return kernels.launch("reg_copy", 1, np.full(256, -1, np.float32), x, y, scalars=integers(which))[0]

    blank = np.full(256, -1, np.float32)
    with np.errstate(over="ignore"):
        half = x[:64].astype(np.float16).astype(np.float32)
    expected = [blank.copy() for _ in range(11)]
    expected[0][:8] = x[5]
    expected[1][:64:3] = np.tile(x[8:16], 8)[::3]
    for i in range(3):
        expected[2][80 * i : 80 * i + 16] = x[64 * i : 64 * i + 16]
    expected[3][24:88] = x[128:192]
    kept = x[x > 0]
    expected[4][: len(kept)] = kept
    expected[4][255] = 4 * len(kept)
    expected[5][1:9] = [*x[:5], *y[:3]]
    expected[6][:64], expected[6][64:128], expected[6][128:192] = half, 0, np.where(np.arange(64) < 16, half, 0)
    whole = np.clip(np.nan_to_num(np.floor(x[:64].astype(np.float64))), -(2**31), 2**31 - 1).astype(np.float32)
    expected[7][:64] = np.where(np.arange(64) < 16, whole, x[:64])
    near = np.clip(np.nan_to_num(np.rint(x[:64].astype(np.float64)), nan=0), -(2**31), 2**31 - 1).astype(np.int64)
    expected[8][:64], expected[8][64:128] = near.astype(np.int16), np.clip(near, -(2**15), 2**15 - 1)
    expected[9][:64] = x.view(np.float16)[:64]
    expected[10].view(np.int16)[:16] = x.view(np.int32)[:16].astype(np.int16)
    with np.errstate(over="ignore"):
        expected[10].view(np.float16)[64:128] = x[:64].astype(np.float16)
    small = y.view(np.float16)[:128].astype(np.float32)
    expected[10].view(np.int8)[256:384] = np.clip(np.nan_to_num(np.rint(small), nan=0), -128, 127).astype(np.int8)
    expected[10][128:144] = x[:16]
    for which in range(11):
        assert np.array_equal(of(which), expected[which], equal_nan=True), which


def reg_others(kernels: Kernels, random: np.random.Generator) -> None:
    for pieces, length, gap in (1, 5, 0), (7, 3, 2), (20, 16, 1), (3, 33, 31):
        a = random.integers(-(2**15), 2**15, pieces * (length + gap)).astype(np.int16)
        got = kernels.launch("reg_compact", 1, np.zeros_like(a), a, scalars=integers(pieces, length, gap))[0]
        assert np.array_equal(got, np.where(np.arange(len(a)) % (length + gap) < length, a, 0)), (pieces, length, gap)
    compares = [np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal]
    for name, dtype in {"u8": np.uint8, "i32": np.int32}.items():
        for mode, compare in enumerate(compares):
            a = random.integers(0, 9, 256).astype(dtype)
            for count in 256, 12, 200:
                scalars = (C.c_int32(mode), C.c_float(4), C.c_uint32(count))
                bits = kernels.launch(f"reg_compare_{name}", 1, np.zeros(32, np.uint8), a, scalars=scalars)[0]
                got = np.unpackbits(bits, bitorder="little")[:count]
                assert np.array_equal(got, compare(a[:count], 4)), (name, mode, count)


def reg_mistakes(kernels: Kernels, _: np.random.Generator) -> None:
    for which, said in enumerate(
        [
            "DataCopy: address 260 of the unified buffer is not aligned to 32 bytes",
            "DataCopy: 256 bytes from byte 32 of TBuf<VECCALC> of reg.asc:",
            "DataCopy: address 1024 of the unified buffer is in no buffer",
        ]
    ):
        zeros = np.zeros(64, np.float32)
        text = kernels.launch("reg_mistakes", 1, zeros, zeros, zeros, scalars=integers(which), check=False)
        assert said in text, text


def reg_order(kernels: Kernels, random: np.random.Generator) -> None:
    """With ANYCEND_CHECK=kernel."""
    reg_copy(kernels, random)
    zeros = np.zeros(64, np.float32)
    text = kernels.launch("reg_unordered", 1, zeros, zeros, check=False)
    assert "DataCopy: the copy-out engine (MTE3) reads bytes" in text, text
    assert "WaitFlag<HardEvent::V_MTE3> is missing" in text, text


if __name__ == "__main__":
    globals()[sys.argv[1]](Kernels(Path(sys.argv[2]), Device()), np.random.default_rng(7))
