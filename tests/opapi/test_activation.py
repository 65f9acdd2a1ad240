"""Activations, forward and backward, against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import compare, rand

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


ACTIVATIONS = {
    "Elu": ({"alpha": 1.0, "scale": 1.0, "inputScale": 1.0}, nn.elu),
    "LeakyRelu": ({"negativeSlope": 0.1}, lambda x: nn.leaky_relu(x, 0.1)),
    "Softplus": ({"beta": 1.0, "threshold": 20.0}, nn.softplus),
    "Hardtanh": ({"clipValueMin": -1.0, "clipValueMax": 1.0}, nn.hardtanh),
    "Celu": ({"alpha": 1.5}, lambda x: nn.celu(x, 1.5)),
    "Hardshrink": ({"lambd": 0.5}, nn.hardshrink),
    "Softshrink": ({"lambd": 0.5}, nn.softshrink),
    "LogSigmoid": ({}, nn.logsigmoid),
    "Threshold": ({"threshold": 0.1, "value": 2.0}, lambda x: nn.threshold(x, 0.1, 2.0)),
    "FastGelu": ({}, lambda x: x * torch.sigmoid(1.702 * x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(npu, name):
    attributes, function = ACTIVATIONS[name]
    x = rand(4, 9) * 2
    compare(npu, "aclnn" + name, {"self": x, **attributes}, {"out": function(x)})


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_approximations(npu, approximate):
    x, g = rand(4, 9), rand(4, 9, seed=1)
    compare(
        npu,
        "aclnnGeluV2",
        {"x": x, "approximate": 1 if approximate == "tanh" else 0},
        {"y": nn.gelu(x, approximate=approximate)},
    )
    compare(
        npu,
        "aclnnGeluBackwardV2",
        {"gradOutput": g, "self": x, "approximate": approximate},
        {"gradInput": A.gelu_backward(g, x, approximate=approximate)},
    )


def test_prelu(npu):
    x, w = rand(2, 3, 4).requires_grad_(), rand(3).requires_grad_()
    y = nn.prelu(x, w)
    compare(npu, "aclnnPrelu", {"self": x.detach(), "weight": w.detach()}, {"out": y.detach()})
    g = rand(2, 3, 4, seed=1)
    gx, gw = torch.autograd.grad(y, (x, w), g)
    compare(
        npu,
        "aclnnPreluBackward",
        {"gradOutput": g, "self": x.detach(), "weight": w.detach()},
        {"gradInput": gx, "gradWeight": gw},
    )
