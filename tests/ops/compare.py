"""Run a function on the CPU and on npu and compare values, dtypes and shapes. The CPU is the judge.

check(torch.add, a, b)            tensors among the arguments are moved; both results must agree
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def to_npu(value: Any) -> Any:
    """The same tree with every tensor on npu: strides and aliases between its tensors' objects are kept."""
    moved: dict[int, torch.Tensor] = {}

    def move(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if id(x) not in moved:
            npu = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="npu") if dense(x) else None
            moved[id(x)] = npu.copy_(x.detach()) if npu is not None else restride(x)
            moved[id(x)].requires_grad_(x.requires_grad)
        return moved[id(x)]

    return pytree.tree_map(move, value)


def dense(x: torch.Tensor) -> bool:
    """No holes and no overlap: empty_strided can have these strides."""
    return x.numel() == 0 or sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) + 1 == x.numel()


def restride(x: torch.Tensor) -> torch.Tensor:
    """A view with the same strides and offset over a copy of the whole storage."""
    base = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).to("npu")
    return base.as_strided(x.size(), x.stride(), x.storage_offset())


def assert_same(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None) -> None:
    got, want = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    assert len(got) == len(want)
    for a, e in zip(got, want, strict=True):
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        assert a.dtype == e.dtype, f"dtype {a.dtype}, the CPU has {e.dtype}"
        assert a.shape == e.shape, f"shape {tuple(a.shape)}, the CPU has {tuple(e.shape)}"
        assert a.device.type == "npu", f"the result is on {a.device}"
        relative, absolute = TOLERANCE.get(e.dtype, (0.0, 0.0))
        torch.testing.assert_close(
            a.detach().cpu(),
            e.detach(),
            rtol=relative if rtol is None else rtol,
            atol=absolute if atol is None else atol,
            equal_nan=True,
        )


def check(function: Callable, *args: Any, rtol: float | None = None, atol: float | None = None, **kwargs: Any) -> Any:
    """`function` must give the same on both devices, and write the same into its arguments. Returns the npu result."""
    npu_args, npu_kwargs = to_npu(args), to_npu(kwargs)
    expected = function(*args, **kwargs)
    actual = function(*npu_args, **npu_kwargs)
    assert_same(actual, expected, rtol, atol)
    assert_same((npu_args, npu_kwargs), (args, kwargs), rtol, atol)
    return actual


def check_grad(
    function: Callable, *args: Any, rtol: float | None = None, atol: float | None = None, **kwargs: Any
) -> None:
    """The same for the result and the gradients of every argument that requires one."""
    npu_args, npu_kwargs = to_npu(args), to_npu(kwargs)
    expected, actual = function(*args, **kwargs), function(*npu_args, **npu_kwargs)
    assert_same(actual, expected, rtol, atol)
    wanted = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor) and x.requires_grad]
    got = [x for x in pytree.tree_leaves(npu_args) if isinstance(x, torch.Tensor) and x.requires_grad]
    outputs = [x for x in pytree.tree_leaves(expected) if isinstance(x, torch.Tensor) and x.requires_grad]
    npu_outputs = [x for x in pytree.tree_leaves(actual) if isinstance(x, torch.Tensor) and x.requires_grad]
    torch.manual_seed(7)
    seeds = [torch.randn_like(x) for x in outputs]
    expected_grads = torch.autograd.grad(outputs, wanted, seeds)
    actual_grads = torch.autograd.grad(npu_outputs, got, to_npu(seeds))
    assert_same(actual_grads, expected_grads, rtol, atol)
