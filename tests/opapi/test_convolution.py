"""Convolution, pooling, padding and resizing, forward and backward, against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import FLOATS, compare, rand
from tests.opapi.client import AclError

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


CONV = [
    dict(),
    dict(stride=[2, 2], padding=[1, 1]),
    dict(dilation=[2, 2], padding=[2, 2]),
    dict(groups=2),
    dict(transposed=True, stride=[2, 2], outputPadding=[1, 1]),
]


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16])
@pytest.mark.parametrize("case", CONV, ids=str)
def test_convolution(npu, case, dtype):
    c = {
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "transposed": False,
        "outputPadding": [0, 0],
        "groups": 1,
    } | case
    x, bias = rand(2, 4, 9, 8, dtype=dtype), rand(4, dtype=dtype)
    w = rand(4, 4 // c["groups"], 3, 3, dtype=dtype)
    order = ("stride", "padding", "dilation", "transposed", "outputPadding", "groups")
    y = torch.convolution(x.float(), w.float(), bias.float(), *(c[k] for k in order)).to(dtype)
    tolerance = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    compare(npu, "aclnnConvolution", {"input": x, "weight": w, "bias": bias, **c}, {"output": y}, **tolerance)
    g = rand(*y.shape, dtype=dtype)
    gi, gw, gb = A.convolution_backward(
        g.float(), x.float(), w.float(), [4], *(c[k] for k in order), [True, True, True]
    )
    compare(
        npu,
        "aclnnConvolutionBackward",
        {"gradOutput": g, "input": x, "weight": w, "biasSizes": [4], "outputMask": [True, True, True], **c},
        {"gradInput": gi.to(dtype), "gradWeight": gw.to(dtype), "gradBias": gb.to(dtype)},
        **tolerance,
    )


@pytest.mark.parametrize(
    "case", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 3, 1, 1), (3, 2, 1, 2), (5, 5, 2, 1), (1, 2, 0, 1)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float32, HALF, torch.float64])
@pytest.mark.parametrize("itype", [torch.int64, torch.int32])
def test_max_pool(npu, case, dtype, itype):
    k, s, p, d = case
    x = rand(2, 3, 11, 14, dtype=dtype)
    x[0, 0, 3, 4], x[1, 2, 0, 0] = float("nan"), float("-inf")
    y, i = nn.max_pool2d(x, k, s, p, d, return_indices=True)
    attributes = {"kernelSize": [k, k], "stride": [s, s], "padding": [p, p], "dilation": [d, d]}
    compare(npu, "aclnnMaxPool2dWithIndices", {"self": x, **attributes}, {"out": y, "indices": i.to(itype)})
    g = rand(*y.shape, dtype=dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32  # ATen rounds each sum of 16 bits
    expected = A.max_pool2d_with_indices_backward(g.to(wide), x.to(wide), [k, k], [s, s], [p, p], [d, d], False, i)
    compare(
        npu,
        "aclnnMaxPool2dWithIndicesBackward",
        {"gradOutput": g, "self": x, "indices": i.to(itype), **attributes},
        {"gradInput": expected.to(dtype)},
    )


def test_max_pool_of_minus_infinity_and_ceil_mode(npu):
    x = torch.full((1, 1, 5, 5), float("-inf"))
    y, i = nn.max_pool2d(x, 2, 2, 0, ceil_mode=True, return_indices=True)
    compare(
        npu,
        "aclnnMaxPool2dWithIndices",
        {"self": x, "kernelSize": [2], "stride": [2], "padding": [0], "dilation": [1], "ceilMode": True},
        {"out": y, "indices": i},
    )


@pytest.mark.parametrize("stride", [7, 2**31 - 1])
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_max_pool_of_a_stride_beyond_the_input(npu, stride, dtype):
    """The largest stride wrote beside its buffers: behind many planes, where no spare memory hides it."""
    x = rand(64, 6, 6, dtype=dtype)
    attributes = {"kernelSize": [5, 5], "stride": [stride] * 2, "padding": [2, 2], "dilation": [1, 1]}
    y, i = nn.max_pool2d(x, 5, 7, 2, return_indices=True)
    compare(npu, "aclnnMaxPool2dWithIndices", {"self": x, **attributes}, {"out": y, "indices": i})
    expected = A.max_pool2d_with_indices_backward(y.float(), x.float(), [5, 5], [7, 7], [2, 2], [1, 1], False, i)
    compare(
        npu,
        "aclnnMaxPool2dWithIndicesBackward",
        {"gradOutput": y, "self": x, "indices": i, **attributes},
        {"gradInput": expected.to(dtype)},
    )


@pytest.mark.parametrize("parameter", ["kernelSize", "stride", "padding", "dilation"])
def test_max_pool_of_a_number_beyond_32_bits_is_refused(npu, parameter):
    """It was cut: a stride of 2**32 + 2 was one of 2."""
    x, attributes = rand(1, 1, 4, 4), {"kernelSize": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]}
    y, i = nn.max_pool2d(x, 2, return_indices=True)
    attributes[parameter] = [2**32 + attributes[parameter][0]] * 2
    with pytest.raises(AclError, match=f"{attributes[parameter][0]} does not fit into 32 bits"):
        compare(
            npu,
            "aclnnMaxPool2dWithIndicesBackward",
            {"gradOutput": y, "self": x, "indices": i, **attributes},
            {"gradInput": x},
        )


def test_max_pool_with_mask_round_trips(npu):
    x = rand(2, 3, 9, 12)
    attributes = {"kernelSize": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "ceilMode": False}
    y, i = nn.max_pool2d(x, 3, 2, 1, return_indices=True)
    mask = npu.tensor(torch.zeros(2, 3, 9, ((y.shape[-1] * y.shape[-2] + 15) // 16 + 1) * 32, dtype=torch.int8))
    assert torch.equal(
        npu.call("aclnnMaxPool2dWithMask", self=x, out=torch.empty_like(y), indices=mask, **attributes)["out"], y
    )
    g = rand(*y.shape)
    got = npu.call(
        "aclnnMaxPool2dWithMaskBackward",
        gradOutput=g,
        self=x,
        indices=mask,
        gradInput=torch.empty_like(x),
        **attributes,
    )
    expected = A.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i)
    torch.testing.assert_close(got["gradInput"], expected)


def test_average_pools(npu):
    x = rand(2, 3, 8, 8)
    y = nn.avg_pool2d(x, 3, 2, 1)
    attributes = {"kernelSize": [3, 3], "ceilMode": False, "countIncludePad": True}
    compare(npu, "aclnnAvgPool2d", {"self": x, "strides": [2, 2], "paddings": [1, 1], **attributes}, {"out": y})
    g = rand(*y.shape)
    compare(
        npu,
        "aclnnAvgPool2dBackward",
        {"gradOutput": g, "self": x, "stride": [2, 2], "padding": [1, 1], **attributes},
        {"gradInput": A.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, None)},
    )
    y = nn.adaptive_avg_pool2d(x, 3)
    compare(npu, "aclnnAdaptiveAvgPool2d", {"self": x, "outputSize": [3, 3]}, {"out": y})
    g = rand(*y.shape)
    compare(
        npu,
        "aclnnAdaptiveAvgPool2dBackward",
        {"gradOutput": g, "self": x},
        {"out": A._adaptive_avg_pool2d_backward(g, x)},
    )


@pytest.mark.parametrize("mode", ["Nearest2d", "Bilinear2d", "Bicubic2d"])
def test_upsample(npu, mode):
    x = rand(1, 2, 4, 5)
    align = {} if mode == "Nearest2d" else {"alignCorners": False}
    y = nn.interpolate(x, (7, 9), mode=mode[:-2].lower(), **({"align_corners": False} if align else {}))
    compare(npu, "aclnnUpsample" + mode, {"self": x, "outputSize": [7, 9], **align}, {"out": y})
    function = getattr(A, f"upsample_{mode.lower()}_backward")
    g = rand(*y.shape)
    expected = function(g, [7, 9], [1, 2, 4, 5], *([False] if align else []))
    compare(
        npu,
        f"aclnnUpsample{mode}Backward",
        {"gradOut": g, "outputSize": [7, 9], "inputSize": [1, 2, 4, 5], **align},
        {npu.signatures[f"aclnnUpsample{mode}Backward"][-1].name: expected},
    )


@pytest.mark.parametrize("kind", ["Reflection", "Replication"])
def test_pads(npu, kind):
    x = rand(2, 3, 5, 6)
    y = nn.pad(x, (1, 2, 0, 1), mode={"Reflection": "reflect", "Replication": "replicate"}[kind])
    compare(npu, f"aclnn{kind}Pad2d", {"self": x, "padding": [1, 2, 0, 1]}, {"out": y})


@pytest.mark.parametrize("width", [3, 8, 10, 14, 34], ids=str)
def test_max_pool_of_two_by_two_takes_the_last_of_several_nans_and_the_first_of_equals(npu, width):
    x = rand(2, 3, 6, width)
    x[rand(2, 3, 6, width, seed=1) > 0.5] = 1.0
    x[rand(2, 3, 6, width, seed=2) > 1.0] = float("nan")
    x[rand(2, 3, 6, width, seed=3) > 1.0] = float("-inf")
    y, places = nn.max_pool2d(x, 2, return_indices=True)
    compare(
        npu,
        "aclnnMaxPool2dWithIndices",
        {"self": x, "kernelSize": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1], "ceilMode": False},
        {"out": y, "indices": places},
        rtol=0,
        atol=0,
    )


def test_results_are_made_in_place_from_the_second_call_on_and_stay_right(npu):
    """The first call only watches; input, weight and both gradients are of one size."""
    x, w = rand(1, 256, 3, 3), rand(256, 1, 3, 3, seed=1)  # 9 KiB each: smaller results are copied
    g = rand(1, 256, 3, 3, seed=2)
    big, kernel = rand(2, 16, 32, 32), rand(16, 16, 3, 3, seed=3)
    for _ in range(4):
        for source, weight, gradient, groups in ((x, w, g, 256), (big, kernel, rand(2, 16, 32, 32, seed=4), 1)):
            common = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False, "groups": groups}
            common |= {"outputPadding": [0, 0]}
            y = nn.conv2d(source, weight, padding=1, groups=groups)
            compare(
                npu,
                "aclnnConvolution",
                {"input": source, "weight": weight, **common},
                {"output": y},
                rtol=1e-4,
                atol=1e-4,
            )
            gi, gw, gb = A.convolution_backward(
                gradient, source, weight, [weight.shape[0]], [1, 1], [1, 1], [1, 1], False, [0, 0], groups, [True] * 3
            )
            compare(
                npu,
                "aclnnConvolutionBackward",
                {
                    "gradOutput": gradient,
                    "input": source,
                    "weight": weight,
                    "biasSizes": [weight.shape[0]],
                    "outputMask": [True] * 3,
                    **common,
                },
                {"gradInput": gi, "gradWeight": gw, "gradBias": gb},
                rtol=1e-4,
                atol=1e-3,
            )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_integers(npu, dtype, groups):
    generator = torch.Generator().manual_seed(6)
    for dims in (2, 3):
        x = torch.randint(-128, 127, (2, 4, *(5, 6, 7)[:dims]), generator=generator, dtype=torch.int8)
        weight = torch.randint(-128, 127, (6, 4 // groups, *(3, 2, 2)[:dims]), generator=generator, dtype=torch.int8)
        scale, bias = torch.rand(6, generator=generator) * 1e-3, rand(6, dtype=dtype)
        stride, padding, dilation = [2] * dims, [1] * dims, [1] * dims
        convolution = (torch.nn.functional.conv2d, torch.nn.functional.conv3d)[dims - 2]
        column = (1, 6, *[1] * dims)
        results = []
        for around in (0, 3):
            padded = torch.nn.functional.pad(x.double(), [1] * 2 * dims, value=around)
            y = convolution(padded, weight.double(), None, stride, 0, dilation, groups)
            results.append((y * scale.double().view(column) + bias.double().view(column)).to(dtype))
        inputs = {"input": x, "weight": weight, "bias": bias, "scale": scale, "stride": stride, "padding": padding,
                  "dilation": dilation, "groups": groups}  # fmt: skip
        compare(npu, "aclnnQuantConvolution", inputs, {"output": results[0]})
        compare(npu, "aclnnQuantConvolution", inputs | {"offsetx": 3}, {"output": results[1]})
        compare(npu, "aclnnQuantConvolution", inputs | {"roundMode": "rint"}, {"output": results[0]})
        with pytest.raises(AclError, match="roundMode round is not implemented; rint is"):
            compare(npu, "aclnnQuantConvolution", inputs | {"roundMode": "round"}, {"output": results[0]})
        with pytest.raises(AclError, match="transposed and offset are not implemented"):
            compare(npu, "aclnnQuantConvolution", inputs | {"transposed": True}, {"output": results[0]})
