"""Forms with out=: what is written there has the values of a formula, whatever sizes and strides out has, and out is
what is returned. Attention's gradients into memory are against PyTorch's derivative of the formula in float64.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.npu_ops.compare import FLOATING, assert_close, each, strided
from tests.npu_ops.test_attention import as_layout, heads_first, plain
from tests.npu_ops.test_formulas import direct, rand

IMAGE, VOLUME = rand(2, 4, 5, 4), rand(1, 2, 3, 4, 3)
MOVED = (*FLOATING, torch.int32, torch.bool)  # of an operator that computes nothing
# Operator, what it computes, arguments; types.
CASES: dict[str, Any] = {
    "npu_broadcast": (lambda x, sizes: x + x.new_zeros(sizes), [rand(1, 3), [4, 3]], MOVED),
    "npu_reshape": (lambda x, sizes: x.contiguous().view(sizes), [rand(4, 6), [3, 8]], MOVED),
    "npu_transpose": (lambda x, order: x.movedim(2, 0), [rand(2, 3, 4), [2, 0, 1]], MOVED),
    "npu_slice": (lambda x, begin, size: x[1:3, 2:], [rand(4, 6), [1, 2], [2, -1]], MOVED),
    "npu_sort_v2": (lambda x, dim, down: x.sort(dim, down).values, [rand(5, 7), 0, True], (*FLOATING, torch.int32)),
    "npu_conv2d": (
        direct,
        [IMAGE, rand(4, 2, 3, 2), rand(4), [2, 1], [1, 0], [1, 2], 2],
        FLOATING,
    ),
    "npu_conv3d": (direct, [VOLUME, rand(3, 2, 2, 3, 2), rand(3), [1, 2, 1], [1, 0, 1], [1, 1, 2], 1], FLOATING),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    reference, args, dtypes = CASES[name]
    operator = getattr(torch.ops.npu, name).out
    for dtype in dtypes:
        given = each(args, lambda t, dtype=dtype: (t * 4).to(dtype))
        wide = torch.float64 if dtype.is_floating_point else dtype
        expected = reference(*each(given, lambda t, wide=wide: t.to(wide)))
        for empty in (True, False):
            out = torch.zeros(0 if empty else expected.shape, dtype=dtype).npu()
            out = out if empty else strided(out)
            assert operator(*each(given, lambda t: strided(t.npu())), out=out) is out
            assert out.dtype == dtype
            assert_close(out, expected, dtype, f"{name} in {dtype}")


def test_elements_by_strides() -> None:
    """Each at its own distance in memory, and some of them twice."""
    for dtype in MOVED:
        x = (rand(24) * 4).to(dtype)
        expected = torch.stack([torch.stack([x[1 + 6 * i + 2 * j] for j in range(4)]) for i in range(3)])
        out = strided(torch.zeros(3, 4, dtype=dtype).npu())
        torch.ops.npu.npu_stride_copy.out(x.npu().view(4, 6), [3, 4], [6, 2], 1, out=out)
        assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize("layout", ["BNSD", "SBH", "TND"])
def test_gradients_of_attention(layout: str) -> None:
    """For query, key, value, bias and sink."""
    torch.manual_seed(4)
    heads, kv, scale = 4, 2, 0.4
    q, k, v, dy = torch.randn(1, heads, 5, 8), *torch.randn(2, 1, kv, 6, 8), torch.randn(1, heads, 5, 8)
    pse = torch.randn(1, heads, 5, 6) if layout == "BNSD" else None
    lengths = {}
    if layout == "TND":  # packed sequences of two and three queries, of two and four keys
        q, k, v, dy = (t[0].transpose(0, 1).contiguous() for t in (q, k, v, dy))
        ends = torch.tensor([2, 5]), torch.tensor([2, 6])
        lengths = {key: t.npu() for key, t in zip(("actual_seq_qlen", "actual_seq_kvlen"), ends, strict=True)}
    else:
        q, k, v, dy = (as_layout(t, layout).contiguous() for t in (q, k, v, dy))

    def formula(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor | None) -> torch.Tensor:
        if layout != "TND":
            parts = heads_first(q, heads, layout), heads_first(k, kv, layout), heads_first(v, kv, layout)
            return as_layout(plain(*parts, scale=scale, bias=pse), layout)
        cuts = (slice(0, 2), slice(0, 2)), (slice(2, 5), slice(2, 6))
        packed = [plain(*(t.transpose(0, 1) for t in (q[a], k[b], v[b])), scale=scale) for a, b in cuts]
        return torch.cat([t.transpose(0, 1) for t in packed])

    for dtype in FLOATING:
        given = [None if t is None else t.to(dtype) for t in (q, k, v, dy, pse)]
        ours = [None if t is None else t.npu() for t in given]
        leaves = [None if t is None else t.double().requires_grad_() for t in (*given[:3], given[4])]
        there = [t for t in leaves if t is not None]
        expected = torch.autograd.grad(formula(*leaves), there, given[3].double())
        call = (heads, layout)
        out, top, total, *_ = torch.ops.npu.npu_fusion_attention_v3(
            *ours[:3], *call, pse=ours[4], scale=scale, **lengths
        )
        into = list(torch.ops.npu._npu_fusion_attention_grad_v3_infer_output(*ours[:3], ours[4]))
        results = torch.ops.npu.npu_fusion_attention_grad_v3.out(
            *ours[:4], *call, pse=ours[4], softmax_max=top, softmax_sum=total, attention_in=out, scale_value=scale,
            **lengths, out=into,
        )  # fmt: skip
        assert all(a.data_ptr() == b.data_ptr() for a, b in zip(results, into, strict=True))
        for i, (got, want) in enumerate(zip(into, expected, strict=False)):
            assert_close(got, want, dtype, f"{layout}: gradient {i}")


B1, B2, LR, EPS, DECAY = 0.9, 0.98, 0.125, 1e-3, 0.05


def adam(var: Any, m: Any, v: Any, g: Any, nesterov: bool) -> tuple[torch.Tensor, ...]:
    m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
    top = B1 * m + (1 - B1) * g if nesterov else m
    return var - LR * (1 - B2**3) ** 0.5 / (1 - B1**3) * top / (v.sqrt() + EPS), m, v


def adam_w(var: Any, m: Any, v: Any, g: Any, most: Any, amsgrad: bool, maximize: bool) -> tuple[torch.Tensor, ...]:
    g = -g if maximize else g
    m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
    high = torch.maximum(most, v) if amsgrad else v
    step = m / (1 - B1**4) / ((high / (1 - B2**4)).sqrt() + EPS)
    return var - LR * step - LR * DECAY * var, m, v


def bert_adam(var: Any, m: Any, v: Any, g: Any) -> tuple[torch.Tensor, ...]:
    m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
    return var - LR * (m / (v.sqrt() + EPS) + DECAY * var), m, v


STEPS: dict[str, Any] = {
    "npu_apply_adam": (adam, (B1**3, B2**3, LR, B1, B2, EPS), (False, False), [False]),
    "npu_apply_adam nesterov": (adam, (B1**3, B2**3, LR, B1, B2, EPS), (True, True), [True]),
    "npu_apply_adam_w": (adam_w, (B1**3, B2**3, LR, DECAY, B1, B2, EPS), (None, False, None), [None, False, False]),
    "npu_apply_adam_w maximize": (
        adam_w, (B1**3, B2**3, LR, DECAY, B1, B2, EPS), (rand(9).square(), True, True), [rand(9).square(), True, True],
    ),
    "npu_bert_apply_adam": (bert_adam, (LR, B1, B2, EPS), (-1.0, 0.0, DECAY), []),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_optimizers(name: str) -> None:
    """In place on (var, m, v), with gaps between their elements, too."""
    reference, numbers, rest, more = STEPS[name]
    operator = getattr(torch.ops.npu, name.partition(" ")[0]).out
    for dtype in FLOATING:
        state = [t.to(dtype) for t in (rand(9), rand(3, 9)[0], rand(4, 9)[0].square())]
        grad = rand(5, 9)[0].to(dtype)
        cast = lambda t, dtype=dtype: t.to(dtype)
        expected = reference(*(t.double() for t in (*state, grad)), *each(each(more, cast), lambda t: t.double()))
        for layout in (lambda t: t, strided):
            ours = [layout(t.npu()) for t in state]
            before = [t.data_ptr() for t in ours]
            got = operator(*numbers, grad.npu(), *each(each(rest, cast), lambda t: t.npu()), out=ours)
            assert [t.data_ptr() for t in got] == before
            for i, (g, e) in enumerate(zip(ours, expected, strict=True)):
                assert_close(g, e, dtype, f"{name}: {('var', 'm', 'v')[i]}")


@pytest.mark.parametrize("name", [name for name in STEPS if " " not in name])
def test_numbers_of_optimizers_are_not_rounded_to_the_type(name: str) -> None:
    """Without a gradient m and v are beta times what they were, where 0.98 and 0.9 are no numbers of 16 bits."""
    _, numbers, rest, _ = STEPS[name]
    for dtype in FLOATING:
        state = [rand(n).abs().to(dtype) for n in (200, 200, 200)]
        ours = [t.npu() for t in state]
        getattr(torch.ops.npu, name).out(*numbers, torch.zeros(200, dtype=dtype).npu(), *rest, out=ours)
        for got, before, beta in zip(ours[1:], state[1:], (B1, B2), strict=True):
            assert torch.equal(got.cpu(), before * beta)


def test_a_tensor_in_another_format_has_the_same_values_and_gradients() -> None:
    for dtype in FLOATING:
        x = rand(17, 5).to(dtype).npu().requires_grad_()
        for number in (29, 2, 3):
            cast = torch.ops.npu._npu_format_cast(x, number)
            assert torch.equal(cast, x) and torch.ops.npu.get_npu_format(cast) == number
            (gradient,) = torch.autograd.grad(cast, x, torch.full_like(cast, 0.5))
            assert torch.equal(gradient.cpu(), torch.full((17, 5), 0.5, dtype=dtype))
    assert F.linear(x, torch.ops.npu._npu_format_cast(x, 29)).shape == (17, 17)
