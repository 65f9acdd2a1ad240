"""Data types that the CPU has no kernel for: the npu computes them or refuses them at the call, never in the stream,
where an operator that comes later would report it. What it is not: wrong arguments of types that there are (errors.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch

from tests.upstream import errors, transfer
from tests.upstream.compare import Mismatch
from tests.upstream.forms import Arguments

TYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.complex32),
    *(torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32),
    *(torch.uint64, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e8m0fnu),
)


def samples(op: object, dtype: torch.dtype, count: int) -> Iterator[Arguments]:
    """The database's, or those of a type that it has, converted, where it cannot make them."""
    try:
        made = list(islice(op.sample_inputs("cpu", dtype), count))
    except Exception:
        known = op.supported_dtypes("cpu") or op.supported_dtypes("cuda")  # an entry of CUDA's alone has none here
        had = min(known, key=lambda one: (one != torch.float32, str(one)))
        try:
            made = list(islice(op.sample_inputs("cpu", had), count))
        except Exception:  # nor of any type: nothing to call the operator with
            return

        def converted(x: object) -> object:
            return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == had else x

        made = [sample.transform(converted) for sample in made]
    for sample in made:
        yield (sample.input, sample.args, sample.kwargs)


def judge(run: object, arguments: Arguments, device: str) -> bool:
    """Whether the CPU refuses the arguments; Mismatch if the device's refusal comes after the call."""
    if errors.raised(run, transfer.unchanged()(arguments)) is None:
        return False
    moved = transfer.to_device(device)(arguments)
    errors.raised(run, moved)
    try:
        errors.synchronize(device)
    except Exception as late:
        raise Mismatch(f"fails after the call: {str(late)[:200]}") from late
    return True


def late(op: object, types: tuple[torch.dtype, ...], count: int, device: str) -> tuple[int, list[str]]:
    """How often the CPU refused, and what failed after the call."""
    refused, found = 0, []
    for dtype in types:
        if dtype in op.supported_dtypes("cpu"):
            continue
        for arguments in samples(op, dtype, count):
            for run in filter(None, (op.op, op.inplace_variant)):
                try:
                    refused += judge(run, arguments, device)
                except Mismatch as mismatch:
                    found.append(f"{op.name}[{dtype}] {mismatch}")
    return refused, found
