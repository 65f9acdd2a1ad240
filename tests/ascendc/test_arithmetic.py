"""Arithmetic by count, by mask and repeats, by the mask register: against numpy. vector_*.h, fill.h, lanes.h."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.oracle import Call, buffer, random_call, touched

DTYPES = {
    "half": np.float16,
    "float": np.float32,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
}
FOUR, FLOATS = ("half", "float", "int16_t", "int32_t"), ("half", "float")


def relu(x):
    return np.where(x > 0, x, x.dtype.type(0))


BINARY = {
    "Add": (FOUR, np.add),
    "Sub": (FOUR, np.subtract),
    "Mul": (FOUR, np.multiply),
    "Max": (FOUR, np.maximum),
    "Min": (FOUR, np.minimum),
    "Div": (FLOATS, np.divide),
    "And": (("int16_t", "uint16_t"), np.bitwise_and),
    "Or": (("int16_t", "uint16_t"), np.bitwise_or),
}
UNARY = {
    "Abs": (FLOATS, np.abs, -100),
    "Exp": (FLOATS, np.exp, -8),
    "Ln": (FLOATS, np.log, 0.01),
    "Sqrt": (FLOATS, np.sqrt, 0),
    "Rsqrt": (FLOATS, lambda x: (1 / np.sqrt(x.astype("f4"))).astype(x.dtype), 0.01),
    "Reciprocal": (FLOATS, lambda x: (1 / x.astype("f4")).astype(x.dtype), 0.5),
    "Relu": ((*FLOATS, "int32_t"), relu, -100),
    "Not": (("int16_t", "uint16_t"), np.invert, 0),
}
SCALAR = {
    "Adds": (FOUR, np.add),
    "Muls": (FOUR, np.multiply),
    "Maxs": (FOUR, np.maximum),
    "Mins": (FOUR, np.minimum),
    "LeakyRelu": (FLOATS, lambda x, s: np.where(x >= 0, x, x * s)),
    "ShiftLeft": (("uint16_t", "int32_t"), np.left_shift),
    "ShiftRight": (("int16_t", "uint32_t"), np.right_shift),
}


def cases(table):
    return [pytest.param(name, dtype, id=f"{name}-{dtype}") for name, row in table.items() for dtype in row[0]]


def trial(kernels, name, dtypes, form, rng, compute, low=-100.0, scalar=None, exact=True):
    """One random call; all of dst is compared, also what the call must leave alone."""
    kernel = f"{name}_{dtypes[0]}" if dtypes[0] in DTYPES else name
    d_type, a_type = (np.dtype(DTYPES.get(t, t)) for t in dtypes)
    each = 256 // d_type.itemsize
    call = random_call(rng, form, each)
    narrow = d_type.itemsize // a_type.itemsize
    call.a_rep = max(call.a_rep, call.a_blk * 8 // narrow)
    if scalar is not None:
        call.scalar = scalar
    to, x, y = touched(call, each, d_type.itemsize, a_type.itemsize, a_type.itemsize)
    high = 8 if low == -8 else 100
    d, a, b = (
        buffer(rng, d_type, to.max() + 1),
        buffer(rng, a_type, x.max() + 1, low, high),
        buffer(rng, a_type, y.max() + 1, low, high),
    )
    wanted = d.copy()
    with np.errstate(all="ignore"):
        wanted[to] = compute(d[to], a[x], b[y], d_type.type(call.scalar)).astype(d_type)
    got = kernels.instruction(kernel, d, a, b, call)
    if exact:
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=2e-3 if d_type.itemsize == 2 else 1e-6)


@pytest.mark.parametrize("name, dtype", cases(BINARY))
def test_two_tensors(compiled, name, dtype):
    rng = np.random.default_rng(1)
    for form in (0, 1, 2, 3, 4, 1, 2):
        trial(compiled("arithmetic"), name, [dtype] * 2, form, rng, lambda d, a, b, s: BINARY[name][1](a, b))


@pytest.mark.parametrize("name, dtype", cases(UNARY))
def test_one_tensor(compiled, name, dtype):
    rng = np.random.default_rng(2)
    _, compute, low = UNARY[name]
    for form in (0, 1, 2, 3, 4):
        trial(compiled("arithmetic"), name, [dtype] * 2, form, rng, lambda d, a, b, s: compute(a), low, exact=False)


@pytest.mark.parametrize("name, dtype", cases(SCALAR))
def test_a_tensor_and_a_number(compiled, name, dtype):
    rng = np.random.default_rng(3)
    compute = SCALAR[name][1]
    scalar = 3 if "Shift" in name or "int" in dtype else 1.5
    for form in (0, 1, 2, 3, 4):
        trial(compiled("arithmetic"), name, [dtype] * 2, form, rng, lambda d, a, b, s: compute(a, s), scalar=scalar)


def test_a_rounding_shift_adds_half_of_the_last_place(compiled):
    a = np.array([0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -6, -7, 100], np.int32)
    call = Call(form=1, mask=(16, 0), repeats=1, dst_blk=1, a_blk=1, dst_rep=8, a_rep=8, scalar=2)
    got = compiled("arithmetic").instruction("ShiftRightRound_int32_t", np.zeros_like(a), a, a, call)
    np.testing.assert_array_equal(got, (a + 2) >> 2)


def wide(x, like):
    return x.astype(like.dtype)


THREE = {
    "MulAddDst_half": ("f2", "f2", lambda d, a, b, s: d + a * b),
    "MulAddDst_float": ("f4", "f4", lambda d, a, b, s: d + a * b),
    "MulAddDst_float_half": ("f4", "f2", lambda d, a, b, s: d + wide(a, d) * wide(b, d)),
    "FusedMulAdd_float": ("f4", "f4", lambda d, a, b, s: a * d + b),
    "FusedMulAddRelu_half": ("f2", "f2", lambda d, a, b, s: relu(a * d + b)),
    "AddRelu_float": ("f4", "f4", lambda d, a, b, s: relu(a + b)),
    "SubRelu_int16_t": ("i2", "i2", lambda d, a, b, s: relu(a - b)),
    "Axpy_half": ("f2", "f2", lambda d, a, b, s: d + a * s),
    "Axpy_float": ("f4", "f4", lambda d, a, b, s: d + a * s),
    "Axpy_float_half": ("f4", "f2", lambda d, a, b, s: d + wide(a, d) * s),
}


@pytest.mark.parametrize("name", THREE)
def test_two_steps(compiled, name):
    rng = np.random.default_rng(4)
    d, a, compute = THREE[name]
    for form in (0, 1, 2, 3, 4):
        trial(compiled("arithmetic"), name, [d, a], form, rng, compute)


@pytest.mark.parametrize("dtype", DTYPES)
def test_duplicate(compiled, dtype):
    rng = np.random.default_rng(5)
    for form in (0, 1, 2, 3, 4):
        trial(
            compiled("arithmetic"), "Duplicate", [dtype] * 2, form, rng, lambda d, a, b, s: np.full_like(d, s), scalar=7
        )


def test_duplicate_of_bfloat16(compiled):
    d = np.zeros(32, np.uint16)
    got = compiled("arithmetic").instruction("Duplicate_bfloat16_t", d, d, d, Call(form=0, count=20, scalar=1.5))
    np.testing.assert_array_equal(got, [0x3FC0] * 20 + [0] * 12)


@pytest.mark.parametrize("dtype", ["half", "uint32_t"])
def test_copy_inside_the_buffer(compiled, dtype):
    rng = np.random.default_rng(6)
    for form in (1, 2, 3, 4):
        trial(compiled("arithmetic"), "Copy", [dtype] * 2, form, rng, lambda d, a, b, s: a)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_many_random_calls(compiled, seed):
    """Each instruction of two tensors, of a tensor and a number, and of two steps, 25 times."""
    rng = np.random.default_rng(100 + seed)
    kernels = compiled("arithmetic")
    for _ in range(25):
        form = int(rng.integers(0, 5))
        for name, (dtypes, compute) in BINARY.items():
            for dtype in dtypes:
                trial(kernels, name, [dtype] * 2, form, rng, lambda d, a, b, s, f=compute: f(a, b))
        for name, (dtypes, compute) in SCALAR.items():
            for dtype in dtypes:
                trial(kernels, name, [dtype] * 2, form, rng, lambda d, a, b, s, f=compute: f(a, s), scalar=3)
        for name, (d, a, compute) in THREE.items():
            trial(kernels, name, [d, a], form, rng, compute)
