"""Operators that PyTorch's CPU library has not in 16 bits and CANN's documentation has: as in fp32, rounded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

LABELS = torch.tensor([[1, 2, 2], [3, 1, 4]])
LENGTHS = torch.tensor([6, 5]), torch.tensor([3, 2])


def resized(mode: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x, size=(5, 4), mode=mode, antialias=True)


def ctc(reduction: str, lengths: Callable = lambda t: t) -> Callable[[torch.Tensor], torch.Tensor]:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(x.log_softmax(2), LABELS.to(x.device), *map(lengths, LENGTHS), reduction=reduction)

    return loss


def narrow(mode: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """To a width of 1, which the CPU computes wrong of channels_last."""

    def call(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous(memory_format=torch.channels_last) if x.device.type == "npu" else x
        return F.interpolate(x, size=(9, 1), mode=mode, antialias=True)

    return call


# The call, the sizes of its operand, and how far sums of rounded terms may be away.
CALLS = {
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, stride=1, padding=1), (2, 3, 4, 5, 6), 1),
    "bicubic": (resized("bicubic"), (2, 3, 9, 8), 1),
    "bilinear": (resized("bilinear"), (2, 3, 9, 8), 1),
    "cdist": (lambda x: torch.cdist(x, x.flip(0) + 1), (5, 7), 4),
    "cdist, another norm": (lambda x: torch.cdist(x, x.flip(0) + 1, p=3.0), (5, 7), 4),
    "bicubic, channels_last": (narrow("bicubic"), (2, 3, 4, 5), 1),
    "bilinear, channels_last": (narrow("bilinear"), (2, 3, 4, 5), 1),
    "cdist, largest difference": (lambda x: torch.cdist(x, x.flip(0) + 1, p=float("inf")), (30, 5), 4),
    "ctc_loss": (ctc("none"), (6, 2, 5), 8),
    "ctc_loss, mean": (ctc("mean"), (6, 2, 5), 8),
    "ctc_loss, mean, lengths in lists": (ctc("mean", torch.Tensor.tolist), (6, 2, 5), 8),
    "pdist": (F.pdist, (5, 7), 1),
    "qr, Q": (lambda x: torch.linalg.qr(x)[0], (2, 5, 3), 8),
    "qr, R": (lambda x: torch.linalg.qr(x)[1], (2, 5, 3), 8),
    "solve_triangular": (
        lambda x: torch.linalg.solve_triangular(
            x.tanh() / 4 + torch.eye(4, dtype=x.dtype, device=x.device), x, upper=True
        ),
        (4, 4),
        8,
    ),
}


def test_distances_from_no_rows_have_a_gradient_of_zeros() -> None:
    x = torch.ones(4, 3, dtype=torch.float16, device="npu", requires_grad=True)
    torch.cdist(x, torch.ones(2, 0, 3, dtype=torch.float16, device="npu")).sum().backward()
    assert x.grad.tolist() == torch.zeros(4, 3).tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    call, sizes, roundings = CALLS[name]
    given = torch.randn(sizes, generator=torch.Generator().manual_seed(1)).to(dtype)
    leaf, x = given.float().requires_grad_(), given.npu().requires_grad_()
    expected, found = call(leaf), call(x)
    assert found.dtype == dtype
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    limit = roundings * torch.finfo(dtype).eps
    torch.testing.assert_close(found.float().cpu(), expected.detach(), rtol=limit, atol=limit)
    expected.backward(weights.float())
    found.backward(weights.npu())
    assert x.grad is not None and x.grad.dtype == dtype
    limit = 4 * roundings * torch.finfo(dtype).eps
    torch.testing.assert_close(x.grad.float().cpu(), leaf.grad, rtol=limit, atol=limit * leaf.grad.abs().max().item())


def test_only_sixteen_bits_are_solved_in_another_type() -> None:
    a = torch.eye(3, dtype=torch.int64, device="npu")
    with pytest.raises(RuntimeError, match="int64"):
        torch.linalg.solve_triangular(a, a, upper=True)
