"""What the other programs share."""

from __future__ import annotations

import ctypes

import numpy as np

from tests.hccl.ranks import Rank


def u64(values) -> ctypes.Array:
    return (ctypes.c_uint64 * len(values))(*values)


def expect(label: str, got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; NaNs may differ among themselves."""
    if got.tobytes() == want.tobytes():
        return
    same = (got == want) | ((got != got) & (want != want))
    if not same.all():
        at = int(np.flatnonzero(~same.ravel())[0])
        raise AssertionError(
            f"{label}: element {at} is {got.ravel()[at]}, not {want.ravel()[at]} "
            f"({(~same).sum()} of {same.size} differ)"
        )


def call(rank: Rank, name: str, *args, comm=None, stream=None) -> None:
    converted = [ctypes.c_uint64(a) if type(a) is int and a > 0x7FFFFFFF else a for a in args]
    rank.hccl(name, *converted, comm or rank.comm, stream or rank.stream)


def count_of(n: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(n)
