"""Operators over lists of tensors, by family: unary, with a number, with a number each, with another list."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import check_row, rand


def tensors(seed: int) -> list[torch.Tensor]:
    return [rand(3, 4, seed=seed), rand(7, seed=seed), rand(1, seed=seed)]


A, B, C = tensors(0), tensors(1), [t.abs() + 0.5 for t in tensors(2)]
SMALL = [t.tanh() * 0.9 for t in A]
NUMBERS = [0.5, -1.5, 2.0]
ONE = torch.tensor([0.75])
EACH = torch.tensor(NUMBERS)

UNARY = {
    "Acos": SMALL, "Asin": SMALL, "Atan": A, "Cosh": A, "Erfc": A, "Expm1": A, "Log10": C, "Log1p": C, "Log2": C,
    "Sign": A, "Sin": A, "Sinh": A, "Tan": SMALL,
}  # fmt: skip

ROWS = {
    "AddScalar": ((A, ONE), torch._foreach_add(A, 0.75)),
    "AddScalarV2": ((A, 0.75), torch._foreach_add(A, 0.75)),
    "AddScalarList": ((A, NUMBERS), torch._foreach_add(A, NUMBERS)),
    "SubScalar": ((A, ONE), torch._foreach_sub(A, 0.75)),
    "SubScalarV2": ((A, 0.75), torch._foreach_sub(A, 0.75)),
    "SubList": ((A, B, ONE), torch._foreach_sub(A, B, alpha=0.75)),
    "SubListV2": ((A, B, 0.75), torch._foreach_sub(A, B, alpha=0.75)),
    "MulScalarList": ((A, NUMBERS), torch._foreach_mul(A, NUMBERS)),
    "DivScalar": ((A, ONE), torch._foreach_div(A, 0.75)),
    "DivScalarV2": ((A, 0.75), torch._foreach_div(A, 0.75)),
    "DivScalarList": ((A, NUMBERS), torch._foreach_div(A, NUMBERS)),
    "MaximumScalar": ((A, ONE), torch._foreach_clamp_min(A, 0.75)),
    "MaximumScalarV2": ((A, 0.75), torch._foreach_clamp_min(A, 0.75)),
    "MaximumScalarList": ((A, NUMBERS), torch._foreach_clamp_min(A, NUMBERS)),
    "MinimumScalar": ((A, ONE), torch._foreach_clamp_max(A, 0.75)),
    "MinimumScalarV2": ((A, 0.75), torch._foreach_clamp_max(A, 0.75)),
    "MinimumScalarList": ((A, NUMBERS), torch._foreach_clamp_max(A, NUMBERS)),
    "MinimumList": ((A, B), torch._foreach_minimum(A, B)),
    "PowScalar": ((C, ONE), torch._foreach_pow(C, 0.75)),
    "PowScalarV2": ((C, 0.75), torch._foreach_pow(C, 0.75)),
    "PowScalarList": ((C, NUMBERS), torch._foreach_pow(C, NUMBERS)),
    "PowList": ((C, A), torch._foreach_pow(C, A)),
    "LerpList": ((A, B, C), torch._foreach_lerp(A, B, C)),
    "AddcdivScalar": ((A, B, C, ONE), torch._foreach_addcdiv(A, B, C, 0.75)),
    "AddcdivScalarList": ((A, B, C, EACH), torch._foreach_addcdiv(A, B, C, NUMBERS)),
    "AddcdivList": ((A, B, C, EACH), torch._foreach_addcdiv(A, B, C, NUMBERS)),
    "AddcmulScalar": ((A, B, C, ONE), torch._foreach_addcmul(A, B, C, 0.75)),
    "AddcmulScalarV2": ((A, B, C, 0.75), torch._foreach_addcmul(A, B, C, 0.75)),
    "AddcmulList": ((A, B, C, EACH), torch._foreach_addcmul(A, B, C, NUMBERS)),
    "RoundOffNumber": ((A, torch.tensor([2], dtype=torch.int8)), torch._foreach_floor(A)),
    "RoundOffNumberV2": ((A, 3), torch._foreach_ceil(A)),
    "ZeroInplace": ((A,), [torch.zeros_like(t) for t in A]),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(npu, name):
    x = UNARY[name]
    check_row(npu, "aclnnForeach" + name, (x,), ([getattr(torch, name.lower())(t) for t in x],))


@pytest.mark.parametrize("name", ROWS)
def test_row(npu, name):
    inputs, result = ROWS[name]
    check_row(npu, "aclnnForeach" + name, inputs, (result,))


def test_fused_sgd(npu):
    """Two steps against the optimizer: the first makes the momentum buffers."""
    params = [t.clone().requires_grad_() for t in A]
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, foreach=False)
    mine, buffers = [t.clone() for t in A], [torch.zeros_like(t) for t in A]
    for first in (True, False):
        for p, g in zip(params, B, strict=True):
            p.grad = g.clone()
        optimizer.step()
        got = npu.call("aclnnFusedSgd", paramsRef=mine, gradsRef=B, momentumBufferListOptionalRef=buffers,
                       gradScaleOptional=None, weightDecay=0.01, momentum=0.9, lr=0.1, dampening=0.1, nesterov=False,
                       maximize=False, isFirstStep=first)  # fmt: skip
        mine, buffers = got["paramsRef"], got["momentumBufferListOptionalRef"]
    for p, q in zip(mine, params, strict=True):
        torch.testing.assert_close(p, q.detach())
