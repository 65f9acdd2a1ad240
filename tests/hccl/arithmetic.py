"""What a reduction must give, bit for bit: inputs in rank order, 16-bit floats added up in fp32 and rounded once,
integers wrap.
"""

from __future__ import annotations

import zlib

import numpy as np

from tests.hccl.ranks import numpy_type

COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def widen(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype == "fp16" else array


def narrow(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        bits = array.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return array.astype(numpy_type(dtype))


def reduced(inputs: list[np.ndarray], dtype: str, op: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        total = widen(inputs[0], dtype)
        for one in inputs[1:]:
            total = COMBINE[op](total, widen(one, dtype))
        return narrow(total, dtype)


def data(rank: int, size: int, dtype: str, seed: str = "") -> np.ndarray:
    """The same for everybody who asks: rank r's input of `size` elements."""
    random = np.random.default_rng(zlib.crc32(f"{seed}/{dtype}/{rank}/{size}".encode()))
    kind = numpy_type(dtype)
    if dtype == "bf16" or kind.kind == "f":
        return narrow(random.standard_normal(size).astype(np.float32), dtype)
    return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, size, dtype=kind, endpoint=True)
