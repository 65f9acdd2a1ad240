"""DataCopy and DataCopyPad in all their forms, atomics: against numpy. copy.h, atomic.h."""

from __future__ import annotations

import ctypes as C

import numpy as np
import pytest


class Shape(C.Structure):
    """Shape of copies.asc."""

    _fields_ = [(n, C.c_uint32) for n in ("count", "length", "src_gap", "dst_gap", "left", "right", "elements")] + [
        ("value", C.c_float)
    ]


def test_pieces_with_gaps(compiled):
    rng = np.random.default_rng(40)
    for _ in range(5):
        count, length, src_gap, dst_gap = (int(v) for v in rng.integers([1, 1, 0, 0], [9, 5, 4, 4]))
        src = rng.random((length + src_gap) * count * 16).astype("f2")
        elements = (length + dst_gap) * count * 16
        dst, seen = np.zeros_like(src), np.zeros(elements, "f2")
        local, back = np.full(elements, 7, "f2"), dst.copy()
        for i in range(count):
            a, b, n = i * (length + src_gap) * 16, i * (length + dst_gap) * 16, length * 16
            local[b : b + n] = back[a : a + n] = src[a : a + n]
        shape = Shape(count, length, src_gap, dst_gap, 0, 0, elements, 7)
        _, got_back, got_local = compiled("copies").launch("copy_blocks", 1, src, dst, seen, scalars=(shape,))
        np.testing.assert_array_equal(got_local, local)
        np.testing.assert_array_equal(got_back, back)


def test_pieces_inside_the_buffer(compiled):
    src = np.arange(160, dtype=np.float32)
    wanted = np.full(160, -1, np.float32)
    for i in range(4):
        wanted[i * 24 : i * 24 + 16] = src[i * 40 : i * 40 + 16]
    shape = Shape(4, 2, 3, 1, 0, 0, 160, -1)
    np.testing.assert_array_equal(
        compiled("copies").launch("copy_local", 1, src, np.zeros_like(src), scalars=(shape,))[1], wanted
    )


def test_pieces_of_any_length_with_paddings(compiled):
    rng = np.random.default_rng(41)
    for _ in range(6):
        count, length, src_gap, dst_gap = (int(v) for v in rng.integers([1, 1, 0, 0], [6, 50, 9, 3]))
        left, right = (int(v) for v in rng.integers(0, 17, 2)) if rng.random() < 0.7 else (0, 0)
        src = rng.integers(-30000, 30000, (length + src_gap) * count).astype(np.int16)
        step = -(-(left + length + right) // 16) * 16 + dst_gap * 16
        _, back, local = compiled("copies").launch(
            "copy_pad",
            1,
            src,
            np.zeros_like(src),
            np.zeros(count * step, np.int16),
            scalars=(Shape(count, length * 2, src_gap * 2, dst_gap, left, right, count * step, 9),),
        )
        for i in range(count):
            row = local[i * step :]
            np.testing.assert_array_equal(row[:left], 9)
            np.testing.assert_array_equal(row[left : left + length], src[i * (length + src_gap) :][:length])
            filled = row[left + length : step - dst_gap * 16]  # to the block's end, by CANN's page
            np.testing.assert_array_equal(filled, 9 if left or right else src[i * (length + src_gap)])
            np.testing.assert_array_equal(row[step - dst_gap * 16 : step], -1)
        if left == right == 0 and dst_gap == 0:
            for i in range(count):
                at = i * (length + src_gap)
                np.testing.assert_array_equal(back[at : at + length], src[at : at + length])


def test_pieces_of_any_length_in_the_short_form(compiled):
    src = np.arange(3 * 13, dtype=np.float32)
    wanted = np.zeros_like(src)
    for i in range(3):
        wanted[i * 13 : i * 13 + 11] = src[i * 13 : i * 13 + 11]
    shape = Shape(3, 44, 8, 0, 0, 0, 48, 0)
    np.testing.assert_array_equal(
        compiled("copies").launch("copy_pad_short", 1, src, np.zeros_like(src), scalars=(shape,))[1], wanted
    )


@pytest.mark.parametrize("how, wanted", [(0, 5 + 136), (1, 16), (2, 1)], ids=["add", "max", "min"])
@pytest.mark.parametrize("kind", ["float", "half", "int32"])
def test_atomics_of_sixteen_blocks(compiled, kind, how, wanted):
    z = np.full(64, 5, {"float": "f4", "half": "f2", "int32": "i4"}[kind])
    got = compiled("copies").launch(f"accumulate_{kind}", 16, z, scalars=(C.c_uint32(64), C.c_int32(how)))[0]
    np.testing.assert_array_equal(got, wanted)
