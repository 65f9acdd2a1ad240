"""Optimizer steps, loss scaling and operators over lists against CPU PyTorch."""

from __future__ import annotations

import math

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand

UNARY = ["Abs", "Exp", "Sqrt", "Neg", "Tanh", "Sigmoid", "Reciprocal", "Log", "Cos", "Erf"]


def tensors(seed: int = 0) -> list[torch.Tensor]:
    return [rand(3, 4, seed=seed), rand(7, seed=seed), rand(1, seed=seed)]


@pytest.mark.parametrize("name", UNARY)
def test_foreach_unary(npu, name):
    x = [t.abs() + 0.1 for t in tensors()]
    compare(npu, "aclnnForeach" + name, {"x": x}, {"out": [getattr(torch, name.lower())(t) for t in x]})


def test_foreach_arithmetic(npu):
    a, b, c = tensors(1), tensors(2), [t.abs() + 1 for t in tensors(3)]
    compare(npu, "aclnnForeachAddListV2", {"x1": a, "x2": b, "alpha": 2.0}, {"out": torch._foreach_add(a, b, alpha=2)})
    compare(
        npu,
        "aclnnForeachAddList",
        {"x1": a, "x2": b, "alpha": torch.tensor([2.0])},
        {"out": torch._foreach_add(a, b, alpha=2)},
    )
    compare(npu, "aclnnForeachMulList", {"x1": a, "x2": b}, {"out": torch._foreach_mul(a, b)})
    compare(npu, "aclnnForeachMulScalarV2", {"x": a, "scalar": 0.5}, {"out": torch._foreach_mul(a, 0.5)})
    compare(npu, "aclnnForeachMulScalar", {"x": a, "scalar": torch.tensor([0.5])}, {"out": torch._foreach_mul(a, 0.5)})
    compare(
        npu,
        "aclnnForeachSubScalarList",
        {"x": a, "scalars": [1.0, 2.0, 3.0]},
        {"out": torch._foreach_sub(a, [1.0, 2.0, 3.0])},
    )
    compare(npu, "aclnnForeachDivList", {"x1": a, "x2": c}, {"out": torch._foreach_div(a, c)})
    compare(
        npu,
        "aclnnForeachAddcdivScalarV2",
        {"x1": a, "x2": b, "x3": c, "scalar": -0.1},
        {"out": torch._foreach_addcdiv(a, b, c, -0.1)},
    )
    compare(
        npu,
        "aclnnForeachAddcmulScalarList",
        {"x1": a, "x2": b, "x3": c, "scalars": torch.tensor([1.0, 2.0, 3.0])},
        {"out": torch._foreach_addcmul(a, b, c, [1.0, 2.0, 3.0])},
    )
    compare(npu, "aclnnForeachLerpScalar", {"x1": a, "x2": b, "weight": 0.25}, {"out": torch._foreach_lerp(a, b, 0.25)})
    compare(npu, "aclnnForeachMaximumList", {"x1": a, "x2": b}, {"out": torch._foreach_maximum(a, b)})
    compare(npu, "aclnnForeachNorm", {"x": a, "scalar": 2.0}, {"out": torch._foreach_norm(a)})
    compare(npu, "aclnnForeachPowScalarAndTensor", {"scalar": 2.0, "x": a}, {"out": torch._foreach_pow(2.0, a)})
    compare(npu, "aclnnForeachCopy", {"x": a}, {"out": a})


@pytest.mark.parametrize("mode, name", [(2, "floor"), (3, "ceil"), (4, "round"), (5, "trunc")])
def test_foreach_round_off(npu, mode, name):
    x = [t * 5 for t in tensors()]
    compare(
        npu, "aclnnForeachRoundOffNumberV2", {"x": x, "roundMode": mode}, {"out": [getattr(torch, name)(t) for t in x]}
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscale(npu, bad, dtype):
    gradients = [t.to(dtype) for t in tensors()]
    if bad is not None:
        gradients[1][3] = bad
    got = npu.call(
        "aclnnForeachNonFiniteCheckAndUnscale",
        scaledGrads=gradients,
        foundInf=torch.zeros(1),
        invScale=torch.tensor([0.5]),
    )
    assert got["foundInf"].item() == (0 if bad is None else 1)
    for after, before in zip(got["scaledGrads"], gradients, strict=True):
        torch.testing.assert_close(after, before * 0.5, equal_nan=True)


@pytest.mark.parametrize("found, tracker", [(0.0, 0), (0.0, 3), (1.0, 2)])
def test_update_scale_in_place(npu, found, tracker):
    scale, growth = torch.tensor([1024.0]), torch.tensor([tracker], dtype=torch.int32)
    expected = torch._amp_update_scale_(scale.clone(), g := growth.clone(), torch.tensor([found]), 2.0, 0.5, 4)
    s, t = npu.tensor(scale), npu.tensor(growth)
    npu.call(
        "aclnnAmpUpdateScale",
        currentScale=s,
        growthTracker=t,
        foundInf=torch.tensor([found]),
        growthFactor=2.0,
        backoffFactor=0.5,
        growthInterval=4,
        updatedScale=s,
        updatedGrowthTracker=t,
    )
    assert torch.equal(s.read(), expected) and torch.equal(t.read(), g)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw(npu, amsgrad, maximize):
    p = rand(5, 7).requires_grad_()
    optimizer = torch.optim.AdamW([p], 0.01, (0.8, 0.9), 1e-6, 0.1, amsgrad, maximize=maximize, foreach=False)
    names = ("varRef", "mRef", "vRef", "maxGradNormOptionalRef")
    state = dict(zip(names, (p.detach().clone(), *(torch.zeros(5, 7) for _ in range(3))), strict=True))
    for step in range(4):
        p.grad = rand(5, 7, seed=step)
        optimizer.step()
        given = state if amsgrad else state | {"maxGradNormOptionalRef": None}
        got = npu.call(
            "aclnnApplyAdamWV2",
            **given,
            grad=p.grad,
            step=torch.tensor([step]),
            lr=0.01,
            beta1=0.8,
            beta2=0.9,
            weightDecay=0.1,
            eps=1e-6,
            amsgrad=amsgrad,
            maximize=maximize,
        )
        state = state | got
        torch.testing.assert_close(state["varRef"], p.detach())


@pytest.mark.parametrize(
    "name, function", [("aclnnFusedAdam", torch._fused_adam_), ("aclnnFusedAdamw", torch._fused_adamw_)]
)
def test_fused_adam(npu, name, function):
    lists = [[t.abs() if i == 3 else t for t in tensors(i)] for i in range(4)]
    steps = [torch.tensor(3.0) for _ in range(3)]
    expected = [[t.clone() for t in members] for members in lists]
    function(
        *expected, [], steps, lr=0.01, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False
    )
    params = npu.signatures[name]
    given = dict(zip([p.name for p in params[:4]], lists, strict=True))
    got = npu.call(
        name,
        **given,
        maxExpAvgSqsRef=None,
        stateSteps=steps,
        gradScaleOptional=None,
        foundInfOptional=None,
        lr=0.01,
        beta1=0.9,
        beta2=0.99,
        weightDecay=0.1,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )
    for i in (0, 2, 3):
        for a, b in zip(got[params[i].name], expected[i], strict=True):
            torch.testing.assert_close(a, b)


def test_unscale_of_fp64_is_fp64(npu):
    g = [
        torch.rand(37, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
        torch.full((3,), 1e300, dtype=torch.float64),
    ]
    scale = torch.tensor([1.0 / 3])
    got = npu.call("aclnnForeachNonFiniteCheckAndUnscale", scaledGrads=g, foundInf=torch.zeros(1), invScale=scale)
    for a, b in zip(got["scaledGrads"], g, strict=True):
        torch.testing.assert_close(a, b * scale.double().item(), rtol=1e-15, atol=0)
    assert got["foundInf"].item() == 0  # 1e300 is finite


@pytest.mark.parametrize("maximize", [False, True])
def test_adamw_of_fp64_is_fp64(npu, maximize):
    generator = torch.Generator().manual_seed(2)
    p, m, v, x, g = (torch.rand(41, dtype=torch.float64, generator=generator) for _ in range(5))
    lr, beta1, beta2, decay, eps, t = 2**-7, 0.875, 1 - 2**-10, 0.125, 2**-30, 4  # fp32 numbers: CANN takes those
    d = -g if maximize else g
    mean, var = m * beta1 + (1 - beta1) * d, v * beta2 + (1 - beta2) * d * d
    most = torch.maximum(x, var)
    denominator = most.sqrt() / (1 - beta2**t) ** 0.5 + eps
    wanted = p * (1 - lr * decay) - lr / (1 - beta1**t) * mean / denominator
    got = npu.call(
        "aclnnApplyAdamWV2", varRef=p, mRef=m, vRef=v, maxGradNormOptionalRef=x, grad=g, step=torch.tensor([t - 1.0]),
        lr=lr, beta1=beta1, beta2=beta2, weightDecay=decay, eps=eps, amsgrad=True, maximize=maximize,
    )  # fmt: skip
    for name, value in (("varRef", wanted), ("mRef", mean), ("vRef", var), ("maxGradNormOptionalRef", most)):
        torch.testing.assert_close(got[name], value, rtol=1e-12, atol=0)
        assert not torch.equal(got[name], got[name].float().double())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("nesterov", [False, True])
def test_adam_with_its_powers(npu, dtype, nesterov):
    var, m, g = (rand(3, 5, dtype=dtype, seed=s) for s in range(3))
    v = rand(3, 5, dtype=dtype, seed=4).abs()
    numbers = {"beta1Power": 0.81, "beta2Power": 0.98, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3}
    rate = 0.1 * math.sqrt(1 - 0.98) / (1 - 0.81)
    mean = 0.9 * m.double() + 0.1 * g.double()
    square = 0.99 * v.double() + 0.01 * g.double() ** 2
    step = 0.9 * mean + 0.1 * g.double() if nesterov else mean
    param = var.double() - rate * step / (square.sqrt() + 1e-3)
    results = npu.call("aclnnApplyAdam", varRef=var, m=m, v=v, grad=g, useLocking=False, useNesterov=nesterov,
                       **{name: torch.tensor([value]) for name, value in numbers.items()})  # fmt: skip
    for name, want in (("varRef", param), ("m", mean), ("v", square)):
        torch.testing.assert_close(results[name], want.to(dtype), **NEAR[dtype])
