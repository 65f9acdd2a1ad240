"""How DTensor shards the NPU's own operators: npu_rms_norm, npu_swiglu and npu_rotary_mul, and their gradients.

Each row of a dimension that the operator computes by itself may lie on another rank; the other dimensions are gathered
first. A gradient that is a sum over such rows is partial. Other operators have no strategy: call them on local tensors
(docs/distributed.md). Registered once, when torch.distributed.tensor is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

# One way to place results and arguments on a dimension of the mesh.
_Way = tuple[list[Any], list[Any]]


def _ways(results: int, arguments: int, dims: Iterable[int], way: Callable[[int], _Way]) -> list[_Way]:
    """Everything on each rank, or a dimension of the input sharded."""
    return [([Replicate()] * results, [Replicate()] * arguments), *map(way, dims)]


def _rms_norm(x: Any, gamma: Any, epsilon: float = 0.0) -> list[_Way]:
    return _ways(2, 2, range(x.ndim - gamma.ndim), lambda d: ([Shard(d), Shard(d)], [Shard(d), Replicate()]))


def _rms_norm_backward(dy: Any, x: Any, gamma: Any, rstd: Any) -> list[_Way]:
    rows = range(x.ndim - gamma.ndim)
    return _ways(2, 4, rows, lambda d: ([Shard(d), Partial()], [Shard(d), Shard(d), Replicate(), Shard(d)]))


def _others(x: Any, dim: int) -> list[int]:
    return [d for d in range(x.ndim) if d != dim % x.ndim]


def _swiglu(x: Any, dim: int = -1) -> list[_Way]:
    return _ways(1, 1, _others(x, dim), lambda d: ([Shard(d)], [Shard(d)]))


def _swiglu_backward(dy: Any, x: Any, dim: int = -1) -> list[_Way]:
    return _ways(1, 2, _others(x, dim), lambda d: ([Shard(d)], [Shard(d), Shard(d)]))


def _of_angles(x: Any, r: Any, d: int, repeated: Any) -> Any:
    """Cosines and sines have x's size in a dimension, and are sharded with it, or one for all: `repeated`."""
    return Shard(d) if r.shape[d] == x.shape[d] else repeated


def _rotary_mul(x: Any, r1: Any, r2: Any, rotary_mode: str = "half", rotate: Any = None) -> list[_Way]:
    def way(d: int) -> _Way:
        angles = [_of_angles(x, r, d, Replicate()) for r in (r1, r2)]
        return [Shard(d)], [Shard(d), *angles, Replicate()][:arguments]

    arguments = 3 if rotate is None else 4
    return _ways(1, arguments, _others(x, -1), way)


def _rotary_mul_backward(dy: Any, x: Any, r1: Any, r2: Any, rotary_mode: str = "half") -> list[_Way]:
    def way(d: int) -> _Way:
        angles, sums = ([_of_angles(x, r, d, one) for r in (r1, r2)] for one in (Replicate(), Partial()))
        return [Shard(d), *sums], [Shard(d), Shard(d), *angles]

    return _ways(3, 4, _others(x, -1), way)


def register() -> None:
    for ways in (_rms_norm, _rms_norm_backward, _swiglu, _swiglu_backward, _rotary_mul, _rotary_mul_backward):
        register_sharding(getattr(torch.ops.npu, f"npu{ways.__name__}").default)(ways)
