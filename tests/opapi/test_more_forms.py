"""More forms: rotation by a matrix, Adam with its powers, groups, kinds of experts, windows of rows, convolutions."""

from __future__ import annotations

import math

import pytest
import torch

from tests.opapi.cases import compare, rand
from tests.opapi.client import AclError

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
CLOSE = {torch.float32: {"rtol": 1e-4, "atol": 1e-5}}
LOOSE = {"rtol": 2e-2, "atol": 2e-2}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (3, 5, 6)])
def test_rotation_by_a_matrix(npu, dtype, shape):
    """The matrix of halves is the rotation of the first version: (a, b) becomes (-b, a)."""
    x, cos, sin = rand(*shape, dtype=dtype), rand(1, *shape[1:], dtype=dtype), rand(1, *shape[1:], dtype=dtype, seed=1)
    rotate = torch.zeros(6, 6, dtype=dtype)
    rotate[3:, :3], rotate[:3, 3:] = -torch.eye(3), torch.eye(3)
    a, b = x.double().chunk(2, -1)
    expected = (x.double() * cos.double() + torch.cat([-b, a], -1) * sin.double()).to(dtype)
    inputs = {"x": x, "cos": cos, "sin": sin, "rotate": rotate}
    compare(npu, "aclnnRotaryPositionEmbeddingV2", inputs, {"out": expected}, **CLOSE.get(dtype, LOOSE))
    with pytest.raises(AclError, match="mode 4 is not 0 to 3"):
        compare(npu, "aclnnRotaryPositionEmbeddingV2", inputs | {"mode": 4}, {"out": expected})


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
        torch.testing.assert_close(results[name], want.to(dtype), **CLOSE.get(dtype, LOOSE))


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_of_groups_by_numbers(npu, dtype):
    x, weight, bias = rand(5, 3, dtype=dtype), rand(2, 3, 4, dtype=dtype), rand(2, 4, dtype=dtype)
    wide = torch.cat([x[:2].float() @ weight[0].float() + bias[0].float(),
                      x[2:].float() @ weight[1].float() + bias[1].float()])  # fmt: skip
    near = CLOSE.get(dtype, LOOSE)
    common = {"x": [x], "weight": [weight], "biasOptional": [bias]}
    compare(
        npu,
        "aclnnGroupedMatmul",
        common | {"groupListOptional": [2, 5], "splitItem": 3},
        {"y": [wide.to(dtype)]},
        **near,
    )
    parts = {"y": [wide[:2].to(dtype), wide[2:].to(dtype)]}
    compare(npu, "aclnnGroupedMatmul", common | {"groupListOptional": [2, 5], "splitItem": 0}, parts, **near)
    pairs = {"x": [x[:2], x[2:]], "weight": [weight[0], weight[1]], "biasOptional": [bias[0], bias[1]]}
    compare(npu, "aclnnGroupedMatmul", pairs | {"splitItem": 0}, parts, **near)
    by_counts = common | {"groupListOptional": torch.tensor([2, 3]), "groupListType": 1, "groupType": 0, "splitItem": 3}
    compare(npu, "aclnnGroupedMatmulWeightNz", by_counts, {"out": [wide.to(dtype)]}, **near)
    with pytest.raises(AclError, match="splitItem 4 is not 0 to 3"):
        compare(npu, "aclnnGroupedMatmul", pairs | {"splitItem": 4}, parts)
    with pytest.raises(AclError, match="quantGroupSize is 32, and a weight of"):
        compare(npu, "aclnnGroupedMatmulWeightNz", by_counts | {"quantGroupSize": 32}, {"out": [wide.to(dtype)]})
    with pytest.raises(AclError, match="antiquantScale does not go with x of"):
        compare(npu, "aclnnGroupedMatmul", pairs | {"splitItem": 0, "antiquantScaleOptional": [bias[0]]}, parts)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 2])
def test_experts_that_are_no_networks(npu, dtype, mode):
    """Experts 0 and 1 are networks, 2 is zero, 3 copies, 4 mixes with a constant; a row of -1 has been dropped."""
    rows, h, choices = 4, 3, 2
    expanded, x, x1, bias = (rand(n, h, dtype=dtype, seed=n) for n in (6, rows, rows, 5))
    scales = rand(rows, choices, dtype=dtype)
    alpha1, alpha2, v = (rand(1, h, dtype=dtype, seed=20 + s) for s in range(3))
    experts = torch.tensor([[0, 2], [3, 1], [4, 0], [1, 1]], dtype=torch.int32)
    places = torch.tensor([[0, -1], [-1, 1], [-1, 2], [-1, 5]], dtype=torch.int32)
    want = x1.double()
    for i in range(rows):
        for j in range(choices):
            expert, place = int(experts[i, j]), int(places[i, j])
            if expert == 2:
                continue
            value = {3: x[i].double(), 4: alpha1[0].double() * x[i] + alpha2[0].double() * v[0]}.get(
                expert, expanded[place].double() if place >= 0 else torch.zeros(h, dtype=torch.float64)
            )
            want[i] += scales[i, j].double() * (value + bias[expert].double())
    order = places.t().flatten() if mode == 0 else places.flatten()
    inputs = {
        "expandedX": expanded, "expandedRowIdx": order.contiguous(), "x1Optional": x1, "biasOptional": bias,
        "scalesOptional": scales, "expertIdxOptional": experts, "xOptional": x, "a1Optional": alpha1,
        "a2Optional": alpha2, "vOptional": v, "dropPadMode": mode, "zeroExpertRange": [2, 3],
        "copyExpertRange": [3, 4], "constantExpertRange": [4, 5], "k": choices,
    }  # fmt: skip
    near = CLOSE.get(dtype, LOOSE)
    compare(npu, "aclnnMoeFinalizeRoutingV4", inputs, {"out": want.to(dtype)}, **near)
    with pytest.raises(AclError, match="dropPadMode 4 is not 0 to 3"):
        compare(npu, "aclnnMoeFinalizeRoutingV4", inputs | {"dropPadMode": 4}, {"out": want.to(dtype)})
    with pytest.raises(AclError, match="constant experts need a1, a2 and v"):
        compare(npu, "aclnnMoeFinalizeRoutingV4", inputs | {"vOptional": None}, {"out": want.to(dtype)})


@pytest.mark.parametrize("dtype", FLOATS)
def test_windows_of_rows_and_their_gradients(npu, dtype):
    """Sequences of 7, 2 and 5 rows, windows of 4 every 2: two, none and one."""
    x, weight = rand(14, 2, 3, dtype=dtype), rand(4, 2, dtype=dtype)
    a, w = x.double().requires_grad_(), weight.double().requires_grad_()
    out = torch.stack([(a[s : s + 4] * w[:, :, None]).sum(0) for s in (0, 2, 9)])
    near = CLOSE.get(dtype, LOOSE)
    sizes = {"compressBlockSize": 4, "compressStride": 2, "actSeqLenType": 0}
    inputs = {"input": x, "weight": weight, "actSeqLenOptional": [7, 9, 14], "layoutOptional": "TND"} | sizes
    compare(npu, "aclnnNsaCompress", inputs, {"output": out.detach().to(dtype)}, **near)
    gradient = rand(3, 2, 3, dtype=dtype, seed=5)
    dx, dw = torch.autograd.grad(out, (a, w), gradient.double())
    backward = {"outputGrad": gradient, "input": x, "weight": weight, "actSeqLenOptionalOptional": [7, 9, 14]} | sizes
    backward["layoutOptionalOptional"] = "TND"
    expected = {"inputGradOut": dx.to(dtype), "weightGradOut": dw.to(dtype)}
    compare(npu, "aclnnNsaCompressGrad", backward, expected, **near)
    for changed, words in (({"actSeqLenOptional": [7, 9]}, "is \\[7, 9\\]"), ({"layoutOptional": "BSND"}, "is not TND"),
                           ({"actSeqLenType": 1}, "actSeqLenType 1 is not implemented")):  # fmt: skip
        with pytest.raises(AclError, match=words):
            compare(npu, "aclnnNsaCompress", inputs | changed, {"output": out.detach().to(dtype)})


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


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_with_quantization(npu, dtype, approximate):
    x, scale, offset = rand(3, 2, 5, dtype=dtype) * 3, rand(5, dtype=dtype).abs() * 9, rand(1, dtype=dtype)
    y = torch.nn.functional.gelu(x.float(), approximate=approximate) * scale.float()
    inputs = {"self": x, "inputScaleOptional": scale, "approximate": approximate, "roundMode": "rint", "dstType": 2}
    fixed = (y + offset.float()).round().clamp(-128, 127).to(torch.int8)
    compare(npu, "aclnnGeluQuant", inputs | {"inputOffsetOptional": offset, "quantMode": "static"}, {"y": fixed})
    step = y.abs().amax(-1) / 127
    expected = {"y": (y / step[..., None]).round().to(torch.int8), "outScaleOptional": step}
    compare(npu, "aclnnGeluQuant", inputs | {"quantMode": "dynamic"}, expected)
    with pytest.raises(AclError, match="roundMode hybrid is not implemented"):
        compare(npu, "aclnnGeluQuant", inputs | {"quantMode": "dynamic", "roundMode": "hybrid"}, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("centred", [False, True])
def test_the_complete_overlap_of_boxes(npu, dtype, centred):
    a = torch.tensor([[0, 0, 4, 4], [1, 1, 3, 2], [5, 5, 6, 7]], dtype=torch.float64)
    b = torch.tensor([[2, 2, 6, 5], [0, 0, 4, 4], [8, 8, 9, 9]], dtype=torch.float64)

    def overlap(p, q):
        (px, py, pX, pY), (qx, qy, qX, qY) = p.tolist(), q.tolist()
        both = max(min(pX, qX) - max(px, qx), 0) * max(min(pY, qY) - max(py, qy), 0)
        iou = both / ((pX - px) * (pY - py) + (qX - qx) * (qY - qy) - both)
        distance = ((px + pX - qx - qX) / 2) ** 2 + ((py + pY - qy - qY) / 2) ** 2
        diagonal = (max(pX, qX) - min(px, qx)) ** 2 + (max(pY, qY) - min(py, qy)) ** 2
        turn = math.atan((qX - qx) / (qY - qy)) - math.atan((pX - px) / (pY - py))
        v = 4 / math.pi**2 * turn**2
        return iou - distance / diagonal - (v / (1 - iou + v) * v if v else 0), turn

    given = lambda t: torch.cat([(t[:, :2] + t[:, 2:]) / 2, t[:, 2:] - t[:, :2]], 1) if centred else t
    boxes = {"bBoxes": given(a).t().contiguous().to(dtype), "gtBoxes": given(b).t().contiguous().to(dtype)}
    inputs = boxes | {"trans": centred, "mode": "iou"}
    pairs = torch.tensor([overlap(p, q) for p, q in zip(a, b, strict=True)])
    rows = pairs.to(dtype).T.unsqueeze(1)
    near = CLOSE.get(dtype, {"rtol": 1e-2, "atol": 1e-3})
    one = {"overlap": rows[0], "atanSub": rows[1]}
    compare(npu, "aclnnCIoU", inputs, one, **near)
    every = {name: torch.zeros(3, 3, dtype=dtype) for name in one}
    for changed, results, words in (
        ({"mode": "iof"}, one, "mode iof is not implemented"),
        ({"isCross": True}, every, "isCross is true; only false is supported"),
        ({"gtBoxes": boxes["gtBoxes"][:, :2].contiguous()}, one, r"gtBoxes must have sizes .*got \[4, 2\]"),
        ({}, every, r"overlap must have sizes .*got \[3, 3\]"),
    ):
        with pytest.raises(AclError, match=words) as error:
            compare(npu, "aclnnCIoU", inputs | changed, results)
        assert error.value.status == 161002


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_the_weights_of_streams(npu, dtype):
    n, d, tokens, eps = 3, 4, 5, 1e-3
    x, phi, alpha, gamma = rand(tokens, n, d, dtype=dtype), rand(15, n * d), rand(3), rand(n, d)
    leaves = [t.double().requires_grad_() for t in (x, phi, alpha, rand(15, seed=3), gamma)]
    a, p, scale, bias, by = leaves
    flat = a.flatten(1)
    inv = (flat.square().mean(1) + 1e-6) ** -0.5
    mix = (flat * by.flatten()) @ p.t()
    w = mix * inv[:, None]
    pre = torch.sigmoid(w[:, :n] * scale[0] + bias[:n]) + eps
    post = 2 * torch.sigmoid(w[:, n : 2 * n] * scale[1] + bias[n : 2 * n])
    res = (w[:, 2 * n :] * scale[2] + bias[2 * n :]).reshape(tokens, n, n)
    out = ((pre[:, :, None] * a).sum(1), post, res)
    grads = rand(tokens, d, dtype=dtype, seed=1), rand(tokens, n, seed=2), rand(tokens, n, n, seed=3)
    more = rand(tokens, n, d, dtype=dtype, seed=4)
    wanted = torch.autograd.grad(out, leaves, [g.double() for g in grads])
    inputs = {
        "x": x, "phi": phi, "alpha": alpha, "gamma": gamma, "hcEps": eps, "gradHIn": grads[0], "gradHPost": grads[1],
        "gradHRes": grads[2], "gradXPostOptional": more, "invRms": inv.detach().float(), "hMix": mix.detach().float(),
        "hPre": pre.detach().float(), "hPost": post.detach().float(),
    }  # fmt: skip
    expected = {"gradX": (wanted[0] + more.double()).to(dtype), "gradPhi": wanted[1].float(),
                "gradAlpha": wanted[2].float(), "gradBias": wanted[3].float(), "gradGamma": wanted[4].float(),
    }  # fmt: skip
    near = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 5e-2}
    compare(npu, "aclnnMhcPreBackward", inputs, expected, **near)
    with pytest.raises(AclError, match="alpha has 2 elements, 3 are expected"):
        compare(npu, "aclnnMhcPreBackward", inputs | {"alpha": alpha[:2]}, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_quantized_scatter_that_names_its_rounding(npu, dtype):
    cache, updates = torch.zeros(2, 6, 4, dtype=torch.int8), rand(2, 3, 4, dtype=dtype)
    scales, zero = torch.rand(4) * 0.1 + 0.05, torch.tensor([1, -2, 0, 3], dtype=torch.int32)
    start = torch.tensor([1, 3], dtype=torch.int32)
    expected = cache.clone()
    for b in range(2):
        value = (updates[b].float() / scales).round() + zero
        expected[b, start[b] : start[b] + 3] = value.clamp(-128, 127).to(torch.int8)
    inputs = {"selfRef": cache, "indices": start, "updates": updates, "quantScales": scales, "quantZeroPoints": zero,
              "axis": 1, "quantAxis": -1, "reduction": 1}  # fmt: skip
    assert torch.equal(npu.call("aclnnInplaceQuantScatterV2", **inputs, roundMode="rint")["selfRef"], expected)
    with pytest.raises(AclError, match="roundMode hybrid is not implemented"):
        npu.call("aclnnInplaceQuantScatterV2", **inputs, roundMode="hybrid")
