"""LSTM cells and sequences, forward and backward, against CPU PyTorch."""

from __future__ import annotations

import torch

from tests.opapi.cases import compare, rand

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


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
