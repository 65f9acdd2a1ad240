"""Strided slices, sums of repeated slices, and a causal convolution of each column, with gradients."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, compare, rand
from tests.opapi.client import AclError


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_strided_slices(npu, dtype):
    x = (torch.arange(60).reshape(3, 4, 5) % 7).to(dtype)
    cases = [
        ([0, 1, 0], [3, 4, 5], [2, 1, 2], {}, x[0:3:2, 1:4, 0:5:2]),
        ([1, 0, 0], [2, 0, 0], [1, 1, 1], {"beginMask": 6, "endMask": 6}, x[1:2]),
        ([2, 0, 4], [0, 4, 0], [-1, 3, -2], {"endMask": 1}, x.flip(0)[:, ::3, [4, 2]]),
        ([-1, 0], [0, -1], [1, 1], {"shrinkAxisMask": 1}, x[-1, 0:-1]),
        ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsisMask": 1, "newAxisMask": 2}, x[..., None, 1:3]),
        ([2], [2], [1], {}, x[2:2]),
        ([0], [9], [1], {}, x),
    ]
    masks = dict.fromkeys(("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask"), 0)
    for begin, end, strides, given, expected in cases:
        inputs = {"self": x.transpose(0, 1).contiguous().transpose(0, 1), "begin": begin, "end": end,
                  "strides": strides}  # fmt: skip
        compare(npu, "aclnnStridedSlice", inputs | masks | given, {"out": expected.contiguous()})
    with pytest.raises(AclError, match="stride 0 is 0"):
        compare(npu, "aclnnStridedSlice", {"self": x, "begin": [0], "end": [1], "strides": [0]}, {"out": x[:1]})


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_gradient_of_repeated_slices(npu, dtype):
    """The two examples of the page, and a slice that was repeated no time."""
    gradient = rand(2, 6, dtype=dtype)
    for repeats, ends in (([1, 2, 2, 1], [0, 1, 3, 5, 6]), ([2], [0, 2, 4, 6]), ([3, 0, 3], [0, 3, 3, 6])):
        parts = [gradient.float()[:, a:b].sum(1) for a, b in zip(ends, ends[1:], strict=False)]
        expected = torch.stack(parts, 1).to(dtype)
        for index in (torch.int32, torch.int64):
            inputs = {"yGrad": gradient, "repeats": torch.tensor(repeats, dtype=index), "axis": -1}
            compare(npu, "aclnnRepeatInterleaveGrad", inputs, {"out": expected})
    with pytest.raises(AclError, match="adds up to 5, yGrad has 6"):
        compare(npu, "aclnnRepeatInterleaveGrad",
                {"yGrad": gradient, "repeats": torch.tensor([2, 3]), "axis": 1}, {"out": gradient[:, :2]})  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("steps, width", [(7, 3), (2, 4)])
def test_a_causal_convolution_and_its_gradients(npu, dtype, steps, width):
    x, weight = rand(steps, 2, 5, dtype=dtype), rand(width, 5, dtype=dtype)
    mask = torch.rand(2, steps, generator=torch.Generator().manual_seed(3)) > 0.3
    a, w = x.double().requires_grad_(), weight.double().requires_grad_()
    padded = torch.cat([torch.zeros(width - 1, 2, 5), a])
    out = sum(padded[k : k + steps] * w[k] for k in range(width)) * mask.t()[:, :, None]
    exact = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    inputs = {"x": x, "weight": weight, "maskOptional": mask}
    compare(npu, "aclnnMaskedCausalConv1d", inputs, {"out": out.detach().to(dtype)}, **exact)
    gradient = rand(steps, 2, 5, dtype=dtype, seed=8)
    dx, dw = torch.autograd.grad(out, (a, w), gradient.double())
    expected = {"gradXOut": dx.to(dtype), "gradWeightOut": dw.to(dtype)}
    compare(npu, "aclnnMaskedCausalConv1dBackward", inputs | {"gradY": gradient}, expected, **exact)
