"""hifloat8 in plain Python, from the definition in arXiv 2409.16626: fields of a code, and the nearest of all values.

Who uses it: tests of it in tests/opapi and tests/npu_ops. A code's fields are a sign; the dot, a prefix code that says
how many bits the exponent has; the exponent, a sign and a magnitude without its leading one; and the mantissa.
"""

from __future__ import annotations

import bisect
import math

import torch

NUMBER, LARGEST, OVERFLOW = 34, 32768.0, 40960.0
DOTS = {"0001": 0, "001": 1, "01": 2, "10": 3, "11": 4}
NAN, INFINITY = 0x80, 0x6F


def decoded(code: int) -> float:
    bits = f"{code:08b}"
    sign, rest = -1.0 if bits[0] == "1" else 1.0, bits[1:]
    if code == NAN:
        return math.nan
    if code & 0x7F == INFINITY:
        return sign * math.inf
    if rest.startswith("0000"):
        power = int(rest[4:], 2)
        return sign * 2.0 ** (power - 23) if power else 0.0
    dot = next(d for d in DOTS if rest.startswith(d))
    width, rest = DOTS[dot], rest[len(dot) :]
    exponent, mantissa = rest[:width], rest[width:]
    e = int("1" + exponent[1:], 2) * (-1 if exponent[0] == "1" else 1) if width else 0
    return sign * 2.0**e * (1 + int(mantissa, 2) / 2 ** len(mantissa))


VALUES = [decoded(code) for code in range(256)]
ORDER = sorted(code for code in range(128) if code != INFINITY)
ORDER.sort(key=lambda code: VALUES[code])
ASCENDING = [VALUES[code] for code in ORDER]


def encoded(value: float) -> int:
    """The nearest, of two the one away from zero; infinity from where the next number would be the nearest."""
    if math.isnan(value):
        return NAN
    magnitude = abs(value)
    if magnitude >= OVERFLOW:
        code = INFINITY
    else:
        above = bisect.bisect_right(ASCENDING, magnitude)
        low = ASCENDING[above - 1]
        if above < len(ASCENDING) and ASCENDING[above] - magnitude <= magnitude - low:
            low = ASCENDING[above]
        code = ORDER[ASCENDING.index(low)]
    return code | 0x80 if code and value < 0 else code


def codes(values: torch.Tensor) -> torch.Tensor:
    flat = [encoded(v) for v in values.double().flatten().tolist()]
    return torch.tensor(flat, dtype=torch.uint8).reshape(values.shape)


def values(of: torch.Tensor) -> torch.Tensor:
    """Of codes, float64."""
    return torch.tensor(VALUES, dtype=torch.float64)[of.view(torch.uint8).long()]


def clamped(x: torch.Tensor) -> torch.Tensor:
    """The codes that quantization makes: it does not overflow."""
    return codes(x.double().clamp(-LARGEST, LARGEST))
