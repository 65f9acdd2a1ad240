"""MX quantization in plain Python, from CANN's pages: exponents by frexp, elements by the nearest of a grid.

Who uses it: tests of products, groups, gates and quantization in tests/opapi, tests/npu_ops and tests/distributed.
"""

from __future__ import annotations

import math

import torch

E5M2, E4M3, E2M1, E1M2 = torch.float8_e5m2, torch.float8_e4m3fn, torch.float4_e2m1fn_x2, torch.bits4x2
CODES = {E5M2: 35, E4M3: 36, E2M1: 40, E1M2: 41}  # aclDataType
TOP = {E5M2: 15, E4M3: 8, E2M1: 2, E1M2: 0}  # the exponent of the largest number
LARGEST = {E5M2: 57344.0, E4M3: 448.0, E2M1: 6.0, E1M2: 1.75}
GRIDS = {E2M1: [0, 0.5, 1, 1.5, 2, 3, 4, 6], E1M2: [i / 4 for i in range(8)]}


def exponent(block: list[float], kind: torch.dtype, alg: int = 0, largest: float = 0, least: float = 0) -> int:
    """As float8_e8m0fnu keeps it."""
    most = max(abs(v) for v in block)
    if not all(math.isfinite(v) for v in block):
        return 255
    if alg:
        scale = torch.tensor(max(most, least)) / (largest or LARGEST[kind])
        if scale == 0:
            return 0
        fraction, e = math.frexp(float(scale))  # scale = fraction * 2^e, fraction from 0.5 on
        return e - 1 + 127 + (fraction != 0.5)
    return 0 if most == 0 else max(math.frexp(most)[1] - 1 - TOP[kind] + 127, 0)


def nearest(v: float, kind: torch.dtype, mode: str) -> float:
    grid = sorted({s * g for g in GRIDS[kind] for s in (1, -1)})
    v = min(max(v, grid[0]), grid[-1])
    if mode in ("floor", "ceil", "trunc"):
        below = mode == "floor" or (mode == "trunc" and v >= 0)
        return max(g for g in grid if g <= v) if below else min(g for g in grid if g >= v)
    distance = min(abs(g - v) for g in grid)
    both = [g for g in grid if abs(g - v) == distance]
    if len(both) == 1:
        return both[0]
    return max(both, key=abs) if mode == "round" else next(g for g in both if GRIDS[kind].index(abs(g)) % 2 == 0)


def elements(values: torch.Tensor, kind: torch.dtype, mode: str = "rint") -> torch.Tensor:
    """Numbers, float64, to the values of elements, float64."""
    if kind not in GRIDS:
        return values.clamp(-LARGEST[kind], LARGEST[kind]).float().to(kind).double()
    return values.clone().apply_(lambda v: nearest(v, kind, mode))


def reference(x: torch.Tensor, axis: int, kind: torch.dtype, mode: str = "rint", size: int = 32, **scaling: float):
    """Values of elements and exponents along the axis."""
    rows = x.double().movedim(axis, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    blocks = -(-flat.shape[1] // size)
    out, scales = torch.zeros_like(flat), torch.zeros(flat.shape[0], blocks, dtype=torch.long)
    for r in range(flat.shape[0]):
        for b in range(blocks):
            block = flat[r, b * size : (b + 1) * size]
            scales[r, b] = e = exponent(block.tolist(), kind, **scaling)
            out[r, b * size : (b + 1) * size] = elements(block * (0.0 if e == 255 else 2.0 ** (127 - e)), kind, mode)
    if not torch.isfinite(x.double()).all():
        out = out.nan_to_num(0, 0, 0)
    back = lambda t: t.reshape(*rows.shape[:-1], -1).movedim(-1, axis)
    return back(out), back(scales)


def pairs(scales: torch.Tensor, axis: int) -> torch.Tensor:
    """Two of the axis side by side, in a dimension behind the others."""
    even = torch.cat([scales, torch.zeros_like(scales.narrow(axis, 0, scales.shape[axis] % 2))], axis)
    axis %= scales.dim()
    return even.unflatten(axis, (-1, 2)).movedim(axis + 1, -1).to(torch.uint8).contiguous()


def of_groups(x: torch.Tensor, ends: list[int], kind: torch.dtype, **scaling: float):
    """Of groups of rows, whose blocks begin anew: values of elements, and scales as kept, with zeros behind."""
    rows = [x[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]
    values, scales = zip(*(reference(part, 0, kind, **scaling) for part in rows), strict=True)
    kept = torch.zeros(len(x) // 64 + len(ends), x.shape[1], 2, dtype=torch.uint8)
    filled = torch.cat([pairs(s, 0) for s in scales])
    kept[: len(filled)] = filled
    return torch.cat(values), kept


def packed(values: torch.Tensor, kind: torch.dtype, negative: torch.Tensor | None = None) -> torch.Tensor:
    """Values of elements as their type holds them; `negative`: numbers whose signs zeros keep."""
    if kind not in GRIDS:
        return values.float().to(kind)
    minus = (values if negative is None else negative) < 0
    code = values.abs().clone().apply_(GRIDS[kind].index).to(torch.uint8) + minus.to(torch.uint8) * 8
    both = code.unflatten(-1, (-1, 2))
    return (both[..., 0] + both[..., 1] * 16).contiguous().view(kind)


def unpacked(y: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The values of elements, of 4 bits from bytes."""
    if kind not in GRIDS:
        return y.cpu().double()
    held = y.cpu().view(torch.uint8)
    code = torch.stack([held % 16, held // 16], -1).flatten(-2).long()
    grid = torch.tensor(GRIDS[kind], dtype=torch.double)
    return torch.where(code >= 8, -grid[code % 8], grid[code % 8])


def made(x: torch.Tensor, axis: int, kind: torch.dtype, mode: str = "rint", size: int = 32, **scaling: float):
    """What CANN writes: elements and scales."""
    values, scales = reference(x, axis, kind, mode, size, **scaling)
    return packed(values, kind, x), pairs(scales, axis).view(torch.float8_e8m0fnu)


def powers(scales: torch.Tensor, axis: int, sizes: torch.Size) -> torch.Tensor:
    """Scales as they are kept, spread over the sizes."""
    axis %= len(sizes)
    kept = scales.view(torch.uint8).long().movedim(-1, axis + 1).flatten(axis, axis + 1)
    spread = kept.repeat_interleave(32, axis).narrow(axis, 0, sizes[axis])
    return torch.ldexp(torch.ones(sizes, dtype=torch.double), spread - 127)


def gated(
    x: torch.Tensor, dim: int, left: bool, mode: int, limit: float = 3.0, alpha: float = 1.702, bias: float = 1.0
):
    """A gate by the number of its mode."""
    a, b = (x[..., ::2], x[..., 1::2]) if mode == 1 else x.chunk(2, dim)
    if mode != 1 and not left:
        a, b = b, a
    if mode == 0:
        return torch.nn.functional.silu(a) * b
    if mode == 3:
        return torch.nn.functional.silu(a).clamp(max=limit) * b.clamp(-limit, limit)
    a = a.clamp(max=limit)
    return a * torch.sigmoid(1.702 * a) * (b.clamp(-limit, limit) + 1)


def operand(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 31) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*sizes, generator=generator) * torch.logspace(-4, 4, sizes[-1])).to(dtype)


def quantized(*sizes: int, kind: torch.dtype, axis: int = -1, seed: int = 5):
    """An operand of products: elements, scales, and their values in float64."""
    x = torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)) * 3
    values, scales = reference(x, axis, kind)
    kept = pairs(scales, axis).view(torch.float8_e8m0fnu)
    return packed(values, kind, x), kept, values * powers(kept, axis, x.shape)


def int4_words(values: torch.Tensor) -> torch.Tensor:
    """Integers from -8 to 7, eight in an int32, the first in its lowest bits."""
    parts = values.long().unflatten(-1, (-1, 8)) & 15
    word = (parts << torch.arange(0, 32, 4)).sum(-1)
    return torch.where(word >= 2**31, word - 2**32, word).to(torch.int32)


def float4_words(elements: torch.Tensor) -> torch.Tensor:
    """The bytes of 4-bit floats as float32."""
    return elements.contiguous().view(torch.uint8).view(torch.float32)


def wide_scale(scale: torch.Tensor, dtype: torch.dtype = torch.uint64) -> torch.Tensor:
    """As aclnnTransQuantParam keeps numbers: 19 bits of a float32 in the lower half of 64."""
    bits = scale.float().contiguous().view(torch.int32).long() & 0xFFFFE000
    return (bits | 1 << 46).view(dtype)


def narrow_scale(scale: torch.Tensor) -> torch.Tensor:
    """What such a scale says, float64."""
    return (scale.float().contiguous().view(torch.int32) & -0x2000).view(torch.float32).double()


def integers(*sizes: int, low: int = -8, high: int = 8, seed: int = 3) -> torch.Tensor:
    return torch.randint(low, high, sizes, generator=torch.Generator().manual_seed(seed))


def numbers(*sizes: int, seed: int = 4) -> torch.Tensor:
    """Scales: positive, of 19 bits."""
    value = torch.rand(*sizes, generator=torch.Generator().manual_seed(seed)) + 0.5
    return narrow_scale(value).float()
