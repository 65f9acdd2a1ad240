"""A case: an operator, its inputs, and what PyTorch's CPU computes for each output."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.client import CODES, PAIRS, AclError, Client

BYTES = (*PAIRS, CODES, torch.float8_e8m0fnu)  # types that torch fills and compares as bytes
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
NEAR = {
    torch.float64: {"rtol": 1e-6, "atol": 1e-6},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float16: {"rtol": 5e-3, "atol": 5e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}


def garbage(like: torch.Tensor) -> torch.Tensor:
    """A buffer of that shape and type whose values no operator would compute."""
    if like.dtype in BYTES:
        return torch.full(like.shape, 77, dtype=torch.uint8).view(like.dtype)
    return (
        torch.full(like.shape, 77, dtype=like.dtype)
        if like.dtype != torch.bool
        else torch.ones(like.shape, dtype=torch.bool)
    )


def called_with(npu: Client, op: str, inputs: dict, outputs: dict) -> dict:
    """All arguments, with garbage in the outputs. Parameters not named are null, 0 or False."""
    arguments = {}
    for p in npu.signatures[op]:
        if p.name in inputs:
            arguments[p.name] = inputs[p.name]
        elif p.name in outputs:
            value = outputs[p.name]
            arguments[p.name] = [garbage(t) for t in value] if isinstance(value, list | tuple) else garbage(value)
        else:
            arguments[p.name] = None if "*" in p.type else 0
    return arguments


def refused(npu: Client, op: str, inputs: dict, outputs: dict, words: str) -> None:
    """By phase one, with 161002 and these words."""
    with pytest.raises(AclError, match=words) as error:
        npu.prepare(op, **called_with(npu, op, inputs, outputs))
    assert error.value.status == 161002


def compare(
    npu: Client, op: str, inputs: dict, outputs: dict, *, rtol: float | None = None, atol: float | None = None
) -> dict:
    """Call with garbage in the outputs and compare each."""
    results = npu.call(op, **called_with(npu, op, inputs, outputs))
    for name, expected in outputs.items():
        if isinstance(expected, list | tuple):
            assert len(results[name]) == len(expected)
            for got, want in zip(results[name], expected, strict=True):
                torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
        elif expected.dtype in BYTES:
            assert torch.equal(results[name].view(torch.uint8), expected.view(torch.uint8)), name
        else:
            torch.testing.assert_close(results[name], expected, rtol=rtol, atol=atol, equal_nan=True)
    return results


def rand(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def wide(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """As leaves in float64."""
    return [t.double().requires_grad_() for t in tensors]


def check_row(npu: Client, op: str, inputs: tuple, expected: tuple, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Inputs and results by position: what the operator reads or changes, and what it changes or writes."""
    given, wanted, arguments = iter(inputs), iter(expected), {}
    params = npu.signatures[op]
    results = {p.name: next(wanted) for p in params if p.way != "in"}
    for p in params:
        if p.way != "out":
            arguments[p.name] = next(given)
        else:
            value = results[p.name]
            arguments[p.name] = [garbage(t) for t in value] if isinstance(value, list | tuple) else garbage(value)
    assert next(given, None) is None and next(wanted, None) is None
    found = npu.call(op, **arguments)
    for name, want in results.items():
        if isinstance(want, list | tuple):
            want = list(want)
        torch.testing.assert_close(found[name], want, rtol=rtol, atol=atol, equal_nan=True)
