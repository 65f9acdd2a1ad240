"""Recurrent networks under the vendor's old names: values and gradients of torch.lstm and torch.gru in fp64."""

from __future__ import annotations

import pytest
import torch
from torch import _VF

import torch_npu

from .compare import FLOATING, assert_close, check

STEPS, BATCH, COLUMNS, HIDDEN = 4, 3, 5, 2


def weights(gates: int, *rows: int) -> list[torch.Tensor]:
    return [torch.randn(n, gates * HIDDEN) * 0.5 for n in rows]


def gates_of(x, h, c, w):
    """The gates, cell states and hidden states of each step, from the formula."""
    found = []
    for step in x:
        i, f, j, o = (torch.cat([step, h], -1) @ w[0] + w[1]).chunk(4, -1)
        i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
        c = f * c + i * j
        h = o * c.tanh()
        found.append((h, h, c, i, j, f, o, c.tanh()))
    return tuple(torch.stack(each) for each in zip(*found, strict=True))


def lstm_operands():
    torch.manual_seed(1)
    weight = torch.cat(weights(4, COLUMNS, HIDDEN))
    state = [torch.randn(1, BATCH, HIDDEN) for _ in range(2)]
    return [torch.randn(STEPS, BATCH, COLUMNS), weight, torch.randn(4 * HIDDEN), *state]


@pytest.mark.parametrize("direction", [False, True])
def test_lstm(direction):
    mask = torch.tensor([STEPS], dtype=torch.int32)

    def ours(x, w, b, h, c):
        return torch_npu.npu_lstm(x, w, b, mask.to(x.device), h, c, True, 1, 0.0, True, False, False, False, direction)[
            :3
        ]

    def reference(x, w, b, h, c):
        x = x.flip(0) if direction else x
        found = gates_of(x, h[0], c[0], (w, b))[:3]
        return tuple(t.flip(0) if direction else t for t in found)

    check(ours, reference, lstm_operands())


def test_lstm_is_that_of_torch():
    x, w, b, h, c = (t.double() for t in lstm_operands())
    params = (w[:COLUMNS].t(), w[COLUMNS:].t(), b, torch.zeros_like(b))
    y, hy, cy = _VF.lstm(x, (h, c), params, True, 1, 0.0, True, False, False)
    mask = torch.tensor([STEPS]).int()
    got = torch_npu.npu_lstm(*(t.npu() for t in (x, w, b, mask, h, c)), True, 1, 0.0, True, False, False, False, False)
    assert_close(got[0], y, torch.float64, "y")
    assert_close(got[1][-1:], hy, torch.float64, "h")
    assert_close(got[2][-1:], cy, torch.float64, "c")


def test_what_an_lstm_leaves_and_its_backward():
    x, w, b, h, c = (t.double().requires_grad_() for t in lstm_operands())
    left = gates_of(x, h[0], c[0], (w, b))
    mask = torch.tensor([STEPS]).int()
    got = torch_npu.npu_lstm(
        *(t.detach().npu() for t in (x, w, b, mask, h, c)), True, 1, 0.0, True, False, False, False, False
    )
    for g, e in zip(got, left, strict=True):
        assert_close(g, e, torch.float64, "what a step leaves")
    of_y, last_h, of_c = torch.randn_like(left[0]), torch.randn(1, BATCH, HIDDEN).double(), torch.randn_like(left[2])
    loss = (left[0] * of_y).sum() + (left[1][-1:] * last_h).sum() + (left[2] * of_c).sum()
    expected = torch.autograd.grad(loss, (x, w, b, h, c))
    given = [t.detach().npu() for t in (of_y, last_h, of_c, x, w, b, h, c)]
    for g, e in zip(torch_npu.npu_lstm_backward(*given, *got), expected, strict=True):
        assert_close(g, e, torch.float64, "gradient")


@pytest.mark.parametrize("biased", [True, False])
def test_lstm_cell(biased):
    torch.manual_seed(2)
    w_ih, w_hh = weights(4, COLUMNS, HIDDEN)
    biases = [torch.randn(4 * HIDDEN), torch.randn(4 * HIDDEN)] if biased else []
    args = [torch.randn(BATCH, COLUMNS), w_ih, w_hh, torch.randn(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN), *biases]

    def reference(x, w_ih, w_hh, h, c, b_ih=None, b_hh=None):
        h, c = _VF.lstm_cell(x, (h, c), w_ih.t(), w_hh.t(), b_ih, b_hh)
        return h, h, c

    check(lambda *a: torch_npu.npu_lstm_cell(*a)[:3], reference, args)


def test_lstm_cell_backward():
    torch.manual_seed(3)
    w_ih, w_hh = weights(4, COLUMNS, HIDDEN)
    args = [torch.randn(BATCH, COLUMNS), w_ih, w_hh, torch.randn(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN)]
    leaves = [t.double().requires_grad_() for t in (*args, torch.randn(4 * HIDDEN), torch.randn(4 * HIDDEN))]
    x, w_ih, w_hh, h, c, b_ih, b_hh = leaves
    hy, cy = _VF.lstm_cell(x, (h, c), w_ih.t(), w_hh.t(), b_ih, b_hh)
    seeds = [torch.randn_like(hy), torch.randn_like(hy), torch.randn_like(cy)]
    expected = torch.autograd.grad((hy * (seeds[0] + seeds[1])).sum() + (cy * seeds[2]).sum(), leaves)
    ours = [t.detach().npu() for t in leaves]
    got = torch_npu.npu_lstm_cell_backward(*(s.npu() for s in seeds), *ours[:5], *torch_npu.npu_lstm_cell(*ours))
    order = [0, 1, 2, 5, 6, 3, 4]  # input, w_ih, w_hh, b_ih, b_hh, h, c
    for g, at in zip(got, order, strict=True):
        assert_close(g, expected[at], torch.float64, f"gradient {at}")


def gru_operands():
    torch.manual_seed(4)
    biases = [torch.randn(3 * HIDDEN) for _ in range(2)]
    state = torch.randn(1, BATCH, HIDDEN)
    return [torch.randn(STEPS, BATCH, COLUMNS), state, *weights(3, COLUMNS, HIDDEN), *biases]


def test_gru():
    lengths = torch.tensor([STEPS], dtype=torch.int32)

    def ours(*args):
        return torch_npu.npu_gru(*args, lengths.to(args[0].device), True, 1, 0.0, True, False, False)[:2]

    def reference(x, h, w_ih, w_hh, b_ih, b_hh):
        y, _ = _VF.gru(x, h, (w_ih.t(), w_hh.t(), b_ih, b_hh), True, 1, 0.0, True, False, False)
        return y, y

    check(ours, reference, gru_operands())


def test_gru_backward():
    leaves = [t.double().requires_grad_() for t in gru_operands()]
    x, h, w_ih, w_hh, b_ih, b_hh = leaves
    y, _ = _VF.gru(x, h, (w_ih.t(), w_hh.t(), b_ih, b_hh), True, 1, 0.0, True, False, False)
    of_y, of_h = torch.randn_like(y), torch.randn_like(y)
    expected = torch.autograd.grad((y * (of_y + of_h)).sum(), (w_ih, w_hh, x, b_ih, b_hh, h))
    lengths = torch.tensor([STEPS]).int().npu()
    ours = [t.detach().npu() for t in leaves]
    left = torch_npu.npu_gru(*ours, lengths, True, 1, 0.0, True, False, False)
    given = [of_y.npu(), of_h.npu(), ours[0], *ours[2:], lengths, ours[1]]
    for g, e in zip(torch_npu.npu_gru_backward(*given, *left), expected, strict=True):
        assert_close(g, e, torch.float64, "gradient")
    r, z = ((x[0] @ w_ih + b_ih + h[0] @ w_hh + b_hh)[:, : 2 * HIDDEN]).sigmoid().chunk(2, -1)
    assert_close(left[2][0], z, torch.float64, "the update gate")
    assert_close(left[3][0], r, torch.float64, "the reset gate")
    assert_close(left[5][0], (h[0] @ w_hh + b_hh)[:, 2 * HIDDEN :], torch.float64, "the state's part of the new gate")


def network(gates: int, layers: int, ways: int, biased: bool) -> list[torch.Tensor]:
    params = []
    for layer in range(layers):
        columns = COLUMNS if layer == 0 else HIDDEN * ways
        for _ in range(ways):
            params += [torch.randn(gates * HIDDEN, columns) * 0.5, torch.randn(gates * HIDDEN, HIDDEN) * 0.5]
            params += [torch.randn(gates * HIDDEN) for _ in range(2)] if biased else []
    return params


SHAPES = [(1, False, True, False), (2, True, True, True), (2, False, False, True), (1, True, False, False)]


@pytest.mark.parametrize("dtype", [torch.float64, *FLOATING])
@pytest.mark.parametrize(("layers", "two_ways", "biased", "batch_first"), SHAPES)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_layers(kind, layers, two_ways, biased, batch_first, dtype):
    torch.manual_seed(5)
    ways = 2 if two_ways else 1
    x = torch.randn(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), COLUMNS).to(dtype)
    hx = [torch.randn(layers * ways, BATCH, HIDDEN).to(dtype) for _ in range(2 if kind == "lstm" else 1)]
    params = [t.to(dtype) for t in network(4 if kind == "lstm" else 3, layers, ways, biased)]
    leaves = [t.double().requires_grad_() for t in (x, *hx, *params)]
    state = leaves[1 : 1 + len(hx)]
    run = getattr(_VF, kind)
    settings = (biased, layers, 0.0, True, two_ways)
    results = run(leaves[0], state if kind == "lstm" else state[0], leaves[1 + len(hx) :], *settings, batch_first)
    seeds = [torch.randn(t.shape).to(dtype) for t in results]
    loss = sum((r * s.double()).sum() for r, s in zip(results, seeds, strict=True))
    expected = torch.autograd.grad(loss, leaves)

    mine = [t.npu().requires_grad_() for t in (x, *hx, *params)]
    states = mine[1 : 1 + len(hx)]
    operands = (mine[0], states if kind == "lstm" else states[0], mine[1 + len(hx) :])
    got = getattr(torch.ops.npu, f"_{kind}_npu")(*operands, *settings, batch_first=batch_first)
    for g, e in zip(got, results, strict=False):
        assert_close(g, e, dtype, f"result of {kind}")
    on_npu = [s.npu() for s in seeds]
    derived = torch.autograd.grad(got[: len(seeds)], mine, on_npu)
    backward = getattr(torch.ops.npu, f"_{kind}_npu_backward")
    with torch.no_grad():
        found = backward(*on_npu, *operands, *got[len(seeds) :], *settings, batch_first=batch_first)
    flat = [found[0], *(found[1] if kind == "lstm" else [found[1]]), *found[2]]
    for d, f, e in zip(derived, flat, expected, strict=True):
        assert_close(d, e, dtype, "derived gradient")
        assert_close(f, e, dtype, "gradient from what was left")
        assert f.dtype == dtype
    with torch.device("meta"):
        described = getattr(torch.ops.npu, f"_{kind}_npu")(
            mine[0].detach().to("meta"),
            [t.detach().to("meta") for t in states] if kind == "lstm" else states[0].detach().to("meta"),
            [t.detach().to("meta") for t in operands[2]],
            *settings,
            batch_first=batch_first,
        )
    assert [(t.shape, t.dtype) for t in described] == [(t.shape, t.dtype) for t in got]


def test_what_the_old_forms_do_not_take_is_refused():
    args = [t.npu() for t in lstm_operands()]
    mask = torch.tensor([STEPS]).int().npu()
    call = lambda *rest: torch_npu.npu_lstm(*args[:3], mask, *args[3:], True, *rest)
    with pytest.raises(NotImplementedError, match="more than one layer"):
        call(2, 0.0, True, False, False, False, False)
    with pytest.raises(NotImplementedError, match="dropout is not implemented"):
        call(1, 0.5, True, False, False, False, False)
    with pytest.raises(NotImplementedError, match="batch_first is not implemented"):
        call(1, 0.0, True, False, True, False, False)
    with pytest.raises(NotImplementedError, match="flag_seq is not implemented"):
        call(1, 0.0, True, False, False, True, False)
    gru = [t.npu() for t in gru_operands()]
    with pytest.raises(NotImplementedError, match=f"seq_length other than the number of steps, {STEPS}"):
        torch_npu.npu_gru(*gru, mask - 1, True, 1, 0.0, True, False, False)


@pytest.mark.parametrize(("layers", "two_ways", "biased"), [(1, False, True), (2, True, True), (2, False, False)])
def test_what_torch_lstm_calls(layers, two_ways, biased):
    """Values and gradients of torch.lstm in fp64, its gates, and which gradients may be None."""
    torch.manual_seed(7)
    layer = torch.nn.LSTM(COLUMNS, HIDDEN, layers, bias=biased, bidirectional=two_ways).double()
    entries, params = layers * (2 if two_ways else 1), list(layer.parameters())
    x, h, c = (torch.randn(n, BATCH, k).double().requires_grad_() for n, k in
               ((STEPS, COLUMNS), (entries, HIDDEN), (entries, HIDDEN)))  # fmt: skip
    expected = _VF.lstm(x, (h, c), params, biased, layers, 0.0, True, two_ways, False)
    ours = [t.detach().npu() for t in (x, h, c)]
    of = [p.detach().npu() for p in params], biased, layers, two_ways
    *values, steps = torch.ops.npu._npu_lstm(ours[0], ours[1:], *of)
    for g, e in zip(values, expected, strict=True):
        assert_close(g, e, torch.float64, "value")
    i, g, f, o, hidden, cell, tanh = steps.cpu()[:, 0]
    before = torch.cat([c[:1], cell[:-1]])
    assert_close(cell, f * before + i * g, torch.float64, "c")
    assert_close(tanh, cell.tanh(), torch.float64, "tanh(c)")
    assert_close(hidden, o * tanh, torch.float64, "h")
    seeds = [torch.randn_like(t) for t in expected]
    for asked in ((True, True, True), (True, False, False), (False, True, False), (False, False, True)):
        chosen = [(e, s) for e, s, wanted in zip(expected, seeds, asked, strict=True) if wanted]
        given = [s.npu() if wanted else None for s, wanted in zip(seeds, asked, strict=True)]
        outputs, of_outputs = ([pair[i] for pair in chosen] for i in (0, 1))
        want = torch.autograd.grad(outputs, (x, h, c, *params), of_outputs, retain_graph=True, allow_unused=True)
        *found, of_params = torch.ops.npu._npu_lstm_backward(*given, ours[0], ours[1:], of[0], steps, *of[1:])
        parts = of_params.split([p.numel() for p in params])
        found += [part.view(p.shape) for part, p in zip(parts, params, strict=True)]
        for g, e in zip(found, want, strict=True):
            assert_close(g, torch.zeros_like(g.cpu()) if e is None else e, torch.float64, f"gradient of {asked}")


def test_what_torch_lstm_calls_refuses_by_name():
    x, state = torch.randn(STEPS, BATCH, COLUMNS).npu(), torch.randn(1, BATCH, HIDDEN).npu()
    params = [torch.randn(4 * HIDDEN, n).npu() for n in (COLUMNS, HIDDEN)]
    for arguments, message in (
        ((x[0], [state, state], params), "input"),
        ((x, [state], params), "hx has 1 tensors"),
        ((x, [state, state[:, :1]], params), "hx"),
        ((x, [state, state], params[:1]), "params has 1 tensors"),
        ((x, [state, state], [params[0], params[0]]), "a hidden weight of params"),
        ((x, [state, state], [params[1], params[1]]), "an input weight of params"),
        ((x, [state, state.half()], params), "hx"),
    ):
        with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
            torch.ops.npu._npu_lstm(*arguments, False, 1, False)
    with pytest.raises(RuntimeError, match="use torch.lstm"):
        found = torch.ops.npu._npu_lstm(x.requires_grad_(), [state, state], params, False, 1, False)
        found[0].sum().backward()
