"""One operator of torch.ops.npu against a formula written from its page in fp64: values, gradients, strided operands,
and the meta kernel's sizes, dtypes and strides. A reference returns a tensor or a tuple of the
first results; None in it is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

FLOATING = (torch.float32, torch.float16, torch.bfloat16)
TOLERANCE = {torch.float64: 1e-5, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def each(value: Any, f: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, (list, tuple)):
        return type(value)(each(v, f) for v in value)
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    each(value, found.append)
    return found


def as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def strided(t: torch.Tensor) -> torch.Tensor:
    """The same values with gaps between them, and the first two dimensions exchanged in memory."""
    if t.dim() == 0:
        return t
    wide = torch.empty(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype, device=t.device)[..., ::2]
    wide = wide.transpose(0, 1).contiguous().transpose(0, 1) if t.dim() > 1 else wide
    return wide.copy_(t)


def assert_close(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, what: str) -> None:
    assert got.shape == expected.shape, f"{what}: {tuple(got.shape)}, expected {tuple(expected.shape)}"
    if not got.numel():
        return
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        assert torch.equal(got.cpu().to(expected.dtype), expected), what
        return
    wide, limit = got.detach().cpu().double(), TOLERANCE[dtype]
    # Of sums of many terms the error goes with the largest of them, so that a tenth of the limit is taken of the scale.
    scale = max(1.0, expected.abs().max().item())
    excess = ((wide - expected).abs() - limit * (expected.abs() + max(1.0, 0.1 * scale))).max().item()
    assert excess <= 0, f"{what} in {dtype}: off by {excess} more than allowed, values up to {scale}"


def check(
    op: Any,
    reference: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    dtypes: Sequence[torch.dtype] = FLOATING,
    gradient: bool = True,
    layouts: Sequence[Callable[[torch.Tensor], torch.Tensor]] = (lambda t: t, strided),
) -> None:
    kwargs = kwargs or {}
    for dtype in dtypes:
        cast = lambda t, dtype=dtype: t.to(dtype) if t.is_floating_point() else t
        given = each([list(args), *kwargs.values()], cast)
        for layout in layouts:
            compare(op, reference, given, list(kwargs), dtype, gradient, layout)
    check_meta(
        op, each([list(args), *kwargs.values()], lambda t: t.to(dtypes[0]) if t.is_floating_point() else t), kwargs
    )


def compare(op: Any, reference: Any, given: list, names: list[str], dtype: Any, gradient: bool, layout: Any) -> None:
    name = str(op)

    def prepare(t: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        moved = move(t).detach()
        return moved.requires_grad_(gradient and t.is_floating_point())

    ours = each(given, lambda t: prepare(t, lambda t: layout(t.npu())))
    theirs = each(given, lambda t: prepare(t, lambda t: t.double() if t.is_floating_point() else t))
    got = as_tuple(op(*ours[0], **dict(zip(names, ours[1:], strict=True))))
    expected = as_tuple(reference(*theirs[0], **dict(zip(names, theirs[1:], strict=True))))
    assert len(got) >= len(expected), f"{name}: {len(got)} results, expected {len(expected)}"
    for i, (g, e) in enumerate(zip(got, expected, strict=False)):
        if e is not None:
            assert g.dtype.is_floating_point == e.dtype.is_floating_point, f"{name}: result {i} is {g.dtype}"
            assert_close(g, e, dtype, f"{name}: result {i}")
    if not gradient:
        return
    torch.manual_seed(5)
    pairs = [(g, e) for g, e in zip(got, expected, strict=False) if e is not None and g.requires_grad]
    assert pairs, f"{name} has no gradient"
    weights = [torch.randn(e.shape, dtype=torch.float64) for _, e in pairs]
    torch.autograd.backward(
        [g for g, _ in pairs], [w.to(g.dtype).npu() for w, (g, _) in zip(weights, pairs, strict=True)]
    )
    rounded = [w.to(g.dtype).double() for w, (g, _) in zip(weights, pairs, strict=True)]
    torch.autograd.backward([e for _, e in pairs], rounded)
    for i, (g, e) in enumerate(zip(tensors(ours), tensors(theirs), strict=True)):
        if e.grad is None:
            assert g.grad is None or not g.grad.any(), f"{name}: operand {i} has a gradient"
            continue
        assert g.grad is not None, f"{name}: operand {i} has no gradient"
        assert g.grad.dtype == g.dtype
        assert_close(g.grad, e.grad, dtype, f"{name}: gradient of operand {i}")


def check_meta(op: Any, given: list, kwargs: dict[str, Any]) -> None:
    """The meta kernel describes what the device returns."""
    on = lambda device: each(given, lambda t: t.to(device))
    for first, second in zip(
        *(as_tuple(op(*g[0], **dict(zip(kwargs, g[1:], strict=True)))) for g in (on("npu"), on("meta"))), strict=True
    ):
        if isinstance(first, torch.Tensor):
            assert (first.shape, first.dtype, first.stride()) == (second.shape, second.dtype, second.stride()), str(op)
