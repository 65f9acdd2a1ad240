"""Cast with each round mode, Compare, Select: against numpy. cast.h, round.h, compare.h, select.h."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ascendc.kit import Call
from tests.ascendc.oracle import active, buffer, places, random_call, touched

NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)
TYPES = {
    "half": np.float16,
    "float": np.float32,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "int32_t": np.int32,
    "int64_t": np.int64,
    "bfloat16_t": np.uint16,
}
PAIRS = [
    "float half",
    "float bfloat16_t",
    "float float",
    "float int16_t",
    "float int32_t",
    "float int64_t",
    "half float",
    "half int8_t",
    "half uint8_t",
    "half int16_t",
    "bfloat16_t float",
    "int32_t float",
    "int32_t half",
    "int32_t bfloat16_t",
    "int32_t int64_t",
    "int16_t float",
    "int16_t half",
    "int16_t int32_t",
    "int8_t half",
    "uint8_t half",
    "int64_t float",
    "int64_t int32_t",
]


def integral(x, mode):
    away = np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.sign(x), 0)
    return {NONE: np.rint(x), RINT: np.rint(x), FLOOR: np.floor(x), CEIL: np.ceil(x), ROUND: away, TRUNC: np.trunc(x)}[
        mode
    ]


def fraction_bits(x, kind):
    """The place of the last bit that a number of this size has in the narrower type, as an exponent of 2."""
    digits, least = {"half": (10, -24), "bfloat16_t": (7, -133), "float": (23, -149)}[kind]
    exponent = np.floor(np.log2(np.where(x == 0, 1, np.abs(x))))
    return np.maximum(exponent - digits, least)


def shorter(x, kind, mode):
    """Rounded to what `kind` can hold, as a double; the sizes in these tests do not overflow."""
    unit = np.exp2(fraction_bits(x, kind))
    q = x / unit
    if mode == ODD:
        low = np.trunc(q)
        return np.where(low == q, q, np.where(low % 2 == 0, low + np.sign(q), low)) * unit
    return integral(q, mode) * unit


def expected(x, to, source, mode):
    """x: doubles (or integers) that the source holds exactly."""
    if to in ("half", "bfloat16_t", "float") and to != source:
        return shorter(x.astype("f8"), to, mode)
    if to == "float":
        return integral(x, mode)
    info = np.iinfo(TYPES[to])
    whole = integral(x, mode) if x.dtype.kind == "f" else x.astype("i8")
    return np.clip(whole, info.min, info.max)


def decoded(raw, kind):
    if kind == "bfloat16_t":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype("f8")
    return raw.astype("f8") if raw.dtype.kind == "f" else raw


def numbers(rng, kind, count):
    dtype = np.dtype(TYPES[kind])
    per = 32 // dtype.itemsize
    n = -(-count // per) * per
    if kind == "bfloat16_t":
        return (rng.uniform(-300, 300, n).astype("f4").view(np.uint32) >> 16).astype(np.uint16)
    if dtype.kind == "f":
        x = rng.uniform(-300, 300, n)
        x[::3] = np.round(x[::3] * 2) / 2  # many halves, where the modes differ
        return x.astype(dtype)
    limit = min(np.iinfo(dtype).max, 2**40)
    return rng.integers(-limit if dtype.kind == "i" else 0, limit, n).astype(dtype)


def modes(to, source):
    if (to, source) == ("half", "float"):
        return (RINT, FLOOR, CEIL, ROUND, TRUNC, ODD)
    whole = {to, source} <= {"int8_t", "uint8_t", "int16_t", "int32_t", "int64_t"}
    widens = to == "float" and source in ("half", "bfloat16_t", "int16_t")
    return (NONE,) if whole or widens or source in ("int8_t", "uint8_t") else (RINT, FLOOR, CEIL, ROUND, TRUNC)


@pytest.mark.parametrize("pair", PAIRS)
def test_cast(compiled, pair):
    to, source = pair.split()
    rng = np.random.default_rng(7)
    d_type, a_type = np.dtype(TYPES[to]), np.dtype(TYPES[source])
    widest = max(d_type.itemsize, a_type.itemsize)
    for mode in modes(to, source):
        for form in (0, 1, 2, 3, 4) if mode < FLOOR else (0, 1):
            call = random_call(rng, form, 256 // widest, 8)
            call.mode = mode
            at, x = touched(call, 256 // widest, d_type.itemsize, a_type.itemsize)
            a = numbers(rng, source, int(x.max()) + 1)
            d = numbers(rng, to, int(at.max()) + 1)
            wanted = decoded(d, to).copy()
            wanted[at] = expected(decoded(a, source)[x], to, source, mode)
            got = compiled("convert").instruction(f"Cast_{to}_{source}", d, a, a, call)
            np.testing.assert_array_equal(decoded(got, to), wanted, err_msg=f"mode {mode} form {form}")


def test_cast_saturates_and_makes_nan_zero(compiled):
    a = np.array([1e10, -1e10, np.nan, np.inf, -np.inf, 2147483520, -2147483648, 0.5], np.float32)
    got = compiled("convert").instruction(
        "Cast_int32_t_float", np.zeros(8, np.int32), a, a, Call(form=0, count=8, mode=RINT)
    )
    assert got.tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 2147483520, -(2**31), 0]


def test_cast_to_half_overflows_to_infinity(compiled):
    a = np.array([1e6, -1e6, 65504, 65519, 65520, 1e-9, np.nan, np.inf], np.float32)
    got = compiled("convert").instruction(
        "Cast_half_float", np.zeros(16, np.float16), a, a, Call(form=0, count=8, mode=RINT)
    )
    np.testing.assert_array_equal(got[:8], a.astype(np.float16))


def nibbles(raw):
    """The numbers of 4 bits in bytes, the lower half first."""
    pairs = np.stack([raw & 15, raw >> 4 & 15], -1).reshape(-1).astype(np.int8)
    return np.where(pairs < 8, pairs, pairs - 16).astype(np.int8)


def lanes_of_4_bits(call):
    """Which halves and which numbers of 4 bits a call touches: a repeat has 128, a block 16 or 64."""
    e = np.arange(128)
    if call.form == 0:
        return np.arange(call.count), np.arange(call.count)
    on = active(call, 128)
    r = np.arange(len(on))[:, None]
    halves = (r * call.a_rep + e // 16 * call.a_blk) * 16 + e % 16
    return halves[on], ((r * call.dst_rep + e // 64 * call.dst_blk) * 64 + e % 64)[on]


@pytest.mark.parametrize("form", range(5))
def test_cast_to_and_from_4_bits(compiled, form):
    rng = np.random.default_rng(12)
    for mode in (NONE, RINT, FLOOR, CEIL, ROUND, TRUNC):
        call = random_call(rng, form, 128)
        call.mode, call.count = mode, call.count & ~1
        call.dst_rep = max(call.dst_rep, call.dst_blk * 2)
        of, to = lanes_of_4_bits(call)
        a = (rng.integers(-40, 41, int(of.max()) + 16 & ~15) / 4).astype("f2")
        a[rng.integers(0, len(a))] = np.nan
        d = rng.integers(-128, 128, int(to.max()) // 64 * 32 + 32).astype(np.int8)
        wanted = nibbles(d)
        wanted[to] = np.clip(np.nan_to_num(integral(a[of].astype("f8"), mode)), -8, 7)
        got = compiled("convert").instruction("Cast_int4b_t_half", d, a, a, call)
        np.testing.assert_array_equal(nibbles(got), wanted, err_msg=f"mode {mode}")
    back = random_call(rng, form, 128)
    back.count &= ~1
    back.a_blk, back.a_rep, back.dst_blk, back.dst_rep = back.dst_blk, back.dst_rep, back.a_blk, back.a_rep
    swapped = Call(form=back.form, count=back.count, mask=back.mask, repeats=back.repeats)
    swapped.a_blk, swapped.a_rep, swapped.dst_blk, swapped.dst_rep = back.dst_blk, back.dst_rep, back.a_blk, back.a_rep
    to, of = lanes_of_4_bits(swapped)
    q = rng.integers(-128, 128, int(of.max()) // 64 * 32 + 32).astype(np.int8)
    d = buffer(rng, np.dtype("f2"), int(to.max()) + 1)
    wanted = d.copy()
    wanted[to] = nibbles(q)[of]
    np.testing.assert_array_equal(compiled("convert").instruction("Cast_half_int4b_t", d, q, q, back), wanted)


def test_tensors_of_4_bits_count_numbers(compiled):
    q = np.zeros(64, np.int8)
    got = compiled("convert").instruction("Int4Sizes", np.zeros(8, np.int32), q, q, Call(count=34))
    assert got[:7].tolist() == [128, 64, 96, 48, 48, 64, 17]


def test_an_odd_number_of_4_bits_is_refused(compiled):
    a, d = np.zeros(16, np.float16), np.zeros(32, np.int8)
    with pytest.raises(AssertionError, match="Cast: 7 numbers of 4 bits fill no whole bytes: the count is even"):
        compiled("convert").instruction("Cast_int4b_t_half", d, a, a, Call(form=0, count=7))


def test_numbers_of_the_scalar_unit(compiled):
    a = np.array([2.5 + 2**-12] + [0] * 7, np.float32)
    got = compiled("convert").instruction("Scalars", np.zeros(8, np.int32), a, a, Call())
    odd = np.float16(2.5).view(np.uint16) | 1
    assert got.tolist() == [3, 3, 2, 3, int(odd), 8, 63, 55]


def test_the_magnitude_of_a_number_keeps_its_fraction(compiled):
    a = np.array([-0.5, 0.25, -1.75, 3.5, -0.0, 0.0, -7.0, 1e-4], np.float32)
    got = compiled("convert").instruction("Magnitudes", np.zeros((8, 4), np.float32), a, a, Call(count=8))
    halves, longs = np.abs(a.astype(np.float16)).astype(np.float32), np.abs(np.trunc(a)) * 2.0**32
    assert np.array_equal(got[:, [0, 1, 3]], np.stack([np.abs(a), halves, longs], 1).astype(np.float32))
    assert np.allclose(got[:, 2], np.abs(a), rtol=2**-8) and not np.signbit(got).any()


def test_cast_with_a_scale(compiled):
    a = np.arange(16, dtype=np.int32) * 10
    got = compiled("convert").instruction(
        "CastDeq", np.zeros(16, np.float16), a, a, Call(form=0, count=16, scalar=0.25)
    )
    np.testing.assert_array_equal(got, (a * 0.25).astype(np.float16))


COMPARISONS = [np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal]


def comparable(rng, dtype, n):
    return rng.integers(-3, 4, n).astype(dtype)


@pytest.mark.parametrize("kind", ["half", "float", "int32_t"])
def test_compare(compiled, kind):
    rng = np.random.default_rng(8)
    dtype = np.dtype(TYPES[kind])
    each = 256 // dtype.itemsize
    for mode in [2] if kind == "int32_t" else range(6):
        compare = COMPARISONS[mode]
        for form in (0, 5):
            n = each * int(rng.integers(1, 5))
            a, b = comparable(rng, dtype, n), comparable(rng, dtype, n)
            d = rng.integers(0, 256, max(32, n // 8 + 31 & ~31)).astype(np.uint8)
            call = Call(form=form, count=n, mode=mode, scalar=1)
            got = compiled("convert").instruction(f"Compare_{kind}", d, a, b, call)
            wanted = d.copy()
            wanted[: n // 8] = np.packbits(compare(a, b if form == 0 else dtype.type(1)), bitorder="little")
            np.testing.assert_array_equal(got, wanted)
        for form in (1, 2, 4):
            call = random_call(rng, form, each)
            call.mode = mode
            on = active(call, each)
            x, y = (
                places(len(on), each, dtype.itemsize, *s) for s in ((call.a_blk, call.a_rep), (call.b_blk, call.b_rep))
            )
            a, b = comparable(rng, dtype, int(x.max()) + 16 & ~15), comparable(rng, dtype, int(y.max()) + 16 & ~15)
            d = np.zeros(on.size // 8 + 31 & ~31, np.uint8)
            got = compiled("convert").instruction(f"Compare_{kind}", d, a, b, call)
            bits = np.packbits((compare(a[x], b[y]) & on).ravel(), bitorder="little")
            np.testing.assert_array_equal(got[: on.size // 8], bits)
            call.form, call.scalar = form + 10, 1  # with a number, by types and mask as kernels spell them out
            got = compiled("convert").instruction(f"Compare_{kind}", d, a, b, call)
            bits = np.packbits((compare(a[x], dtype.type(1)) & on).ravel(), bitorder="little")
            np.testing.assert_array_equal(got[: on.size // 8], bits)


def test_compare_with_a_number_by_repeats(compiled):
    a = np.arange(128, dtype=np.float32)
    call = Call(form=6, mode=1, scalar=70, mask=(64, 0), repeats=2, dst_blk=1, a_blk=1, dst_rep=8, a_rep=8)
    got = compiled("convert").instruction("Compare_float", np.zeros(32, np.uint8), a, a, call)
    np.testing.assert_array_equal(got[:16], np.packbits(a > 70, bitorder="little"))


def test_bits_as_bytes(compiled):
    """Compare into numbers of 16 bits; And and Or of bytes, by count."""
    rng = np.random.default_rng(11)
    a, b = rng.random(192).astype("f4"), rng.random(192).astype("f4")
    d = rng.integers(0, 256, 128).astype(np.uint8)
    less, greater = (np.packbits(x, bitorder="little") for x in (a < b, a > np.float32(0.5)))
    wanted = d.copy()
    for start, bits in ((0, less), (32, greater), (64, less & greater), (96, less | greater)):
        wanted[start : start + 24] = bits
    got = compiled("convert").instruction("Bits", d, a, b, Call(count=192, scalar=0.5))
    np.testing.assert_array_equal(got, wanted)


def test_the_compare_mask(compiled):
    rng = np.random.default_rng(9)
    a, b = rng.random(64).astype("f4"), rng.random(64).astype("f4")
    call = Call(mask=(64, 0), a_blk=1, b_blk=1, dst_blk=1, a_rep=8, b_rep=8, dst_rep=8)
    got = compiled("convert").instruction("CompareMask", np.zeros(32, np.uint8), a, b, call)
    np.testing.assert_array_equal(got[:8], np.packbits(a < b, bitorder="little"))


@pytest.mark.parametrize("kind", ["half", "float"])
def test_select(compiled, kind):
    rng = np.random.default_rng(10)
    dtype = np.dtype(TYPES[kind])
    each = 256 // dtype.itemsize
    for form in (0, 5):
        n = int(rng.integers(1, 500))
        d, a = buffer(rng, dtype, n), buffer(rng, dtype, n)
        bits = rng.integers(0, 256, 96).astype(np.uint8)
        chosen = np.unpackbits(bits, bitorder="little")[:n].astype(bool)
        wanted = d.copy()
        wanted[:n] = np.where(chosen, a[:n], d[:n] if form == 0 else dtype.type(3))
        got = compiled("convert").instruction(f"Select_{kind}", d, a, bits, Call(form=form, count=n, scalar=3))
        np.testing.assert_array_equal(got, wanted)
    for form in (1, 2, 4, 6, 7, 8):
        call = random_call(rng, {6: 1, 7: 1, 8: 2}.get(form, form), each)
        on = active(call, each)
        call.form = form
        call.b_blk, call.b_rep = call.dst_blk, call.dst_rep  # the second operand is dst
        to = places(len(on), each, dtype.itemsize, call.dst_blk, call.dst_rep)
        x = places(len(on), each, dtype.itemsize, call.a_blk, call.a_rep)
        d, a = buffer(rng, dtype, int(to.max()) + 1), buffer(rng, dtype, int(x.max()) + 1)
        bits = rng.integers(0, 256, max(32, math.ceil(on.size / 8 / 32) * 32)).astype(np.uint8)
        flat = np.unpackbits(bits, bitorder="little").astype(bool)
        chosen = np.tile(flat[:each], (len(on), 1)) if form in (6, 8) else flat[: on.size].reshape(on.shape)
        wanted = d.copy()
        wanted[to[on]] = np.where(chosen[on], a[x[on]], dtype.type(call.scalar) if form == 7 else d[to[on]])
        got = compiled("convert").instruction(f"Select_{kind}", d, a, bits, call)
        np.testing.assert_array_equal(got, wanted, err_msg=f"form {form}")
