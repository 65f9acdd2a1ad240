"""Elementwise operators in their less used forms: in place, with a number, with a mode."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nn

from tests.opapi.cases import check_row, rand

A, B, C = rand(3, 4), rand(3, 4, seed=1), rand(3, 4, seed=2)
P, Q = A.abs() + 0.5, B.abs() + 0.5  # positive
I, J = torch.arange(12).view(3, 4) - 3, torch.arange(12).flip(0).view(3, 4) + 1  # noqa: E741
ODD = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.7, 0.0, 3.4])
AT = torch.ops.aten


def gradient(function: Callable, x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x), x, dy)[0]


# Operator → what it reads, what comes out; of an operator in place both begin with the same tensor.
ROWS = {
    "DivMods": ((A, 0.3, 1), torch.div(A, 0.3, rounding_mode="trunc")),
    "InplaceDivMod": ((A, Q, 2), torch.div(A, Q, rounding_mode="floor")),
    "InplaceDivMods": ((A, 0.3, 2), torch.div(A, 0.3, rounding_mode="floor")),
    "InplaceSubs": ((A, 1.5, 2.0), A - 3.0),
    "InplaceAddcmul": ((A, B, C, 0.5), torch.addcmul(A, B, C, value=0.5)),
    "InplaceAddcdiv": ((A, B, Q, 0.5), torch.addcdiv(A, B, Q, value=0.5)),
    "Lerp": ((A, B, C), torch.lerp(A, B, C)),
    "Lerps": ((A, B, 0.25), torch.lerp(A, B, 0.25)),
    "InplaceLerp": ((A, B, C), torch.lerp(A, B, C)),
    "InplaceLerps": ((A, B, 0.75), torch.lerp(A, B, 0.75)),
    "Digamma": ((P,), torch.digamma(P)),
    "Lgamma": ((P,), torch.lgamma(P)),
    "RoundDecimals": ((A, 1), torch.round(A, decimals=1)),
    "InplaceRoundDecimals": ((A * 100, -1), torch.round(A * 100, decimals=-1)),
    "InplaceRound": ((A * 3,), torch.round(A * 3)),
    "NanToNum": ((ODD, 1.0, 2.0, 3.0), torch.nan_to_num(ODD, 1.0, 2.0, 3.0)),
    "InplaceNanToNum": ((ODD, 1.0, 2.0, 3.0), torch.nan_to_num(ODD, 1.0, 2.0, 3.0)),
    "IsInf": ((ODD,), torch.isinf(ODD)),
    "IsFinite": ((ODD,), torch.isfinite(ODD)),
    "IsPosInf": ((ODD,), torch.isposinf(ODD)),
    "IsNegInf": ((ODD,), torch.isneginf(ODD)),
    "Signbit": ((ODD,), torch.signbit(ODD)),
    "LogicalNot": ((I,), torch.logical_not(I)),
    "InplaceLogicalNot": ((A > 0,), ~(A > 0)),
    "AngleV2": ((A,), torch.angle(A)),
    "InplaceAtan2": ((A, B), torch.atan2(A, B)),
    "InplaceFmodTensor": ((A, Q), torch.fmod(A, Q)),
    "InplaceFmodScalar": ((A, 0.3), torch.fmod(A, 0.3)),
    "FmodScalar": ((I, 4), torch.fmod(I, 4)),
    "InplaceRemainderTensorTensor": ((A, Q), torch.remainder(A, Q)),
    "InplaceRemainderTensorScalar": ((I, 4), torch.remainder(I, 4)),
    "RemainderTensorScalar": ((A, -0.3), torch.remainder(A, -0.3)),
    "RemainderScalarTensor": ((7, J), torch.remainder(7, J)),
    "XLogYScalarOther": ((A, 2.5), torch.xlogy(A, 2.5)),
    "XLogYScalarSelf": ((2.5, P), torch.xlogy(2.5, P)),
    "InplaceXLogYTensor": ((A, P), torch.xlogy(A, P)),
    "InplaceXLogYScalarOther": ((A, 2.5), torch.xlogy(A, 2.5)),
    "InplaceFloorDivide": ((A, Q), torch.floor_divide(A, Q)),
    "InplaceFloorDivides": ((I, 4), torch.floor_divide(I, 4)),
    "FloorDivides": ((I, 4), torch.floor_divide(I, 4)),
    "InplacePowTensorTensor": ((P, B), torch.pow(P, B)),
    "InplacePowTensorScalar": ((P, 1.5), torch.pow(P, 1.5)),
    "PowScalarTensor": ((2.0, A), torch.pow(2.0, A)),
    "Heaviside": ((A, B), torch.heaviside(A, B)),
    "Gcd": ((I, J), torch.gcd(I, J)),
    "LeftShift": ((J, J % 5), torch.bitwise_left_shift(J, J % 5)),
    "LeftShifts": ((J, 3), torch.bitwise_left_shift(J, 3)),
    "RightShift": ((J * 100, J % 5), torch.bitwise_right_shift(J * 100, J % 5)),
    "BitwiseAndScalar": ((I, 6), I & 6),
    "BitwiseOrScalar": ((I, 6), I | 6),
    "BitwiseXorScalar": ((I, 6), I ^ 6),
    "InplaceBitwiseAndScalar": ((I, 6), I & 6),
    "InplaceBitwiseOrScalar": ((I, 6), I | 6),
    "InplaceBitwiseXorScalar": ((I, 6), I ^ 6),
    "InplaceBitwiseAndTensor": ((I, J), I & J),
    "InplaceBitwiseOrTensor": ((I, J), I | J),
    "InplaceBitwiseXorTensor": ((I, J), I ^ J),
    "AddV3": ((2.0, A, 3.0), 2.0 + 3.0 * A),
    "AddRelu": ((A, B, 2.0), torch.relu(A + 2 * B)),
    "InplaceAddRelu": ((A, B, 2.0), torch.relu(A + 2 * B)),
    "Rsub": ((A, B, 2.0), B - 2 * A),
    "Rsubs": ((A, 5.0, 2.0), 5 - 2 * A),
    "ClampMax": ((A, 0.2), A.clamp(max=0.2)),
    "ClampMin": ((A, 0.2), A.clamp(min=0.2)),
    "InplaceClampMax": ((A, 0.2), A.clamp(max=0.2)),
    "InplaceClampMaxTensor": ((A, B), torch.minimum(A, B)),
    "InplaceClampMinTensor": ((A, B), torch.maximum(A, B)),
    "InplaceLogicalAnd": ((A > 0, B > 0), (A > 0) & (B > 0)),
    "InplaceLogicalOr": ((A > 0, B > 0), (A > 0) | (B > 0)),
    "LogicalXor": ((A > 0, B > 0), (A > 0) ^ (B > 0)),
    "LessScalar": ((A, 0.1), A < 0.1),
    "HardswishBackward": ((C, A * 4), AT.hardswish_backward(C, A * 4)),
    "HardswishBackwardV2": ((C, A * 4), AT.hardswish_backward(C, A * 4)),
    "InplaceThreshold": ((A, 0.1, 7.0), nn.threshold(A, 0.1, 7.0)),
    "InplaceLeakyRelu": ((A, 0.2), nn.leaky_relu(A, 0.2)),
    "InplaceElu": ((A, 1.5, 2.0, 0.5), AT.elu(A, 1.5, 2.0, 0.5)),
    "InplaceCelu": ((A, 1.5), nn.celu(A, 1.5)),
    "InplaceHardtanh": ((A, -0.3, 0.4), nn.hardtanh(A, -0.3, 0.4)),
    "SoftplusBackward": ((C, A, 2.0, 1.0), AT.softplus_backward(C, A, 2.0, 1.0)),
    "InplaceAdd": ((A, B, 2.0), A + 2 * B),
    "InplaceSub": ((A, B, 2.0), A - 2 * B),
    "InplaceMul": ((A, B), A * B),
    "InplaceMuls": ((A, 0.5), A / 2),
    "InplaceDiv": ((A, Q), A / Q),
    "InplaceDivs": ((A, 0.5), A * 2),
    "Addcmul": ((A, B, C, 0.5), A + 0.5 * B * C),
    "Addcdiv": ((A, B, Q, 0.5), A + 0.5 * B / Q),
    "BitwiseNot": ((I,), -I - 1),
    "Logit": ((A.sigmoid(), -1.0), A),
    "LogAddExp2": ((A, B), torch.log2(2**A + 2**B)),
    "LogicalAnd": ((A > 0, B), (A > 0) & (B != 0)),
    "LogicalOr": ((A > 0, I), (A > 0) | (I != 0)),
    "Complex": ((A, B), A + 1j * B),
    "Polar": ((P, B), P * torch.exp(1j * B)),
    "PowTensorScalar": ((P, 1.5), P * P.sqrt()),
    "SWhere": ((A > 0, B, C), torch.where(A > 0, B, C)),
    "IsClose": (
        (A, A + torch.tensor([0.0, 1e-6, 0.1, 1.0]), 0.01, 0.05, False),
        (
            (A - (A + torch.tensor([0.0, 1e-6, 0.1, 1.0]))).abs()
            <= 0.05 + 0.01 * (A + torch.tensor([0.0, 1e-6, 0.1, 1.0])).abs()
        ),
    ),
    "Clamp": ((A, -0.2, 0.3), A.clamp(-0.2, 0.3)),
    "ClampTensor": ((A, -P, Q), torch.minimum(torch.maximum(A, -P), Q)),
    "ClampMinTensor": ((A, B), torch.maximum(A, B)),
    "ClampMaxTensor": ((A, B), torch.minimum(A, B)),
    "Equal": ((A, A.clone()), torch.tensor([True])),
    "HardsigmoidBackward": ((C, A * 4), gradient(nn.hardsigmoid, A * 4, C)),
    "SiluBackward": ((C, A), gradient(nn.silu, A, C)),
    "MishBackward": ((C, A), gradient(nn.mish, A, C)),
    "SigmoidBackward": ((C, A.sigmoid()), gradient(torch.sigmoid, A, C)),
    "TanhBackward": ((C, A.tanh()), gradient(torch.tanh, A, C)),
    "LeakyReluBackward": ((C, A, 0.2, False), gradient(functools.partial(nn.leaky_relu, negative_slope=0.2), A, C)),
    "EluBackward": ((C, 1.5, 1.0, 1.0, False, A), gradient(functools.partial(nn.elu, alpha=1.5), A, C)),
    "GeluBackward": ((C, A), gradient(nn.gelu, A, C)),
    "HardshrinkBackward": ((C, A, 0.3), gradient(functools.partial(nn.hardshrink, lambd=0.3), A, C)),
    "SoftshrinkBackward": ((C, A, 0.3), gradient(functools.partial(nn.softshrink, lambd=0.3), A, C)),
    "HardtanhBackward": ((C, A, -0.3, 0.4), gradient(functools.partial(nn.hardtanh, min_val=-0.3, max_val=0.4), A, C)),
    "LogSigmoidBackward": ((C, A, torch.empty(0)), gradient(nn.logsigmoid, A, C)),
    "Glu": ((A, 1), A[:, :2] * A[:, 2:].sigmoid()),
    "GluBackward": ((C[:, :2].contiguous(), A, 1), gradient(functools.partial(nn.glu, dim=1), A, C[:, :2])),
    "MaskedScale": ((A, (B > 0).to(torch.uint8), 2.5), A * (B > 0) * 2.5),
}


@pytest.mark.parametrize("name", ROWS)
def test_row(npu, name):
    inputs, result = ROWS[name]
    check_row(npu, "aclnn" + name, inputs, (result,))


def test_log_sigmoid_leaves_its_buffer_alone(npu):
    y = npu.call("aclnnLogSigmoidForward", self=A, out=torch.zeros(3, 4), buffer=torch.zeros(0))["out"]
    torch.testing.assert_close(y, nn.logsigmoid(A))


@pytest.mark.parametrize("eps", [-1.0, 0.2])
def test_the_gradient_of_logit_inside_its_bounds(npu, eps):
    x = A.sigmoid()
    wanted = gradient(functools.partial(torch.logit, eps=None if eps < 0 else eps), x, C)
    check_row(npu, "aclnnLogitGrad", (x, C, eps), (wanted,))


def test_tensors_of_other_shapes_are_not_equal(npu):
    for other, same in ((A.clone(), True), (A + 1, False), (A[:2].contiguous(), False)):
        out = npu.call("aclnnEqual", self=A, other=other, out=torch.tensor([not same]))["out"]
        assert out.tolist() == [same]


@pytest.mark.parametrize("kind", ["Tensor", "Scalar"])
@pytest.mark.parametrize("name", ["Eq", "Ne", "Ge", "Gt", "Le", "Lt"])
def test_comparison_in_place_keeps_the_type(npu, name, kind):
    a, other = torch.arange(12.0).view(3, 4), torch.full((3, 4), 5.0)
    expected = getattr(torch, name.lower())(a, other).float()
    check_row(npu, f"aclnnInplace{name}{kind}", (a, other if kind == "Tensor" else 5.0), (expected,))


def test_fast_gelu_and_its_gradient(npu):
    """x sigmoid(1.702 x), as the vendor's operator approximates it."""
    x = A.clone().requires_grad_()
    y = x.abs().mul(-1.702).exp().add(1).reciprocal() * x * (0.851 * (x - x.abs())).exp()
    check_row(npu, "aclnnFastGelu", (A,), (y.detach(),))
    torch.testing.assert_close(y, x * torch.sigmoid(1.702 * x))
    (dx,) = torch.autograd.grad(y, x, C)
    check_row(npu, "aclnnFastGeluBackward", (C, A), (dx,))


def test_the_gradient_of_a_slope_drawn_in_place(npu):
    got = npu.call("aclnnInplaceRReluWithNoise", self=A, noise=torch.zeros(3, 4), lower=0.1, upper=0.3, training=True,
                   seed=3, offset=0)  # fmt: skip
    assert ((got["noise"] == 1) == (A > 0)).all() and (got["noise"][A <= 0] < 0.3).all()
    torch.testing.assert_close(got["self"], A * got["noise"])
