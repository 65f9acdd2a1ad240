"""Normalization, forward and backward, against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import compare, rand

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(npu, training, dtype):
    x, w, b = rand(4, 3, 5, dtype=dtype), rand(3) + 1, rand(3)
    mean, var = rand(3), rand(3).abs()
    m, v = mean.clone(), var.clone()
    y, sm, si = torch.native_batch_norm(x, w, b, m, v, training, 0.1, 1e-5)
    if not training:
        sm, si = torch.zeros(0), torch.zeros(0)
    got = compare(
        npu,
        "aclnnBatchNorm",
        {
            "input": x,
            "weight": w,
            "bias": b,
            "runningMean": mean,
            "runningVar": var,
            "training": training,
            "momentum": 0.1,
            "eps": 1e-5,
        },
        {"output": y, "saveMean": sm, "saveInvstd": si},
    )
    torch.testing.assert_close(got["runningMean"], m)
    torch.testing.assert_close(got["runningVar"], v)
    g = rand(4, 3, 5, dtype=dtype, seed=9)
    gi, gw, gb = A.native_batch_norm_backward(g, x, w, m, v, sm, si, training, 1e-5, [True] * 3)
    compare(
        npu,
        "aclnnBatchNormBackward",
        {
            "gradOut": g,
            "input": x,
            "weight": w,
            "runningMean": m,
            "runningVar": v,
            "saveMean": sm,
            "saveInvstd": si,
            "training": training,
            "eps": 1e-5,
            "outputMask": [True] * 3,
        },
        {"gradInput": gi, "gradWeight": gw, "gradBias": gb},
    )


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16])
def test_layer_and_group_norm(npu, dtype):
    x, w, b = rand(4, 6, 8, dtype=dtype), rand(8, dtype=dtype), rand(8, dtype=dtype)
    y, mean, rstd = torch.native_layer_norm(x, [8], w, b, 1e-5)
    compare(
        npu,
        "aclnnLayerNorm",
        {"input": x, "normalizedShape": [8], "weightOptional": w, "biasOptional": b, "eps": 1e-5},
        {"out": y, "meanOutOptional": mean, "rstdOutOptional": rstd},
    )
    g = rand(4, 6, 8, dtype=dtype, seed=9)
    gi, gw, gb = A.native_layer_norm_backward(g, x, [8], mean, rstd, w, b, [True] * 3)
    compare(
        npu,
        "aclnnLayerNormBackward",
        {
            "gradOut": g,
            "input": x,
            "normalizedShape": [8],
            "mean": mean,
            "rstd": rstd,
            "weightOptional": w,
            "biasOptional": b,
            "outputMask": [True] * 3,
        },
        {"gradInputOut": gi, "gradWeightOut": gw, "gradBiasOut": gb},
        **({} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 5e-2}),
    )  # sums in half precision depend on the thread count
    c = rand(6, dtype=dtype)
    y, mean, rstd = torch.native_group_norm(x, c, c, 4, 6, 8, 2, 1e-5)
    compare(
        npu,
        "aclnnGroupNorm",
        {"self": x, "gamma": c, "beta": c, "N": 4, "C": 6, "HxW": 8, "group": 2, "eps": 1e-5},
        {"out": y, "meanOut": mean, "rstdOut": rstd},
    )


def test_rms_norm(npu):
    x, w = rand(4, 6, requires := 8).requires_grad_(), rand(requires).requires_grad_()
    y = nn.rms_norm(x, [8], w, 1e-6)
    rstd = (x.detach().square().mean(-1, True) + 1e-6).rsqrt()
    compare(
        npu,
        "aclnnRmsNorm",
        {"x": x.detach(), "gamma": w.detach(), "epsilon": 1e-6},
        {"yOut": y.detach(), "rstdOut": rstd},
    )
    g = rand(4, 6, 8, seed=9)
    gx, gw = torch.autograd.grad(y, (x, w), g)
    compare(
        npu,
        "aclnnRmsNormGrad",
        {"dy": g, "x": x.detach(), "rstd": rstd, "gamma": w.detach()},
        {"dxOut": gx, "dgammaOut": gw},
    )


def test_sync_batch_norm_of_two_halves_equals_batch_norm_of_the_whole(npu):
    x, w, b = rand(6, 3, 5), rand(3) + 1, rand(3)
    halves = x.chunk(2)
    running = [torch.zeros(3), torch.ones(3)]
    m, v = running[0].clone(), running[1].clone()
    y, sm, si = torch.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5)
    stats = [
        npu.call("aclnnBatchNormStats", input=h, eps=1e-5, mean=torch.empty(3), invstd=torch.empty(3)) for h in halves
    ]
    got = compare(
        npu,
        "aclnnBatchNormGatherStatsWithCounts",
        {
            "input": x,
            "mean": torch.stack([s["mean"] for s in stats]),
            "invstd": torch.stack([s["invstd"] for s in stats]),
            "runningMean": running[0],
            "runningVar": running[1],
            "momentum": 0.1,
            "eps": 1e-5,
            "counts": torch.tensor([15.0, 15.0]),
        },
        {"meanAll": sm, "invstdAll": si},
    )
    torch.testing.assert_close(got["runningMean"], m)
    torch.testing.assert_close(got["runningVar"], v)
    compare(
        npu,
        "aclnnBatchNormElemt",
        {"input": x, "weight": w, "bias": b, "mean": sm, "invstd": si, "eps": 1e-5},
        {"output": y},
    )
    g = rand(6, 3, 5, seed=9)
    gi, gw, gb = A.native_batch_norm_backward(g, x, w, m, v, sm, si, True, 1e-5, [True] * 3)
    sums = compare(
        npu,
        "aclnnBatchNormReduceBackward",
        {
            "gradOut": g,
            "input": x,
            "mean": sm,
            "invstd": si,
            "weight": w,
            "inputG": True,
            "weightG": True,
            "biasG": True,
        },
        {"gradWeight": gw, "gradBias": gb, "sumDy": gb, "sumDyXmu": gw / si},
        rtol=1e-4,
        atol=1e-4,
    )
    compare(
        npu,
        "aclnnBatchNormElemtBackward",
        {
            "gradOut": g,
            "input": x,
            "mean": sm,
            "invstd": si,
            "weight": w,
            "sumDy": sums["sumDy"],
            "sumDyXmu": sums["sumDyXmu"],
            "counter": torch.tensor([15, 15], dtype=torch.int32),
        },
        {"gradInput": gi},
        rtol=1e-4,
        atol=1e-5,
    )


def test_rms_norm_keeps_fp64_and_leaves_its_input(npu):
    x, w = rand(3, 8), rand(8)
    kept = x.clone()
    got = npu.call("aclnnRmsNorm", x=x, gamma=w, epsilon=1e-6, yOut=torch.empty(3, 8), rstdOut=torch.empty(3, 1))
    torch.testing.assert_close(got["yOut"], nn.rms_norm(kept, [8], w, 1e-6))
    x64 = rand(3, 8, dtype=torch.float64) * 1e3
    got = npu.call("aclnnRmsNorm", x=x64, gamma=w.double(), epsilon=1e-6, yOut=torch.empty(3, 8, dtype=torch.float64),
                   rstdOut=torch.empty(3, 1, dtype=torch.float64))  # fmt: skip
    torch.testing.assert_close(got["yOut"], nn.rms_norm(x64, [8], w.double(), 1e-6), rtol=1e-14, atol=0)


def test_rms_norm_refuses_complex_numbers(npu):
    c, w = rand(3, 8).to(torch.complex64), rand(8)
    with pytest.raises(Exception, match="data type complex64, which the operator does not take"):
        npu.prepare("aclnnRmsNorm", x=c, gamma=w, epsilon=1e-6, yOut=c, rstdOut=torch.empty(3, 1))


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "BatchNorm"])
@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_backward_takes_float_statistics_beside_16_bit_weights(npu, name, dtype):
    """Any statistic or weight may be fp32 by itself."""
    x, g, w = rand(4, 6, 5, dtype=dtype), rand(4, 6, 5, seed=1, dtype=dtype), (rand(6).abs() + 0.5).to(dtype)
    if name == "LayerNorm":
        x, g = x.transpose(1, 2).contiguous(), g.transpose(1, 2).contiguous()
    a, b = x.double().requires_grad_(), w.double().requires_grad_()
    reference = {
        "LayerNorm": lambda: nn.layer_norm(a, [6], b),
        "GroupNorm": lambda: nn.group_norm(a, 2, b),
        "BatchNorm": lambda: nn.batch_norm(a, None, None, b, training=True),
    }[name]
    reference().backward(g.double())
    z = x.double()
    z = {"LayerNorm": z, "GroupNorm": z.reshape(4, 2, -1), "BatchNorm": z.transpose(0, 1).flatten(1)}[name]
    mean, rstd = z.mean(-1), (z.var(-1, False) + 1e-5).rsqrt()
    if name == "LayerNorm":
        mean, rstd = mean.unsqueeze(-1), rstd.unsqueeze(-1)
    want = {
        "in": a.grad.to(dtype),
        "weight": b.grad.to(dtype),
        "bias": g.double().sum((0, 1) if name == "LayerNorm" else (0, 2)).to(dtype),
    }
    for kind in (torch.float32, dtype):
        m, r = mean.to(kind), rstd.to(kind)
        if name == "LayerNorm":
            given = {"gradOut": g, "input": x, "normalizedShape": [6], "mean": m, "rstd": r, "weightOptional": w}
            names = ("gradInputOut", "gradWeightOut", "gradBiasOut")
        elif name == "GroupNorm":
            given = {"gradOut": g, "input": x, "mean": m, "rstd": r, "gamma": w, "N": 4, "C": 6, "HxW": 5, "group": 2}
            names = ("gradInput", "gradGammaOut", "gradBetaOut")
        else:
            given = {
                "gradOut": g,
                "input": x,
                "weight": w,
                "saveMean": m,
                "saveInvstd": r,
                "training": True,
                "eps": 1e-5,
            }
            names = ("gradInput", "gradWeight", "gradBias")
        outputs = dict(zip(names, want.values(), strict=True))
        compare(npu, f"aclnn{name}Backward", given | {"outputMask": [True] * 3}, outputs, rtol=4e-2, atol=8e-2)
