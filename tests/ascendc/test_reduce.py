"""Reductions of blocks, repeats and tensors: against numpy, sums bit by bit in the tree's order. reduce.h."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest

from tests.ascendc.kit import Call
from tests.ascendc.oracle import active, buffer, places, random_call

TYPES = {"half": np.dtype(np.float16), "float": np.dtype(np.float32)}
INDEX = {2: np.uint16, 4: np.uint32}


def tree(x):
    """Pairs of neighbours are added until one is left; x: (..., a power of two)."""
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def lanes(rng, dtype, form):
    """A random call, the values of its lanes (0 or nothing where the mask is off) and the source."""
    each = 256 // dtype.itemsize
    call = random_call(rng, form, each)
    on = active(call, each)
    at = places(len(on), each, dtype.itemsize, call.a_blk, call.a_rep)
    a = buffer(rng, dtype, int(at.max()) + 1, -9, 9)
    return call, on, a[at], a


def extreme(what, x, on):
    fill = -np.inf if what == "Max" else np.inf
    masked = np.where(on, x, fill)
    where = (np.argmax if what == "Max" else np.argmin)(masked, axis=-1)
    return np.take_along_axis(masked, where[..., None], -1)[..., 0], where


@pytest.mark.parametrize("form", [1, 2])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("what", ["Sum", "Max", "Min"])
def test_blocks(compiled, what, kind, form):
    rng, dtype = np.random.default_rng(20), TYPES[kind]
    for _ in range(3):
        call, on, x, a = lanes(rng, dtype, form)
        call.dst_rep = int(rng.integers(1, 4))
        x, on = x.reshape(len(x), 8, -1), on.reshape(len(x), 8, -1)
        result = tree(np.where(on, x, dtype.type(0))) if what == "Sum" else extreme(what, x, on)[0]
        d = buffer(rng, dtype, (len(x) - 1) * call.dst_rep * 8 + 8)
        wanted = d.copy()
        for r, row in enumerate(result):
            for g in np.flatnonzero(on[r].any(-1)):
                wanted[r * call.dst_rep * 8 + g] = row[g]
        got = compiled("reduce").instruction(f"BlockReduce{what}_{kind}", d, a, a, call)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("form", [1, 2])
@pytest.mark.parametrize("kind", TYPES)
def test_the_sum_of_a_repeat(compiled, kind, form):
    rng, dtype = np.random.default_rng(21), TYPES[kind]
    for _ in range(3):
        call, on, x, a = lanes(rng, dtype, form)
        call.dst_rep = int(rng.integers(1, 4))
        d = buffer(rng, dtype, (len(x) - 1) * call.dst_rep + 1)
        wanted = d.copy()
        wanted[: len(x) * call.dst_rep : call.dst_rep] = tree(np.where(on, x, dtype.type(0)))
        names = ["WholeReduceSum"] + ["RepeatReduceSum"] * (form == 1)
        for name in names:
            got = compiled("reduce").instruction(f"{name}_{kind}", d, a, a, call)
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", TYPES)
def test_pairs(compiled, kind):
    rng, dtype = np.random.default_rng(22), TYPES[kind]
    call, on, x, a = lanes(rng, dtype, 1)
    call.mask[0], call.dst_rep = on.shape[1], 1
    d = np.zeros(x.size // 2, dtype)
    got = compiled("reduce").instruction(f"PairReduceSum_{kind}", d, a, a, call)
    np.testing.assert_array_equal(got, (x[:, ::2] + x[:, 1::2]).ravel())


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("what", ["Max", "Min"])
def test_the_extreme_of_a_repeat(compiled, what, kind, order):
    rng, dtype = np.random.default_rng(23), TYPES[kind]
    for form in (1, 2):
        call, on, x, a = lanes(rng, dtype, form)
        a[:] = np.round(a)  # equal ones: the first counts
        x = a[places(len(on), on.shape[1], dtype.itemsize, call.a_blk, call.a_rep)]
        call.mode, call.dst_rep = order, 1
        value, where = extreme(what, x, on)
        index = where.astype(INDEX[dtype.itemsize]).view(dtype)
        rows = {0: [value, index], 1: [index, value], 2: [value], 3: [where.astype(np.uint32)]}[order]
        wanted = np.ascontiguousarray(np.stack([r.view(f"u{r.itemsize}") for r in rows], 1)).view(np.uint8).ravel()
        d = np.zeros(16 * max(1, len(wanted)), dtype)
        got = compiled("reduce").instruction(f"WholeReduce{what}_{kind}", d, a, a, call)
        np.testing.assert_array_equal(got.view(np.uint8)[: len(wanted)], wanted)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("what", ["Sum", "Max", "Min"])
def test_a_whole_tensor(compiled, what, kind):
    rng, dtype = np.random.default_rng(24), TYPES[kind]
    each = 256 // dtype.itemsize
    work = np.zeros(256, dtype)
    for turn, form in enumerate((0, 0, 1, 2)):
        if form == 0:
            n = int(rng.integers(1, 1500))
            call, a = Call(form=0, count=n), buffer(rng, dtype, n, -9, 9)
            if turn == 1 and what != "Sum":
                a[n // 2] = np.nan  # the extreme, wherever it lies, as of numpy
            on = (np.arange(-(-n // each) * each) < n).reshape(-1, each)
            x = np.zeros(on.size, dtype)
            x[:n] = a[:n]
            x = x.reshape(on.shape)
        else:
            call, on, x, a = lanes(rng, dtype, form)
            call.a_blk = 1  # these forms have no block stride
            x = a[places(len(on), each, dtype.itemsize, 1, call.a_rep)]
        call.mode = int(what != "Sum")
        if what == "Sum":
            sums = tree(np.where(on, x, dtype.type(0)))
            wanted = [in_order(sums) if form == 0 else tree_of_any(sums)]
        else:
            value, where = extreme(what, x, on)
            r = int((np.argmax if what == "Max" else np.argmin)(value))
            wanted = [value[r], np.array([r * each + where[r]], INDEX[dtype.itemsize]).view(dtype)[0]]
        got = compiled("reduce").instruction(f"Reduce{what}_{kind}", np.zeros(16, dtype), a, work, call)
        np.testing.assert_array_equal(
            got[: len(wanted)].view(f"u{dtype.itemsize}"), np.array(wanted, dtype).view(f"u{dtype.itemsize}")
        )


@pytest.mark.parametrize("what", ["Max", "Min"])
@pytest.mark.parametrize("at", [0, 5, 64, 127])
def test_a_nan_is_the_extreme_wherever_it_lies(compiled, what, at):
    a, work = np.arange(128, dtype=np.float32), np.zeros(256, np.float32)
    a[at] = np.nan
    got = compiled("reduce").instruction(f"Reduce{what}_float", np.zeros(16, "f4"), a, work, Call(count=128, mode=1))
    assert np.isnan(got[0]) and got[1:2].view(np.uint32) == at


COUNTED = [
    lambda d, a, b: a + b, lambda d, a, b: a + 2, lambda d, a, b: np.abs(a), lambda d, a, b: np.full_like(a, 3),
    lambda d, a, b: d + 2 * a, lambda d, a, b: a * b + d, None, lambda d, a, b: a + b,
]  # fmt: skip


@pytest.mark.parametrize("which", range(8))
def test_counter_mode_counts_by_the_mask(compiled, which):
    """By the register for a form by count without isSetMask, whose count says nothing; by the call's mask otherwise."""
    d, a, b = np.random.default_rng(25).integers(-9, 9, (3, 256)).astype(np.float32)
    got = compiled("copies").launch("counted", 1, d, a, b, scalars=(C.c_int32(which),))[0]
    wanted = d.copy()
    if COUNTED[which]:
        wanted[:150] = COUNTED[which](d, a, b)[:150]
    else:
        wanted[0] = a[:150].sum()
    np.testing.assert_array_equal(got, wanted)


def in_order(sums):
    total = sums[0]
    for s in sums[1:]:
        total = total + s
    return total


def tree_of_any(sums):
    while len(sums) > 1:
        pairs = sums[: len(sums) // 2 * 2]
        sums = np.concatenate([pairs[::2] + pairs[1::2], sums[len(pairs) :]])
    return sums[0]
