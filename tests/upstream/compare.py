"""Is a device's result the CPU's? Trees of tensors, tolerances by dtype and by operator, and what is random.

A floating-point result is right if it is close to the CPU's, or if it is about as close to the result in double
precision as the CPU's is: a kernel that adds in another order, or in more precise arithmetic, is not wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.utils import _pytree as pytree


class Tolerance(NamedTuple):
    rtol: float
    atol: float


# torch.testing's, with an absolute part that fits 16-bit types: 1e-5 is below one unit in their last place.
DEFAULT = {
    torch.float16: Tolerance(1e-3, 1e-3),
    torch.bfloat16: Tolerance(1.6e-2, 1e-2),
    torch.float32: Tolerance(1.3e-6, 1e-5),
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.complex32: Tolerance(1e-3, 1e-3),
    torch.complex64: Tolerance(1.3e-6, 1e-5),
    torch.complex128: Tolerance(1e-7, 1e-7),
}
# An element may be this much farther from the exact result than the CPU's worst one.
SLACK = 2.0


# Operators whose statistics, the results after the first, have the type they are computed in: for 16-bit input the
# CPU's kernels round them to it, CUDA's and the NPU's keep float32.
WIDE_STATISTICS = {"native_batch_norm", "_batch_norm_with_update", "_native_batch_norm_legit", "native_layer_norm"}


def cotangents(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Fixed random gradients for the outputs: the same numbers on every device, whatever the seed is."""
    generator = torch.Generator().manual_seed(1)
    numbers = (torch.randn(x.shape, dtype=torch.float64, generator=generator) for x in outputs)
    return [number.to(x.dtype).to(x.device) for number, x in zip(numbers, outputs, strict=True)]


class Mismatch(Exception):
    """The results differ; the text says where."""


def tolerance(dtype: torch.dtype, decorators: tuple[object, ...] = ()) -> Tolerance:
    """The dtype's, widened by whatever the database allows this operator on any device."""
    found = DEFAULT.get(dtype, Tolerance(0.0, 0.0))
    for decorator in decorators:
        for inner in getattr(decorator, "decorators", [decorator]):
            override = getattr(inner, "d", {}).get(dtype)  # toleranceOverride: tol(atol, rtol); precisionOverride: atol
            if override is not None:
                atol, rtol = override if isinstance(override, tuple) else (override, 0.0)
                found = Tolerance(max(found.rtol, rtol), max(found.atol, atol))
    return found


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Dense, on the CPU, without lazy conjugation, in a type that can be compared (complex32 cannot)."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor


def close(actual: torch.Tensor, expected: torch.Tensor, tol: Tolerance) -> bool:
    return torch.allclose(actual, expected, rtol=tol.rtol, atol=tol.atol, equal_nan=True)


def as_exact_as(actual: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor, tol: Tolerance) -> bool:
    """Compare both with the double-precision result: not finite where either is not, elsewhere each element's error
    within SLACK times the largest of the CPU's, beside the tolerance.
    """
    wide = torch.complex128 if exact.is_complex() else torch.float64
    rounded, actual, expected, exact = (x.to(wide) for x in (exact.to(actual.dtype), actual, expected, exact))
    for reference in (rounded, expected):
        finite = reference.isfinite()
        if torch.equal(actual.isfinite(), finite) and close(actual[~finite], reference[~finite], tol):
            break
    else:
        return False
    both = finite & expected.isfinite()
    if not both.any():
        return True
    error, theirs = ((x[both] - exact[both]).abs() for x in (actual, expected))
    return bool((error <= SLACK * theirs.max() + tol.atol + tol.rtol * exact[both].abs()).all())


def describe(actual: torch.Tensor, expected: torch.Tensor) -> str:
    if actual.dtype == torch.bool:
        return f"{int((actual != expected).sum())} of {actual.numel()} elements differ"
    difference = (actual.to(torch.complex128) - expected.to(torch.complex128)).abs()
    worst = int(difference.nan_to_num(nan=torch.inf).argmax())
    return f"element {worst}: {actual.flatten()[worst].item()} instead of {expected.flatten()[worst].item()}"


def compare_tensors(
    actual: torch.Tensor,
    expected: torch.Tensor,
    exact: Callable[[], torch.Tensor | None],
    decorators: tuple[object, ...],
    values: bool = True,
) -> None:
    """Raises Mismatch. `exact` is asked only when the first comparison fails; values=False compares the form."""
    for what in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(actual, what) != getattr(expected, what):
            raise Mismatch(f"{what} {getattr(actual, what)} instead of {getattr(expected, what)}")
    if not values or actual.is_meta:
        return
    tol = tolerance(actual.dtype, decorators)
    actual, expected = plain(actual), plain(expected)
    if actual.numel() == 0 or torch.equal(actual, expected):
        return
    if not (actual.dtype.is_floating_point or actual.is_complex()):
        raise Mismatch(describe(actual, expected))
    if close(actual, expected, tol):
        return
    truth = exact()
    if truth is None or truth.shape != actual.shape or not as_exact_as(actual, expected, plain(truth), tol):
        raise Mismatch(describe(actual, expected))


def compare(
    actual: object,
    expected: object,
    *,
    device: str | None = None,
    exact: Callable[[], object] = lambda: None,
    decorators: tuple[object, ...] = (),
    values: bool = True,
) -> None:
    """Raises Mismatch unless the trees agree leaf by leaf. `device`: the device type every tensor must be on."""
    actual_leaves, actual_form = pytree.tree_flatten(actual)
    expected_leaves, expected_form = pytree.tree_flatten(expected)
    if len(actual_leaves) != len(expected_leaves):
        raise Mismatch(f"structure {actual_form} instead of {expected_form}")
    exact_leaves: list[object] | None = None

    def exact_leaf(index: int) -> torch.Tensor | None:
        nonlocal exact_leaves
        if exact_leaves is None:
            exact_leaves = pytree.tree_leaves(exact())
        leaf = exact_leaves[index] if len(exact_leaves) == len(actual_leaves) else None
        return leaf if isinstance(leaf, torch.Tensor) else None

    for index, (left, right) in enumerate(zip(actual_leaves, expected_leaves, strict=True)):
        where = f"result {index}: " if len(actual_leaves) > 1 else ""
        if isinstance(right, torch.Tensor):
            if not isinstance(left, torch.Tensor):
                raise Mismatch(f"{where}{type(left).__name__} instead of a tensor")
            if device and left.device.type != device:
                raise Mismatch(f"{where}on {left.device} instead of {device}")
            try:
                compare_tensors(left, right, lambda index=index: exact_leaf(index), decorators, values)
            except Mismatch as mismatch:
                raise Mismatch(where + str(mismatch)) from None
        elif values and isinstance(right, (float, complex)):
            pair = [torch.as_tensor(x, dtype=torch.complex128) for x in (left, right)]
            if not close(*pair, Tolerance(1e-4, 1e-4)):
                raise Mismatch(f"{where}{left} instead of {right}")
        elif values and isinstance(right, (int, str, bool, torch.Size, torch.dtype)) and left != right:
            raise Mismatch(f"{where}{left} instead of {right}")


def equal(left: object, right: object) -> bool:
    try:
        compare(left, right)
    except Mismatch:
        return False
    return True
