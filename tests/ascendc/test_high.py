"""High-level vector functions against numpy: of each element, of rows, along an axis. high_math.h, softmax.h, ..."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ascendc.kit import Call
from tests.ascendc.oracle import buffer
from tests.runtime.acl import run

TYPES = {"half": np.dtype(np.float16), "float": np.dtype(np.float32)}
CLOSE = {"half": {"rtol": 2e-3, "atol": 2e-3}, "float": {"rtol": 2e-5, "atol": 2e-6}}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def faster_gelu_v2(x):
    """As CANN's page has it."""
    away = np.minimum(np.abs(0.7071 * x), 1.769) - 1.769
    return x * (np.sign(x) * (-0.1444 * away**2 + 0.5) + 0.5)


def each(f):
    return lambda x: np.vectorize(f, otypes=[np.float64])(x)


# In the order of kernels/high.asc: the function and where it is tried.
ONE = {
    "Sin": (np.sin, -9, 9), "Cos": (np.cos, -9, 9), "Tan": (np.tan, -1.4, 1.4), "Sinh": (np.sinh, -5, 5),
    "Cosh": (np.cosh, -5, 5), "Tanh": (np.tanh, -5, 5), "Asin": (np.arcsin, -1, 1), "Acos": (np.arccos, -1, 1),
    "Atan": (np.arctan, -9, 9), "Asinh": (np.arcsinh, -9, 9), "Acosh": (np.arccosh, 1.1, 9),
    "Atanh": (np.arctanh, -0.9, 0.9), "Erf": (each(math.erf), -3, 3), "Erfc": (each(math.erfc), -3, 3),
    "Lgamma": (each(math.lgamma), 0.1, 9), "Log": (np.log, 0.1, 9), "Log2": (np.log2, 0.1, 9),
    "Log10": (np.log10, 0.1, 9), "Floor": (np.floor, -9, 9), "Ceil": (np.ceil, -9, 9), "Trunc": (np.trunc, -9, 9),
    "Round": (np.rint, -9, 9), "Frac": (lambda x: x - np.trunc(x), -9, 9), "Sign": (np.sign, -9, 9),
    "Sigmoid": (sigmoid, -9, 9), "Silu": (lambda x: x * sigmoid(x), -9, 9),
    "Swish": (lambda x: x * sigmoid(1.5 * x), -9, 9), "Gelu": (gelu, -4, 4),
    "FasterGelu": (lambda x: x * sigmoid(1.702 * x), -4, 4), "FasterGeluV2": (faster_gelu_v2, -4, 4),
    "ClampMax": (lambda x: np.minimum(x, 1.5), -9, 9), "ClampMin": (lambda x: np.maximum(x, 1.5), -9, 9),
    "Exp": (np.exp, -5, 5),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ONE)
def test_of_each_element(compiled, name, kind):
    f, low, high = ONE[name]
    rng, dtype = np.random.default_rng(50), TYPES[kind]
    forms = 4 if list(ONE).index(name) <= 24 else 2
    for form in range(forms):
        n = int(rng.integers(1, 700))
        a = buffer(rng, dtype, n, low, high)
        if name == "Round":
            a[: n // 2] = np.floor(a[: n // 2]) + 0.5  # halves go to the even one
        n = a.size if form >= 2 else n  # without a count it is all of src
        d = buffer(rng, dtype, n)
        wanted = d.astype(np.float64)
        wanted[:n] = f(a[:n].astype(np.float64))
        call = Call(form=form, count=n, mode=list(ONE).index(name), scalar=1.5)
        got = compiled("high").instruction(f"One_{kind}", d, a, a, call)
        np.testing.assert_allclose(got[:n].astype(np.float64), wanted[:n], **CLOSE[kind])
        np.testing.assert_array_equal(got[n:], d[n:])


TWO = [
    np.fmod,
    np.power,
    lambda x, y: x * gelu(y),
    lambda x, y: x * np.maximum(y, 0),
    lambda x, _: np.power(x, 1.5),
    lambda x, _: np.power(1.5, x),
    lambda x, y: x * y * sigmoid(1.5 * y),
]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", range(8))
def test_of_two(compiled, mode, kind):
    rng, dtype = np.random.default_rng(51), TYPES[kind]
    for form in range(4 if mode in (0, 1, 2, 3, 6) else 2):
        n = 32 * int(rng.integers(1, 9))
        a, b = buffer(rng, dtype, n, 0.5, 3), buffer(rng, dtype, n, 0.5, 2)
        d = buffer(rng, dtype, n, -9, 9)
        x, y = a.astype(np.float64), b.astype(np.float64)
        wanted = d.astype(np.float64) + 1.5 * x if mode == 7 else TWO[mode](x, y)
        got = compiled("high").instruction(f"Two_{kind}", d, a, b, Call(form=form, count=n, mode=mode, scalar=1.5))
        np.testing.assert_allclose(got.astype(np.float64), wanted, **CLOSE[kind])


def test_integers(compiled):
    rng = np.random.default_rng(52)
    a, b = rng.integers(-9, 9, 64, dtype=np.int32), rng.integers(0, 12, 64, dtype=np.int32)
    a[:4], b[:4] = [1, -1, -1, 5], [-3, -2, -3, -1]  # 1, 1, -1, 0
    wanted = np.where(b < 0, 0, a.astype(np.int64) ** np.maximum(b, 0)).astype(np.int32)
    wanted[:3] = 1, 1, -1
    got = compiled("high").instruction("Integers", np.zeros(64, np.int32), a, b, Call(count=64))
    np.testing.assert_array_equal(got, wanted)
    x, y = buffer(rng, np.dtype(np.uint16), 80), buffer(rng, np.dtype(np.uint16), 80)
    np.testing.assert_array_equal(compiled("high").instruction("Bits", x.copy(), x, y, Call(count=80)), x ^ y)


def rows(rng, kind):
    """A random matrix: its call, its rows in memory, and the part that counts as float64."""
    dtype = TYPES[kind]
    per = 32 // dtype.itemsize
    m, n = int(rng.integers(1, 9)), int(rng.integers(1, 90))
    k = -(-n // per) * per
    a = rng.uniform(-4, 4, (m, k)).astype(dtype)
    return Call(repeats=m, dst_rep=k, count=n), a, a[:, :n].astype(np.float64), per


def blocks(x, per, dtype):
    """A block of 32 bytes for each row."""
    return np.repeat(x.astype(dtype), per).reshape(-1)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("form", [0, 1])
def test_softmax(compiled, kind, form):
    rng, dtype = np.random.default_rng(53 + form), TYPES[kind]
    high = compiled("high")
    for _ in range(3):
        call, a, x, per = rows(rng, kind)
        (m, k), n, call.form = a.shape, call.count, form
        top = x.max(1)
        e = np.exp(x - top[:, None])
        d = np.zeros(m * k + 3 * m * per, dtype)

        def split(got, m=m, k=k, n=n, per=per):
            parts = got[m * k :].reshape(3, m, per).astype(np.float64)
            assert (parts == parts[:, :, :1]).all()  # each block holds one number
            return got[: m * k].reshape(m, k)[:, :n].astype(np.float64), *parts[:, :, 0]

        def compute(mode, b, call=call, d=d, a=a):
            call.mode = mode
            return high.instruction(f"SoftMax_{kind}", d, a.ravel(), b, call)

        y, total, largest, _ = split(compute(0, a.ravel()))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), **CLOSE[kind])
        np.testing.assert_allclose(total, e.sum(1), **CLOSE[kind])
        np.testing.assert_array_equal(largest, top)
        np.testing.assert_allclose(split(compute(1, a.ravel()))[0], e / e.sum(1, keepdims=True), **CLOSE[kind])

        s, t = rng.uniform(1, 9, m).astype(dtype), rng.uniform(-2, 9, m).astype(dtype)
        b = np.concatenate([blocks(s, per, dtype), blocks(t, per, dtype)])
        s, t = s.astype(np.float64), t.astype(np.float64)
        np.testing.assert_allclose(split(compute(2, b))[0], np.exp(x - t[:, None]) / s[:, None], **CLOSE[kind])

        y, total, largest, _ = split(compute(3, b))
        np.testing.assert_allclose(y, e, **CLOSE[kind])
        np.testing.assert_allclose(total, e.sum(1), **CLOSE[kind])
        np.testing.assert_array_equal(largest, top)
        y, total, largest, scale = split(compute(4, b))
        both = np.maximum(top, t)
        np.testing.assert_array_equal(largest, both)
        np.testing.assert_allclose(y, np.exp(x - both[:, None]), **CLOSE[kind])
        np.testing.assert_allclose(scale, np.exp(t - both), **CLOSE[kind])
        np.testing.assert_allclose(total, np.exp(t - both) * s + np.exp(x - both[:, None]).sum(1), **CLOSE[kind])

        g = rng.uniform(-1, 1, (m, k)).astype(dtype)
        front = (g[:, :n].astype(np.float64) * x).sum(1)
        loose = {"rtol": 4e-3, "atol": 2e-2} if kind == "half" else {"rtol": 2e-5, "atol": 5e-5}
        got = compute(6, g.ravel())
        np.testing.assert_allclose(got[: m * per].reshape(m, per)[:, 0], front, **loose)
        got = compute(5, g.ravel())
        if form:
            np.testing.assert_allclose(got[: m * per].reshape(m, per)[:, 0], front, **loose)
        else:
            wanted = (g[:, :n].astype(np.float64) - front[:, None]) * x
            loose["atol"] *= 8
            np.testing.assert_allclose(got[: m * k].reshape(m, k)[:, :n], wanted, **loose)

        b[m // 2 * per : (m // 2 + 1) * per] = -7
        call.mask[0], call.scalar = int(np.array([-7], dtype).view(f"u{dtype.itemsize}")[0]), 3.0
        got = compute(7, b)
        wanted = a.copy()
        wanted[m // 2] = 3
        np.testing.assert_array_equal(got[: m * k].reshape(m, k), wanted)
        assert got[m * k] == 1


def test_softmax_of_half_with_sums_of_float(compiled):
    rng = np.random.default_rng(55)
    call, a, x, _ = rows(rng, "half")
    m, k = a.shape
    got = compiled("high").instruction("SoftMaxMixed", np.zeros(m * k + m * 32, np.float16), a.ravel(), a.ravel(), call)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(got[: m * k].reshape(m, k)[:, : call.count], e / e.sum(1, keepdims=True), rtol=2e-3)
    parts = got[m * k :].view(np.float32).reshape(2, m, 8)
    np.testing.assert_allclose(parts[0], np.repeat(e.sum(1), 8).reshape(m, 8), rtol=1e-6)
    np.testing.assert_array_equal(parts[1], np.repeat(x.max(1), 8).reshape(m, 8))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("form", [0, 1])
def test_normalization(compiled, kind, form):
    rng, dtype = np.random.default_rng(56), TYPES[kind]
    for _ in range(3):
        call, a, x, _ = rows(rng, kind)
        (m, k), n, call.form, call.scalar = a.shape, call.count, form, 0.125
        b = rng.uniform(-2, 2, (2, k)).astype(dtype)
        gamma, beta = b[:, :n].astype(np.float64)
        d = np.zeros(m * k + k + 64, dtype)
        mean, variance = x.mean(1), x.var(1)
        got = compiled("high").instruction(f"Norm_{kind}", d, a.ravel(), b.ravel(), call)
        wanted = (x - mean[:, None]) / np.sqrt(variance[:, None] + 0.125) * gamma + beta
        loose = {"rtol": 2e-3, "atol": 4e-3} if kind == "half" else {"rtol": 2e-5, "atol": 2e-5}
        np.testing.assert_allclose(got[: m * k].reshape(m, k)[:, :n], wanted, **loose)
        np.testing.assert_allclose(got[m * k + k : m * k + k + m], variance, **loose)
        if m <= k:
            np.testing.assert_allclose(got[m * k : m * k + m], mean, **loose)
        call.mode = 1
        got = compiled("high").instruction(f"Norm_{kind}", d, a.ravel(), b.ravel(), call)
        wanted = x / np.sqrt((x * x).mean(1, keepdims=True) + 0.125) * gamma
        np.testing.assert_allclose(got[: m * k].reshape(m, k)[:, :n], wanted, **loose)


ALONG = [np.sum, np.mean, np.prod, np.max, np.min, lambda x, axis: x.any(axis), lambda x, axis: x.all(axis)]


@pytest.mark.parametrize("mode", range(7))
def test_along_an_axis(compiled, mode):
    rng = np.random.default_rng(57)
    for form in (0, 1):
        call, a, x, _ = rows(rng, "float")
        m, k = a.shape
        if mode >= 5:
            a[rng.random(a.shape) < 0.3] = 0
            a[0] = mode - 5
            x = a[:, : call.count].astype(np.float64)
        if mode == 2:
            a /= 3
            x = a[:, : call.count].astype(np.float64)
        if mode in (3, 4):
            a[m // 2, call.count // 2] = x[m // 2, call.count // 2] = np.nan
        wanted = ALONG[mode](x, axis=1 - form)
        call.mode, call.form = mode, form
        got = compiled("high").instruction("Along", np.zeros(128, np.float32), a.ravel(), a.ravel(), call)
        np.testing.assert_allclose(got[: wanted.size], wanted, rtol=1e-4, atol=1e-4)


def test_rows(compiled):
    rng = np.random.default_rng(58)
    call, a, x, _ = rows(rng, "float")
    m, k = a.shape

    def compute(mode, form):
        call.mode, call.form = mode, form
        return compiled("high").instruction("Along", np.zeros(m * k + k, np.float32), a.ravel(), a.ravel(), call)

    for form in (0, 1):
        np.testing.assert_allclose(compute(7, form)[:m], x.sum(1), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(compute(8, form)[:m], x.mean(1), rtol=1e-4, atol=1e-4)
        got, wanted = compute(9, form), np.cumsum(a, axis=1 - form, dtype=np.float32)
        np.testing.assert_allclose(got[: m * k].reshape(m, k), wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got[m * k :], wanted[-1], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(compute(10, 0)[: m * k].reshape(m, k), np.broadcast_to(a.ravel()[:k], (m, k)))
    np.testing.assert_array_equal(compute(11, 0)[: m * k].reshape(m, k), np.broadcast_to(a.ravel()[:m, None], (m, k)))


def test_columns_that_fill_a_row_up_are_taken_out(compiled):
    """UnPad, in both forms; Broadcast of whole numbers, from a TBuf that is used as a queue is."""
    rng = np.random.default_rng(61)
    m, k, n = 5, 48, 37
    a = buffer(rng, np.dtype(np.float16), m * k)
    for form in (0, 1):
        call = Call(form=form, count=n, repeats=m, dst_rep=k)
        d = np.zeros(m * k, np.float16)
        got = compiled("high").instruction("UnPad_half", d, a, a, call)
        np.testing.assert_array_equal(got[: m * n].reshape(m, n), a.reshape(m, k)[:, :n])
    x = rng.integers(-99, 99, 64).astype(np.int32)
    call = Call(count=n, repeats=m, dst_rep=k)
    got = compiled("high").instruction("Copies_int32", np.zeros(m * k, np.int32), x, x, call)
    np.testing.assert_array_equal(got.reshape(m, k), np.broadcast_to(x[:m, None], (m, k)))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", range(3))
def test_top_k(compiled, mode, kind):
    rng, dtype = np.random.default_rng(59), TYPES[kind]
    for form in (0, 1):
        m, n = int(rng.integers(1, 6)), int(rng.integers(1, 90))
        inner, k = -(-n // 32) * 32, int(rng.integers(1, n + 1))
        a = np.round(rng.uniform(-9, 9, (m, inner))).astype(dtype)  # equal ones keep their order
        index = rng.permutation(inner).astype(np.int32)
        finished = rng.random(32) < 0.5
        b = finished.view(np.int32) if mode == 2 else index
        call = Call(form=form, mode=mode, repeats=m, dst_rep=inner, count=n)
        call.mask[0] = k
        largest = form or mode == 2
        a[0, n // 2] = np.nan  # the largest
        keys = np.where(np.isnan(a[:, :n]), np.inf, a[:, :n])
        order = np.argsort(-keys if largest else keys, axis=1, kind="stable")[:, :k]
        value = np.take_along_axis(a, order, 1)
        d = np.zeros(m * inner + m * inner * 4 // dtype.itemsize, dtype)
        got = compiled("high").instruction(f"TopK_{kind}", d, a.ravel(), b, call)
        per = 32 // dtype.itemsize
        step = -(-k // per) * per
        np.testing.assert_array_equal(got[: m * step].reshape(m, step)[:, :k], value)
        where = index[order] if mode == 1 else order
        if mode == 2:
            where = np.where(finished[:m, None], n, order)
        step = -(-k // 8) * 8
        indices = got[m * inner :].view(np.int32)[: m * step].reshape(m, step)
        np.testing.assert_array_equal(indices[:, :k], where)


def test_global_memory_is_filled(compiled):
    (x,) = compiled("high").launch("fill_global", 1, np.zeros(9, np.int32), scalars=(5,))
    np.testing.assert_array_equal(x, [7] * 5 + [0] * 4)


def test_a_buffer_that_overlaps_an_operand(compiled):
    error = compiled("high").launch("overlapping", 1, np.zeros(8, np.float32), check=False)
    assert "Sin: sharedTmpBuffer overlaps dst" in error


HASTY = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Device, Kernels
print(Kernels(Path({library!r}), Device()).launch("hasty", 1, np.zeros(8, "f4"), check=False))
"""


def test_the_sanitizer_sees_what_a_high_level_function_reads(compiled):
    out = run(HASTY.format(library=compiled("high").library._name), ANYCEND_CHECK="kernel").stdout
    assert "Tanh: the vector unit (V) reads bytes 0 to 31 of the unified buffer that high.asc" in out
