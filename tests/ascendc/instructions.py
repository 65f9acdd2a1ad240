"""What each instruction of kernels/programs.asc does to numpy arrays, element by element. Not how programs are made.

Written from the API's documentation and the page docs/ascendc.md, a second time: nothing here is the software NPU's.
"""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np

NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)
# What a slot of the buffer holds. bfloat16_t is kept as its bits.
TYPES = {
    "half": "f2",
    "float": "f4",
    "int16_t": "i2",
    "uint16_t": "u2",
    "int32_t": "i4",
    "uint32_t": "u4",
    "int64_t": "i8",
    "bfloat16_t": "u2",
    "int8_t": "i1",
    "uint8_t": "u1",
}
_LIBM = ctypes.CDLL(ctypes.util.find_library("m"))


def _by_c(name):
    """The C library's function of float, since Exp and Ln are that (docs/ascendc.md)."""
    function = getattr(_LIBM, name)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    each = np.frompyfunc(function, 1, 1)
    return lambda x: each(x.astype("f4")).astype("f4").astype(x.dtype)


EXPF, LOGF = _by_c("expf"), _by_c("logf")


def larger(a, b):
    return np.where(a > b, a, b)


def smaller(a, b):
    return np.where(a < b, a, b)


def relu(x):
    return np.where(x > 0, x, x.dtype.type(0))


def _wide(x, like):
    return x.astype(like.dtype)


def _reciprocal(x):
    return (np.float32(1) / x.astype("f4")).astype(x.dtype)


def _rsqrt(x):
    return (np.float32(1) / np.sqrt(x.astype("f4"))).astype(x.dtype)


_FOUR, _FLOATS = ("half", "float", "int16_t", "int32_t"), ("half", "float")
# Of each: the types of dst and src, and f(dst, src0, src1, scalar).
_TABLE = {
    "Add": (_FOUR, lambda d, a, b, s: a + b),
    "Sub": (_FOUR, lambda d, a, b, s: a - b),
    "Mul": (_FOUR, lambda d, a, b, s: a * b),
    "Max": (_FOUR, lambda d, a, b, s: larger(a, b)),
    "Min": (_FOUR, lambda d, a, b, s: smaller(a, b)),
    "Div": (_FLOATS, lambda d, a, b, s: a / b),
    "And": (("int16_t", "uint16_t"), lambda d, a, b, s: a & b),
    "Or": (("int16_t", "uint16_t"), lambda d, a, b, s: a | b),
    "Abs": (_FLOATS, lambda d, a, b, s: np.abs(a)),
    "Exp": (_FLOATS, lambda d, a, b, s: EXPF(a)),
    "Ln": (_FLOATS, lambda d, a, b, s: LOGF(a)),
    "Sqrt": (_FLOATS, lambda d, a, b, s: np.sqrt(a)),
    "Rsqrt": (_FLOATS, lambda d, a, b, s: _rsqrt(a)),
    "Reciprocal": (_FLOATS, lambda d, a, b, s: _reciprocal(a)),
    "Relu": ((*_FLOATS, "int32_t"), lambda d, a, b, s: relu(a)),
    "Not": (("int16_t", "uint16_t"), lambda d, a, b, s: ~a),
    "Adds": (_FOUR, lambda d, a, b, s: a + s),
    "Muls": (_FOUR, lambda d, a, b, s: a * s),
    "Maxs": (_FOUR, lambda d, a, b, s: larger(a, s)),
    "Mins": (_FOUR, lambda d, a, b, s: smaller(a, s)),
    "LeakyRelu": (_FLOATS, lambda d, a, b, s: np.where(a >= 0, a, a * s)),
    "ShiftLeft": (("uint16_t", "int32_t"), lambda d, a, b, s: np.left_shift(a, s)),
    "ShiftRight": (("int16_t", "uint32_t"), lambda d, a, b, s: np.right_shift(a, s)),
    "Copy": (("half", "uint32_t"), lambda d, a, b, s: a),
    "Duplicate": (
        ("half", "float", "int16_t", "uint16_t", "int32_t", "uint32_t"),
        lambda d, a, b, s: np.full_like(d, s),
    ),
}
ELEMENTWISE = {f"{name}_{t}": (t, t, f) for name, (types, f) in _TABLE.items() for t in types} | {
    "MulAddDst_half": ("half", "half", lambda d, a, b, s: d + a * b),
    "MulAddDst_float": ("float", "float", lambda d, a, b, s: d + a * b),
    "MulAddDst_float_half": ("float", "half", lambda d, a, b, s: d + _wide(a, d) * _wide(b, d)),
    "FusedMulAdd_float": ("float", "float", lambda d, a, b, s: a * d + b),
    "FusedMulAddRelu_half": ("half", "half", lambda d, a, b, s: relu(a * d + b)),
    "AddRelu_float": ("float", "float", lambda d, a, b, s: relu(a + b)),
    "SubRelu_int16_t": ("int16_t", "int16_t", lambda d, a, b, s: relu(a - b)),
    "Axpy_half": ("half", "half", lambda d, a, b, s: d + a * s),
    "Axpy_float": ("float", "float", lambda d, a, b, s: d + a * s),
    "Axpy_float_half": ("float", "half", lambda d, a, b, s: d + _wide(a, d) * s),
}
BY_COUNT_ONLY, BY_MASK_ONLY = {"CastDeq"}, {"Copy_half", "Copy_uint32_t"}


def integral(x, mode):
    """To whole numbers that are still floats."""
    if mode == ROUND:  # halves go away from 0
        away = np.trunc(x)
        return np.copysign(away + np.where(np.abs(x - away) >= 0.5, np.sign(x), 0), x)
    return {FLOOR: np.floor, CEIL: np.ceil, TRUNC: np.trunc}.get(mode, np.rint)(x)


def to_integers(x, dtype, mode):
    """Floats to integers: saturating, NaN to 0."""
    info = np.iinfo(dtype)
    r = integral(x.astype(np.longdouble), mode)
    whole = np.where(np.isnan(r), 0, np.clip(r, info.min, info.max))
    return whole.astype(dtype)


def _magnitude(bits, kind):
    """The numbers, none below 0, that these bits are; what follows the largest counts as the next power of 2."""
    if kind == "bfloat16_t":
        exact = (bits.astype("u4") << 16).view("f4").astype("f8")
        return np.where(bits >= 0x7F80, 2.0**128, exact)
    return np.where(bits >= 0x7C00, 65536.0, bits.astype("u2").view("f2").astype("f8"))


def to_short(x, kind, mode):
    """float to half or bfloat16_t, as bits: by the two neighbours of the magnitude."""
    size = np.abs(x.astype("f8"))
    top = 0x7F80 if kind == "bfloat16_t" else 0x7C00
    finite = np.isfinite(x)
    size = np.where(finite, size, 0)
    if kind == "bfloat16_t":
        inner = (np.abs(np.where(finite, x, 0)).astype("f4").view("u4") >> 16).astype("i8")
    else:
        inner = np.minimum(size, 65504).astype("f2").view("u2").astype("i8")
        inner -= _magnitude(inner, kind) > size
    low, high = _magnitude(inner, kind), _magnitude(inner + 1, kind)
    exact, negative = low == size, np.signbit(x)
    to_low, to_high = size - low, high - size
    if mode in (NONE, RINT):
        out = (to_high < to_low) | ((to_high == to_low) & (inner % 2 == 1))
    else:
        out = {
            FLOOR: negative,
            CEIL: ~negative,
            TRUNC: np.zeros_like(negative),
            ODD: inner % 2 == 0,
            ROUND: to_high <= to_low,
        }[mode]
    bits = inner + (out & ~exact)
    bits = np.where(finite, np.minimum(bits, top), np.where(np.isnan(x), top + 1, top))
    return (bits + np.where(negative, 0x8000, 0)).astype("u2")


def whole_to_float(x, mode):
    """Integers to float: by the two neighbours."""
    wanted = x.astype(np.longdouble)
    nearest = x.astype("f4")
    if mode in (NONE, RINT):
        return nearest
    back = nearest.astype(np.longdouble)
    low = np.where(back <= wanted, nearest, np.nextafter(nearest, np.float32(-np.inf))).astype("f4")
    high = np.where(back >= wanted, nearest, np.nextafter(nearest, np.float32(np.inf))).astype("f4")
    below, above = wanted - low.astype(np.longdouble), high.astype(np.longdouble) - wanted
    if mode == FLOOR:
        return low
    if mode == CEIL:
        return high
    if mode == TRUNC:
        return np.where(x < 0, high, low)
    return np.where(below == above, np.where(x < 0, low, high), np.where(below < above, low, high))


def cast(a, to, source, mode):
    """An array of `source` as an array of `to`."""
    dtype = np.dtype(TYPES[to])
    if source == "bfloat16_t":
        a, source = (a.astype("u4") << 16).view("f4"), "float"
        if to == "float":
            return a
    if a.dtype.kind == "f":
        if to == source:
            return integral(a, mode)
        if to == "float":
            return a.astype("f4")
        if to in ("half", "bfloat16_t"):
            return to_short(a, to, mode).view(dtype)
        return to_integers(a, dtype, mode)
    if to == "float":
        return whole_to_float(a, mode)
    if to == "half":
        return to_short(a.astype("f4"), to, mode).view(dtype)
    info = np.iinfo(dtype)
    return np.clip(a.astype("i8"), info.min, info.max).astype(dtype)


def modes(to, source):
    if (to, source) == ("half", "float"):
        return (NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD)
    whole = {to, source} <= {"int8_t", "uint8_t", "int16_t", "int32_t", "int64_t"}
    widens = to == "float" and source in ("half", "bfloat16_t", "int16_t")
    return (NONE,) if whole or widens or source in ("int8_t", "uint8_t") else (NONE, RINT, FLOOR, CEIL, ROUND, TRUNC)


COMPARISONS = [np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal]


def tree(x):
    """Pairs of neighbours are added until one is left; x: (..., a power of two)."""
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def beats(largest, a, b):
    """As the headers order numbers: NaN comes first."""
    if a != a or b != b:
        return a != a and b == b
    return a > b if largest else a < b


def extreme(largest, x, on):
    """The first largest (or smallest) active number of a row, of NaN the first, and its place; -1: none is active."""
    best, numbers = -1, x.tolist()
    for i in np.flatnonzero(on).tolist():
        if best < 0 or beats(largest, numbers[i], numbers[best]):
            best = i
    return (x[best] if best >= 0 else x.dtype.type(0)), best
