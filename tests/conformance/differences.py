"""Where the vendor's torch_npu differs from CPU PyTorch by its own doing: what it asks our libraries for in each case.

    ANYCEND_CALL_LOG=<file> python -m tests.conformance.differences

One JSON line a case: {"case", "result", "calls"}.

A result is the types and shapes of the tensors, None for a gradient that is not there, or the error's first line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import torch
from torch.nn import functional as F

from tests.conformance.ending import settle

CASES: dict[str, Callable[[], object]] = {}


def case(function: Callable[[], object]) -> Callable[[], object]:
    CASES[function.__name__] = function
    return function


def x(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).npu()


def statistics() -> tuple[torch.Tensor, ...]:
    return tuple(torch.ones(2).npu() for _ in range(4))


@case
def double() -> object:
    return x(4).double()


@case
def float_power() -> object:
    return torch.float_power(x(4), 3.0)


@case
def max_pool1d() -> object:
    return F.max_pool1d(x(1, 1, 6), 2, return_indices=True)


@case
def max_pool2d() -> object:
    return F.max_pool2d(x(1, 1, 6, 6), 2, return_indices=True)


@case
def max_pool3d() -> object:
    return F.max_pool3d(x(1, 1, 2, 6, 6), 2, return_indices=True)


@case
def adaptive_max_pool3d() -> object:
    return F.adaptive_max_pool3d(x(1, 1, 4, 4, 4), 2, return_indices=True)


@case
def gelu_tanh() -> object:
    return F.gelu(x(4), approximate="tanh")


@case
def logit_of_bool() -> object:
    return torch.logit(x(4) > 0.5)


@case
def logit_of_int64() -> object:
    return torch.logit(x(4).long())


@case
def dropout_backward_scale_1() -> object:
    """The mask is all zero, so a right gradient is zero."""
    gradient = x(4) + 1
    result = torch.ops.aten.native_dropout_backward(gradient, torch.zeros(4, dtype=torch.bool).npu(), 1.0)
    assert torch.equal(result, gradient)
    return result


@case
def dropout_backward_of_int64() -> object:
    return torch.ops.aten.native_dropout_backward(x(4).long(), x(4) > 0.5, 1.0)


@case
def batch_norm_without_training() -> object:
    return torch.native_batch_norm(x(1, 2, 3, 3), *statistics(), False, 0.1, 1e-5)


@case
def binary_cross_entropy_with_logits() -> object:
    logits, target = x(4).requires_grad_(), x(4).requires_grad_()
    return torch.autograd.grad(F.binary_cross_entropy_with_logits(logits, target), (logits, target), allow_unused=True)


@case
def to_channels_last() -> object:
    return x(1, 2, 3, 3).to(memory_format=torch.channels_last)


@case
def sparse_mm_reduce() -> object:
    return torch.sparse.mm(torch.eye(4).to_sparse_csr().npu(), x(4, 4), "sum")


@case
def sparse_sampled_addmm() -> object:
    return torch.sparse.sampled_addmm(torch.eye(4).to_sparse_csr().npu(), x(4, 4), x(4, 4))


@case
def cdist_gradient() -> object:
    a = x(4, 3).requires_grad_()
    return torch.autograd.grad(torch.cdist(a, x(5, 3) + 1, 1.0), a, x(4, 5))


@case
def ciou_of_pairs() -> object:
    return torch.ops.npu.npu_ciou(x(4, 3), x(4, 5))


def described(result: object) -> str:
    values = result if isinstance(result, tuple) else (result,)
    return ", ".join("None" if v is None else f"{v.dtype} {list(v.shape)}".replace("torch.", "") for v in values)


def main() -> None:
    import torch_npu  # noqa: F401

    log = os.environ["ANYCEND_CALL_LOG"]
    for name, function in CASES.items():
        start = os.path.getsize(log) if os.path.exists(log) else 0
        try:
            result = described(function())
        except Exception as error:
            result = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        calls = []
        if os.path.exists(log):
            with open(log, encoding="utf-8") as lines:
                lines.seek(start)
                calls = lines.read().splitlines()
        print("RESULT " + json.dumps({"case": name, "result": result, "calls": calls}), flush=True)
    settle()


if __name__ == "__main__":
    sys.exit(main())
