"""Pooling, padding, resampling and their gradients, and losses over images: rows that no other test gives a value.

A gradient is asked of autograd, through the function of the user, not of the kernel's own name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nn

from tests.opapi.cases import check_row, rand

LINE, IMAGE, VOLUME = rand(2, 3, 7), rand(2, 3, 5, 6), rand(1, 2, 4, 5, 6)
SIDES = {1: [9], 2: [7, 4], 3: [3, 7, 9]}


def gradient(function: Callable, x: torch.Tensor, seed: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """A gradient of the result, at random, and what it becomes of the operand."""
    x = x.clone().requires_grad_()
    y = function(x)
    dy = rand(*y.shape, seed=seed)
    return dy, torch.autograd.grad(y, x, dy)[0]


def resampled(name: str, x: torch.Tensor, mode: str, *, corners: bool | None = None, scales: bool = True, **more):
    """The rows of a mode: forward, backward. Scales of 0 leave them to the sizes."""
    sides = SIDES[x.dim() - 2]
    function = functools.partial(nn.interpolate, size=sides, mode=mode, align_corners=corners, **more)
    dy, dx = gradient(function, x)
    flags = () if corners is None else (corners,)
    zeros = (0.0,) * (x.dim() - 2) * scales
    yield name, (x, sides, *flags, *zeros), function(x)
    yield name + "Backward", (dy, sides, list(x.shape), *flags, *zeros), dx


AVERAGE = functools.partial(nn.avg_pool3d, kernel_size=[2, 3, 2], stride=[1, 2, 2], padding=[1, 1, 0], ceil_mode=True,
                            count_include_pad=False)  # fmt: skip
AVERAGE_OPTIONS = ([2, 3, 2], [1, 2, 2], [1, 1, 0], True, False, 0)
DY, DX = gradient(AVERAGE, VOLUME)
ADAPTED = functools.partial(nn.adaptive_avg_pool3d, output_size=[2, 3, 4])
ADAPTED_DY, ADAPTED_DX = gradient(ADAPTED, VOLUME)


def padded(name: str, x: torch.Tensor, pad: list[int], mode: str, forward: bool = True):
    function = functools.partial(nn.pad, pad=pad, mode=mode)
    dy, dx = gradient(function, x)
    if forward:
        yield name, (x, pad), function(x)
    yield name + "Backward", (dy, x, pad), dx


ROWS = [
    ("AvgPool3d", (VOLUME, *AVERAGE_OPTIONS), AVERAGE(VOLUME)),
    ("AvgPool3dBackward", (DY, VOLUME, *AVERAGE_OPTIONS), DX),
    ("AdaptiveAvgPool3d", (VOLUME, [2, 3, 4]), ADAPTED(VOLUME)),
    ("AdaptiveAvgPool3dBackward", (ADAPTED_DY, VOLUME), ADAPTED_DX),
    *padded("ReflectionPad1d", LINE, [2, 1], "reflect"),
    *padded("ReplicationPad1d", LINE, [2, 1], "replicate"),
    *padded("ReplicationPad2d", IMAGE, [1, 2, 0, 3], "replicate", forward=False),
    *resampled("UpsampleLinear1d", LINE, "linear", corners=True),
    *resampled("UpsampleTrilinear3d", VOLUME, "trilinear", corners=False),
    *resampled("UpsampleNearestExact1d", LINE, "nearest-exact"),
    *resampled("UpsampleBilinear2dAA", IMAGE, "bilinear", corners=False, antialias=True),
]
# Those whose second direction has another name or parameters.
BILINEAR = list(resampled("UpsampleBilinear2d", IMAGE, "bilinear", corners=True))
NEAREST = list(resampled("UpsampleNearest1d", LINE, "nearest"))
ROWS += [("UpsampleBilinear2dBackwardV2", *BILINEAR[1][1:]), ("UpsampleNearest1dV2", *NEAREST[0][1:]), NEAREST[1]]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row(npu, row):
    name, inputs, result = row
    check_row(npu, "aclnn" + name, inputs, (result,), rtol=1e-5, atol=1e-5)


LARGEST = {
    "MaxPool3dWithArgmax": (VOLUME, ([2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 1], True),
                            functools.partial(nn.max_pool3d, kernel_size=[2, 3, 2], stride=[1, 2, 2], padding=[1, 1, 0],
                                              ceil_mode=True, return_indices=True)),
    "AdaptiveMaxPool2d": (IMAGE, ([2, 4],), functools.partial(nn.adaptive_max_pool2d, output_size=[2, 4],
                                                              return_indices=True)),
    "AdaptiveMaxPool3d": (VOLUME, ([2, 3, 4],), functools.partial(nn.adaptive_max_pool3d, output_size=[2, 3, 4],
                                                                  return_indices=True)),
}  # fmt: skip


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", LARGEST)
def test_largest_elements_where_they_are_and_their_gradient(npu, name, kind):
    x, options, function = LARGEST[name]
    y, where = function(x)
    check_row(npu, "aclnn" + name, (x, *options), (y, where.to(kind)))
    dy, dx = gradient(lambda x: function(x)[0], x)
    more = options if name == "MaxPool3dWithArgmax" else ()
    check_row(npu, f"aclnn{name}Backward", (dy, x, where.to(kind), *more), (dx,))


@pytest.mark.parametrize("dims", [2, 3])
def test_pooling_undone(npu, dims):
    x = {2: IMAGE, 3: VOLUME}[dims]
    y, where = getattr(nn, f"max_pool{dims}d")(x, 2, return_indices=True)
    sides = list(x.shape[2:])
    expected = getattr(nn, f"max_unpool{dims}d")(y, where, 2, output_size=sides)
    more = ([2] * 3, [0] * 3) if dims == 3 else ()
    check_row(npu, f"aclnnMaxUnpool{dims}d", (y, where, sides, *more), (expected,))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_classes_of_pixels(npu, reduction):
    x, weight = rand(2, 3, 4, 5).log_softmax(1), torch.tensor([0.5, 1.0, 2.0])
    target = torch.arange(40).view(2, 4, 5) % 3
    target[0, 1, 2] = -1
    number = ["none", "mean", "sum"].index(reduction)
    y = nn.nll_loss(x, target, weight, ignore_index=-1, reduction=reduction)
    total = torch.tensor(0.0) if reduction == "none" else weight[target[target >= 0]].sum()
    check_row(npu, "aclnnNLLLoss2d", (x, target, weight, number, -1), (y, total), rtol=1e-5, atol=1e-5)
    dy, dx = gradient(lambda x: nn.nll_loss(x, target, weight, ignore_index=-1, reduction=reduction), x)
    check_row(npu, "aclnnNLLLoss2dBackward", (dy, x, target, weight, number, -1, total), (dx,))


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_several_labels(npu, reduction):
    x, target = rand(3, 4), torch.tensor([[1, 3, -1, 0], [0, -1, 2, 2], [2, 1, 0, 3]])
    y = nn.multilabel_margin_loss(x, target, reduction=["none", "mean", "sum"][reduction])
    named = torch.tensor([[0.0, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]])
    check_row(npu, "aclnnMultilabelMarginLoss", (x, target, reduction), (y, named))


def test_the_gradient_of_normalized_groups(npu):
    x, gamma, beta = rand(2, 6, 3, 4).requires_grad_(), rand(6, seed=1).requires_grad_(), rand(6).requires_grad_()
    y = nn.group_norm(x, 2, gamma, beta)
    dy = rand(*y.shape, seed=3)
    wanted = torch.autograd.grad(y, (x, gamma, beta), dy)
    groups = x.detach().view(2, 2, -1)
    mean, rstd = groups.mean(-1), (groups.var(-1, correction=0) + 1e-5).rsqrt()
    check_row(npu, "aclnnGroupNormBackward",
              (dy, x.detach(), mean, rstd, gamma.detach(), 2, 6, 12, 2, [True, True, True]), wanted,
              rtol=1e-4, atol=1e-5)  # fmt: skip
