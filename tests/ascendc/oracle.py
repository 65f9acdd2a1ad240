"""Which elements an instruction touches, once more in numpy, and random calls. Not their results."""

from __future__ import annotations

import numpy as np

from tests.ascendc.kit import Call


def active(call: Call, each: int) -> np.ndarray:
    """(repeats, each) of bool."""
    if call.form == 3:
        n = call.mask[0]
        repeats = -(-n // each)
        return (np.arange(repeats * each) < n).reshape(repeats, each)
    if call.form == 1:
        bits = np.arange(each) < call.mask[0]
    else:
        bits = np.array([call.mask[i // 64] >> (i % 64) & 1 for i in range(each)], bool)
    return np.tile(bits, (call.repeats, 1))


def places(repeats: int, each: int, size: int, blk: int, rep: int) -> np.ndarray:
    """(repeats, each) of indices into an operand whose elements have `size` bytes."""
    per = 32 // size
    e = np.arange(each)
    return (np.arange(repeats)[:, None] * rep + (e // per * blk)[None]) * per + (e % per)[None]


def touched(call: Call, each: int, dst: int, *sources: int) -> list[np.ndarray]:
    """Indices of dst and of each source, in pairs. The numbers are the sizes of their elements."""
    if call.form == 0:
        return [np.arange(call.count)] * (1 + len(sources))
    on = active(call, each)
    strides = [(call.dst_blk, call.dst_rep), (call.a_blk, call.a_rep), (call.b_blk, call.b_rep)]
    return [places(len(on), each, size, *s)[on] for size, s in zip((dst, *sources), strides, strict=False)]


def random_call(rng: np.random.Generator, form: int, each: int, scale: int = 8, most: int = 6) -> Call:
    """Strides that do not overlap; `scale`: blocks of a repeat of dst."""
    c = Call(
        form=form,
        count=int(rng.integers(1, 700)),
        repeats=int(rng.integers(1, most)),
        scalar=float(rng.integers(1, 9)) / 2,
    )
    plain = rng.random() < 0.4
    for name in ("dst", "a", "b"):
        blk = 1 if plain else int(rng.integers(1, 4))
        setattr(c, f"{name}_blk", blk)
        setattr(c, f"{name}_rep", blk * scale if plain else blk * scale + int(rng.integers(0, 3)))
    if form == 1:
        c.mask[0] = each if rng.random() < 0.3 else int(rng.integers(1, each + 1))
    elif form == 3:
        c.mask[0] = int(rng.integers(1, most * each))
    elif form in (2, 4):
        bits = rng.integers(0, 2**64, 2, dtype=np.uint64)
        c.mask[0], c.mask[1] = int(bits[0]) | 1, int(bits[1]) if each == 128 else 0
        if each < 64:
            c.mask[0] &= (1 << each) - 1
    return c


def buffer(
    rng: np.random.Generator, dtype: np.dtype, elements: int, low: float = -100, high: float = 100
) -> np.ndarray:
    """Whole blocks of 32 bytes of random numbers."""
    per = 32 // dtype.itemsize
    n = -(-elements // per) * per
    if dtype.kind == "f":
        return rng.uniform(low, high, n).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
