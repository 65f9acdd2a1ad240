"""Gather, GatherMask, Scatter, sorting, transposing, filling: against numpy. gather.h, sort.h, transpose.h, fill.h."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.kit import Call
from tests.ascendc.oracle import active, buffer, places, random_call

TYPES = {
    "half": np.dtype("f2"),
    "float": np.dtype("f4"),
    "int32_t": np.dtype("i4"),
    "int16_t": np.dtype("i2"),
    "uint32_t": np.dtype("u4"),
    "int8_t": np.dtype("i1"),
}


def padded(x, per=8):
    return np.concatenate([x, np.zeros(-len(x) % per, x.dtype)])


@pytest.mark.parametrize("kind", ["half", "float", "int32_t"])
def test_gather(compiled, kind):
    rng, dtype = np.random.default_rng(30), TYPES[kind]
    each, base = 256 // dtype.itemsize, 8
    a = buffer(rng, dtype, 300)
    for form in (0, 1, 2):
        call = random_call(rng, form, each)
        call.mode, call.dst_blk = base, 1
        on = np.ones((1, call.count), bool) if form == 0 else active(call, each)
        index = rng.integers(0, 250, on.size)
        d = buffer(rng, dtype, (call.repeats * max(call.dst_rep, 8) + 8) * 32 // dtype.itemsize + call.count)
        to = np.arange(call.count)[None] if form == 0 else places(len(on), each, dtype.itemsize, 1, call.dst_rep)
        wanted = d.copy()
        wanted[to[on]] = a[base // dtype.itemsize + index[on.ravel()]]
        offsets = padded((index * dtype.itemsize).astype(np.uint32))
        np.testing.assert_array_equal(compiled("convert").instruction(f"Gather_{kind}", d, a, offsets, call), wanted)


@pytest.mark.parametrize("kind", ["half", "float", "int32_t"])
def test_gather_in_counter_mode(compiled, kind):
    """The mask is how many elements there are in all, the offsets are as many, and nothing behind is touched."""
    rng, dtype = np.random.default_rng(32), TYPES[kind]
    a, index = buffer(rng, dtype, 300), rng.integers(0, 300, 152)
    d = buffer(rng, dtype, 400)
    wanted = d.copy()
    wanted[:149] = a[index[:149]]
    offsets = (index * dtype.itemsize).astype(np.uint32)
    call = Call(form=3, mask=(149, 0), repeats=1, dst_rep=8)
    np.testing.assert_array_equal(compiled("convert").instruction(f"Gather_{kind}", d, a, offsets, call), wanted)


def test_gather_blocks(compiled):
    rng = np.random.default_rng(31)
    a = rng.integers(0, 60000, 16 * 40).astype(np.uint16)
    index = rng.integers(0, 40, 24)
    d = np.zeros(16 * (2 * 20 + 7 * 2 + 1), np.uint16)
    wanted = d.copy()
    for r in range(3):
        for i in range(8):
            at = (r * 20 + i * 2) * 16
            wanted[at : at + 16] = a[index[r * 8 + i] * 16 :][:16]
    got = compiled("convert").instruction(
        "Gatherb", d, a, (index * 32).astype(np.uint32), Call(repeats=3, dst_blk=2, dst_rep=20)
    )
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("counter", [False, True], ids=["normal", "counter"])
@pytest.mark.parametrize("pattern", range(8))
@pytest.mark.parametrize("kind", ["int16_t", "int32_t"])
def test_gather_mask(compiled, kind, pattern, counter):
    rng, dtype = np.random.default_rng(32), TYPES[kind]
    each = 150 if counter else 256 // dtype.itemsize
    blk, repeats = 2, 3
    rep = -(-each * dtype.itemsize // 32) * blk + 1
    at = places(repeats, each, dtype.itemsize, blk, rep)
    a = buffer(rng, dtype, int(at.max()) + 1)
    bits = rng.integers(0, 256, 32 * 3, dtype=np.uint8)
    if pattern == 0:
        chosen = np.stack([np.unpackbits(bits[r * 32 :], bitorder="little")[:each] for r in range(repeats)]).astype(
            bool
        )
    else:
        every, first = [(2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3), (1, 0)][pattern - 1]
        chosen = np.tile(np.arange(each) % every == first, (repeats, 1))
    call = Call(
        form=3 if counter else 0,
        mode=pattern,
        mask=(each if counter else 0, 0),
        repeats=repeats,
        a_blk=blk,
        a_rep=rep,
        b_rep=1,
    )
    d = np.zeros(512, dtype)
    got = compiled("convert").instruction(f"GatherMask_{kind}", d, a, bits.view(f"u{dtype.itemsize}"), call)
    wanted = a[at][chosen]
    assert got[-1] == len(wanted)
    np.testing.assert_array_equal(got[: len(wanted)], wanted)


def by_score(scores):
    """The largest first, and before it NaN."""
    return np.argsort(-np.where(np.isnan(scores), np.inf, scores.astype("f8")), kind="stable")


@pytest.mark.parametrize("kind", ["half", "float"])
def test_sort32(compiled, kind):
    rng, dtype = np.random.default_rng(33), TYPES[kind]
    a, index = rng.integers(-20, 20, 96).astype(dtype), rng.permutation(96).astype(np.uint32)
    a[[3, 40, 41]] = np.nan
    got = compiled("convert").instruction(
        f"Sort32_{kind}", np.zeros(96 * 8 // dtype.itemsize, dtype), a, index, Call(repeats=3)
    )
    order = np.concatenate([by_score(a[i : i + 32]) + i for i in (0, 32, 64)])
    np.testing.assert_array_equal(got.view(np.uint32)[1::2], index[order])
    np.testing.assert_array_equal(got[:: 8 // dtype.itemsize], a[order])


@pytest.mark.parametrize("kind", ["half", "float"])
def test_sort_and_extract(compiled, kind):
    rng, dtype = np.random.default_rng(34), TYPES[kind]
    a, index = rng.integers(-90, 90, 128).astype(dtype), np.arange(128, dtype=np.uint32)
    a[[3, 40, 41]] = np.nan
    d = np.zeros(128 + 128 * 4 // dtype.itemsize, dtype)
    got = compiled("convert").instruction(f"Sort_{kind}", d, a, index, Call(repeats=4))
    order = by_score(a)
    np.testing.assert_array_equal(got[:128], a[order])
    np.testing.assert_array_equal(got[128:].view(np.uint32), order)


@pytest.mark.parametrize("form", [0, 2], ids=["info", "apart"])
@pytest.mark.parametrize("valid, suspend", [(15, 0), (7, 0), (3, 0), (15, 1)])
def test_merging_sorted_queues(compiled, valid, suspend, form):
    rng, n = np.random.default_rng(35), 40
    queues = [np.sort(rng.random(n).astype("f4"))[::-1] for _ in range(4)]
    a = np.zeros((4, n, 2), np.float32)
    for q, scores in enumerate(queues):
        a[q, :, 0] = scores
        a[q, :, 1] = (np.arange(n, dtype=np.uint32) + 100 * q).view(np.float32)
    used = valid.bit_count()
    scores = np.concatenate(queues[:used])
    order = by_score(scores)
    if suspend:  # until one queue has nothing left
        counts = np.stack([np.cumsum(order // n == q) for q in range(4)])
        order = order[: int(np.argmax((counts == n).any(0))) + 1]
    call = Call(form=form, count=n, mask=(valid, 0), mode=suspend)
    got = compiled("convert").instruction(
        "MrgSort", np.zeros(4 * n * 2 + 8, np.float32), a.ravel(), np.zeros(8, np.uint32), call
    )
    np.testing.assert_array_equal(got[: 2 * len(order) : 2], scores[order])
    np.testing.assert_array_equal(got[1 : 2 * len(order) : 2].view(np.uint32), order // n * 100 + order % n)
    assert got[-4:].tolist() == [float((order // n == q).sum()) for q in range(4)]


def test_merging_queues_behind_one_another(compiled):
    """Of 33 pairs, which begin at multiples of 8 bytes, and one of none."""
    rng, n = np.random.default_rng(36), 33
    a = np.zeros((3, n, 2), np.float32)
    a[:, :, 0] = np.sort(rng.random((3, n)).astype("f4"))[:, ::-1]
    a[:, :, 1] = np.arange(3 * n, dtype=np.uint32).view(np.float32).reshape(3, n)
    order = by_score(a[:, :, 0].ravel())
    call = Call(form=1, count=n, mask=(15, 0))
    got = compiled("convert").instruction(
        "MrgSort", np.zeros(4 * n * 2 + 8, np.float32), padded(a.ravel()), np.zeros(8, np.uint32), call
    )
    np.testing.assert_array_equal(got[: 6 * n : 2], a[:, :, 0].ravel()[order])
    np.testing.assert_array_equal(got[1 : 6 * n : 2].view(np.uint32), order)


def test_transpose(compiled):
    a = np.arange(256, dtype=np.uint16)
    got = compiled("convert").instruction("Transpose", np.zeros_like(a), a, a, Call())
    np.testing.assert_array_equal(got.reshape(16, 16), a.reshape(16, 16).T)


def test_blocks_against_blocks_by_address(compiled):
    a = np.arange(256, dtype=np.uint16)
    got = compiled("convert").instruction("TransDataTo5HD_addresses", np.zeros_like(a), a, a, Call())
    np.testing.assert_array_equal(got.reshape(16, 16), a.reshape(16, 16).T)


@pytest.mark.parametrize("kind", ["int8_t", "half", "float"])
def test_blocks_against_blocks(compiled, kind):
    rng, dtype = np.random.default_rng(36), TYPES[kind]
    per, repeats = 32 // dtype.itemsize, 3
    # Each list's blocks lie `repeats` blocks apart, so repeat r takes block r of each.
    a = buffer(rng, dtype, 16 * repeats * per)
    d = buffer(rng, dtype, 16 * repeats * per)
    x, wanted = a.reshape(16, repeats, per), d.reshape(16, repeats, per).copy()
    for mode in range(4) if kind == "int8_t" else [0]:
        for r in range(repeats):
            if kind == "int8_t":
                wanted = d.reshape(16, repeats, per).copy() if r == 0 else wanted
                to, of = 16 * (mode & 1), 16 * (mode >> 1)
                wanted[:, r, to : to + 16] = x[:, r, of : of + 16].T
            else:
                wanted[:, r] = x[:, r].T.reshape(16, per)
        call = Call(mode=mode, repeats=repeats, dst_blk=repeats, a_blk=repeats, dst_rep=1, a_rep=1)
        got = compiled("convert").instruction(f"TransDataTo5HD_{kind}", d, a, a, call)
        np.testing.assert_array_equal(got, wanted.ravel())


@pytest.mark.parametrize("kind", ["half", "uint32_t"])
def test_an_element_a_block(compiled, kind):
    rng, dtype = np.random.default_rng(37), TYPES[kind]
    per = 32 // dtype.itemsize
    a, d = buffer(rng, dtype, 24), buffer(rng, dtype, (2 * 17 + 7 * 2 + 1) * per)
    wanted = d.copy()
    for r in range(3):
        for i in range(8):
            at = (r * 17 + i * 2) * per
            wanted[at : at + per] = a[r * 8 + i]
    got = compiled("convert").instruction(f"Brcb_{kind}", d, a, a, Call(repeats=3, dst_blk=2, dst_rep=17))
    np.testing.assert_array_equal(got, wanted)


def test_progressions(compiled):
    d = np.zeros(40, np.int32)
    got = compiled("convert").instruction("ArithProgression", d, d, d, Call(count=33, scalar=-7))
    assert got.tolist() == [*range(-7, -7 + 99, 3), *[0] * 7]
    d = np.zeros(32, np.float16)
    assert compiled("convert").instruction("CreateVecIndex", d, d, d, Call(count=20, scalar=2))[:21].tolist() == [
        *range(2, 22),
        0,
    ]
