"""Layers forward and backward against CPU PyTorch: products, convolution, pooling, norms, softmax, losses, cells."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

from tests.opapi.cases import compare, rand

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16, torch.float64, torch.int64])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul(npu, dtype, transposed):
    a, b = (rand(7, 5) * 3).to(dtype), (rand(5, 6) * 3).to(dtype)
    if transposed:
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    compare(npu, "aclnnMm", {"self": a, "mat2": b}, {"out": a @ b})
    compare(npu, "aclnnMatmul", {"self": a[0], "mat2": b}, {"out": a[0] @ b})


def test_batched_and_added_products(npu):
    a, b, c = rand(3, 4, 5), rand(3, 5, 6), rand(3, 4, 6)
    compare(npu, "aclnnBatchMatMul", {"self": a, "mat2": b}, {"out": a @ b})
    compare(
        npu,
        "aclnnBaddbmm",
        {"self": c, "batch1": a, "batch2": b, "beta": 0.5, "alpha": 2.0},
        {"out": torch.baddbmm(c, a, b, beta=0.5, alpha=2)},
    )
    compare(
        npu,
        "aclnnAddmm",
        {"self": c[0, 0], "mat1": a[0], "mat2": b[0], "beta": 1, "alpha": 1},
        {"out": torch.addmm(c[0, 0], a[0], b[0])},
    )
    compare(npu, "aclnnMv", {"self": a[0], "vec": b[0, :, 0]}, {"out": a[0] @ b[0, :, 0]})
    compare(npu, "aclnnDot", {"self": a[0, 0], "tensor": b[0, :, 0]}, {"out": a[0, 0] @ b[0, :, 0]})


def test_half_products_round_once(npu):
    a, b = rand(33, 257, dtype=HALF), rand(257, 18, dtype=HALF)
    compare(npu, "aclnnMm", {"self": a, "mat2": b}, {"out": (a.float() @ b.float()).half()}, rtol=0, atol=0)


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
    expected = A.max_pool2d_with_indices_backward(g, x, [k, k], [s, s], [p, p], [d, d], False, i)
    compare(
        npu,
        "aclnnMaxPool2dWithIndicesBackward",
        {"gradOutput": g, "self": x, "indices": i.to(itype), **attributes},
        {"gradInput": expected},
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
    g = rand(4, 3, 5, dtype=dtype)
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
    g = rand(4, 6, 8, dtype=dtype)
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
    g = rand(4, 6, 8)
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
    g = rand(6, 3, 5)
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


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax(npu, dim, dtype):
    x, g = rand(5, 7, dtype=dtype), rand(5, 7, dtype=dtype)
    y, ly = x.softmax(dim), x.log_softmax(dim)
    compare(npu, "aclnnSoftmax", {"self": x, "dim": dim}, {"out": y})
    compare(npu, "aclnnLogSoftmax", {"self": x, "dim": dim}, {"out": ly})
    compare(
        npu,
        "aclnnSoftmaxBackward",
        {"gradOutput": g, "output": y, "dim": dim},
        {"out": A._softmax_backward_data(g, y, dim, dtype)},
    )
    compare(
        npu,
        "aclnnLogSoftmaxBackward",
        {"gradOutput": g, "output": ly, "dim": dim},
        {"out": A._log_softmax_backward_data(g, ly, dim, dtype)},
    )


@pytest.mark.parametrize("itype", [torch.int64, torch.int32])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss(npu, reduction, itype):
    x, t, w = rand(6, 4).log_softmax(1), torch.tensor([0, 3, 1, 1, 2, 0]), torch.tensor([1.0, 2.0, 0.5, 1.5])
    out, total = A.nll_loss_forward(x, t, w, reduction, 1)
    compare(
        npu,
        "aclnnNLLLoss",
        {"self": x, "target": t.to(itype), "weight": w, "reduction": reduction, "ignoreIndex": 1},
        {"out": out, "totalWeightOut": total},
    )
    g = rand(*out.shape)
    compare(
        npu,
        "aclnnNLLLossBackward",
        {
            "gradOutput": g,
            "self": x,
            "target": t.to(itype),
            "weight": w,
            "reduction": reduction,
            "ignoreIndex": 1,
            "totalWeight": total,
        },
        {"out": A.nll_loss_backward(g, x, t, w, reduction, 1, total)},
    )


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(npu, reduction):
    x, t = rand(4, 5, seed=1).requires_grad_(), rand(4, 5, seed=2)
    p, q = torch.sigmoid(rand(4, 5, seed=3)).requires_grad_(), torch.sigmoid(rand(4, 5, seed=4))
    r = {0: "none", 1: "mean", 2: "sum"}[reduction]
    cases = [
        ("MseLoss", "MseLossBackward", nn.mse_loss(x, t, reduction=r), x, t, {}, "out", "out"),
        ("L1Loss", "L1LossBackward", nn.l1_loss(x, t, reduction=r), x, t, {}, "out", "gradInput"),
        (
            "SmoothL1Loss",
            "SmoothL1LossBackward",
            nn.smooth_l1_loss(x, t, reduction=r, beta=0.5),
            x,
            t,
            {"beta": 0.5},
            "result",
            "gradInput",
        ),
        (
            "BinaryCrossEntropy",
            "BinaryCrossEntropyBackward",
            nn.binary_cross_entropy(p, q, reduction=r),
            p,
            q,
            {},
            "out",
            "out",
        ),
        (
            "BinaryCrossEntropyWithLogits",
            "BinaryCrossEntropyWithLogitsBackward",
            nn.binary_cross_entropy_with_logits(x, q, reduction=r),
            x,
            q,
            {},
            "out",
            "out",
        ),
        ("KlDiv", "KlDivBackward", nn.kl_div(x, q, reduction=r), x, q, {}, "out", "out"),
        (
            "SoftMarginLoss",
            "SoftMarginLossBackward",
            nn.soft_margin_loss(x, t.sign(), reduction=r),
            x,
            t.sign(),
            {},
            "out",
            "out",
        ),
    ]
    for forward, backward, y, source, target, extra, out, grad in cases:
        if "aclnn" + forward not in npu.signatures:
            continue
        inputs = {"self": source.detach(), "target": target, "reduction": reduction, **extra}
        compare(npu, "aclnn" + forward, inputs, {out: y.detach()})
        g = rand(*y.shape)
        (expected,) = torch.autograd.grad(y, source, g)
        first = npu.signatures["aclnn" + backward][0].name
        compare(npu, "aclnn" + backward, {first: g, **inputs}, {grad: expected})


def test_lstm_cell(npu):
    a, b, c = rand(3, 16).requires_grad_(), rand(3, 16, seed=1), rand(3, 4).requires_grad_()
    i, f, g, o = (a + b).chunk(4, 1)
    cy = f.sigmoid() * c + i.sigmoid() * g.tanh()
    hy = o.sigmoid() * cy.tanh()
    storage = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1).detach()
    compare(
        npu,
        "aclnnThnnFusedLstmCell",
        {"inputGates": a.detach(), "hiddenGates": b, "cx": c.detach()},
        {"hyOut": hy.detach(), "cyOut": cy.detach(), "storageOut": storage},
    )
    gh, gc = rand(3, 4, seed=5), rand(3, 4, seed=6)
    ga, gcx = torch.autograd.grad((hy, cy), (a, c), (gh, gc))
    compare(
        npu,
        "aclnnThnnFusedLstmCellBackward",
        {
            "gradHyOptional": gh,
            "gradCOptional": gc,
            "cx": c.detach(),
            "cy": cy.detach(),
            "storage": storage,
            "hasBias": True,
        },
        {"gradGatesOut": ga, "gradCxOut": gcx, "gradBiasOut": ga.sum(0)},
    )


def test_lstm(npu):
    layer, x = torch.nn.LSTM(4, 5, 2), rand(3, 2, 4).requires_grad_()
    hx = [rand(2, 2, 5, seed=1).requires_grad_(), rand(2, 2, 5, seed=2).requires_grad_()]
    params = [
        layer.get_parameter(f"{name}_l{i}")
        for i in range(2)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    y, (hy, cy) = layer(x, tuple(hx))
    plain = [p.detach() for p in params]
    steps: dict[str, list[torch.Tensor]] = {name: [] for name in ("i", "j", "f", "o", "h", "c", "tanhc")}
    inputs = x.detach()
    for w_ih, w_hh, b_ih, b_hh, h, c in (
        (*plain[4 * i : 4 * i + 4], hx[0][i].detach(), hx[1][i].detach()) for i in range(2)
    ):
        rows: dict[str, list[torch.Tensor]] = {name: [] for name in steps}
        for now in inputs:
            i, f, g, o = (now @ w_ih.T + h @ w_hh.T + b_ih + b_hh).chunk(4, 1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            c = f * c + i * g
            h = o * c.tanh()
            for name, value in zip(steps, (i, g, f, o, h, c, c.tanh()), strict=True):
                rows[name].append(value)
        for name, values in rows.items():
            steps[name].append(torch.stack(values))
        inputs = steps["h"][-1]
    common = {
        "hasBias": True,
        "numLayers": 2,
        "dropout": 0.0,
        "train": True,
        "bidirectional": False,
        "batchFirst": False,
    }
    compare(
        npu,
        "aclnnLSTM",
        {"input": x.detach(), "params": plain, "hx": [h.detach() for h in hx], **common},
        {"output": y.detach(), "hy": hy.detach(), "cy": cy.detach()}
        | {("tanhC" if name == "tanhc" else name) + "Out": values for name, values in steps.items()},
    )
    dy, dh, dc = rand(*y.shape, seed=3), rand(*hy.shape, seed=4), rand(*cy.shape, seed=5)
    dx, dh0, dc0, *dparams = torch.autograd.grad((y, hy, cy), (x, *hx, *params), (dy, dh, dc))
    compare(
        npu,
        "aclnnLstmBackward",
        {"input": x.detach(), "hx": [h.detach() for h in hx], "params": plain, "dy": dy, "dh": dh, "dc": dc}
        | {("g" if name == "j" else name): values for name, values in steps.items()}
        | common
        | {"outputMask": [True] * 4},
        {"dxOut": dx, "dhPrevOut": dh0, "dcPrevOut": dc0, "dparamsOut": dparams},
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
