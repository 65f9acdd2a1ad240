"""Operators that no other file of this room judges by value: compositions, their backward operators, and what writes in
place. Each against its formula, in float64 on the CPU; convolutions by a sum over the places of the kernel, not by
PyTorch's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import FLOATING, check

rand = lambda *sizes: torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes) + len(sizes)))
ints = lambda *values: torch.tensor(values)


def transposed(
    x: torch.Tensor, w: torch.Tensor, b: Any, pad: Any, more: Any, stride: Any, dil: Any, groups: int
) -> Any:
    """out[stride * i + dilation * k - padding] += x[i] @ w[k], in groups of channels."""
    sizes, kernel, n = x.shape[2:], w.shape[2:], len(pad)
    whole = [(sizes[d] - 1) * stride[d] + dil[d] * (kernel[d] - 1) + 1 + more[d] for d in range(n)]
    parts = []
    for g in range(groups):
        xg, wg = x.chunk(groups, 1)[g], w.chunk(groups, 0)[g]
        out = x.new_zeros(x.shape[0], w.shape[1], *whole)
        for k in itertools.product(*(range(s) for s in kernel)):
            at = tuple(
                slice(k[d] * dil[d], k[d] * dil[d] + (sizes[d] - 1) * stride[d] + 1, stride[d]) for d in range(n)
            )
            place = torch.zeros_like(out)
            place[(slice(None), slice(None), *at)] = torch.einsum("nc...,co->no...", xg, wg[(..., *k)])
            out = out + place
        parts.append(out)
    out = torch.cat(parts, 1)
    for d in range(n):
        out = out.narrow(2 + d, pad[d], whole[d] - 2 * pad[d])
    return out if b is None else out + b.reshape(-1, *[1] * n)


def direct(x: torch.Tensor, w: torch.Tensor, b: Any, stride: Any, pad: Any, dil: Any, groups: int) -> torch.Tensor:
    """out[i] = sum of x[stride * i + dilation * k - padding] @ w[k], in groups of channels."""
    n, kernel = len(pad), w.shape[2:]
    padded = torch.nn.functional.pad(x, [p for one in reversed(list(pad)) for p in (one, one)])
    counts = [(padded.shape[2 + d] - dil[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(n)]
    parts = []
    for g in range(groups):
        xg, wg = padded.chunk(groups, 1)[g], w.chunk(groups, 0)[g]
        terms = []
        for k in itertools.product(*(range(s) for s in kernel)):
            at = tuple(
                slice(k[d] * dil[d], k[d] * dil[d] + (counts[d] - 1) * stride[d] + 1, stride[d]) for d in range(n)
            )
            terms.append(torch.einsum("nc...,oc->no...", xg[(slice(None), slice(None), *at)], wg[(..., *k)]))
        parts.append(sum(terms))
    out = torch.cat(parts, 1)
    return out if b is None else out + b.reshape(-1, *[1] * n)


def gradients(convolution: Any, bias: int) -> Any:
    """Of a convolution for input, weight and bias, by PyTorch's derivative of the formula."""

    def of(x: torch.Tensor, g: torch.Tensor, w: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
        operands = [t.detach().requires_grad_() for t in (x, w, x.new_zeros(bias))]
        out = convolution(operands[0], operands[1], operands[2], *rest[:-1])
        grads = torch.autograd.grad(out, operands, g)
        return tuple(grad if wanted else None for grad, wanted in zip(grads, rest[-1], strict=True))

    return of


def scattered(g: torch.Tensor, dim: int, places: torch.Tensor, sizes: Sequence[int], keep: bool) -> torch.Tensor:
    """Each gradient at the place along dim that its value came from."""
    if not keep:
        g, places = g.unsqueeze(dim), places.unsqueeze(dim)
    along = torch.arange(sizes[dim]).reshape([-1 if d == dim % len(sizes) else 1 for d in range(len(sizes))])
    return torch.where(along == places, g, 0.0)


def rows_added(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, alpha: float = 1) -> torch.Tensor:
    named = torch.nn.functional.one_hot(index, x.shape[0]).to(x.dtype)
    return x + alpha * torch.einsum("ir,i...->r...", named, source)


def rows_written(x: torch.Tensor, places: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    for i in itertools.product(*(range(n) for n in places.shape[:-1])):
        out[tuple(places[i].tolist())] = updates[i]
    return out


def overlap(a: torch.Tensor, b: torch.Tensor, mode: int = 0) -> torch.Tensor:
    """Of each of b with each of a: the common area by that of both, or by that of b, to which 0.01 is added."""
    out = torch.zeros(len(b), len(a), dtype=torch.float64)
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    for (i, q), (j, p) in itertools.product(enumerate(b), enumerate(a)):
        sides = [max(min(p[d + 2], q[d + 2]) - max(p[d], q[d]), 0) for d in (0, 1)]
        both = sides[0] * sides[1]
        out[i, j] = both / ((area(p) + area(q) - both if mode == 0 else area(q)) + 0.01)
    return out


def kl_gradient(g: torch.Tensor, x: torch.Tensor, t: torch.Tensor, reduction: int, log_target: bool) -> torch.Tensor:
    out = -g * (t.exp() if log_target else t)
    return (out / x.numel() if reduction == 1 else out).expand_as(x)


def kl_target_gradient(
    g: torch.Tensor, x: torch.Tensor, t: torch.Tensor, reduction: int, log_target: bool
) -> torch.Tensor:
    """Nothing where the target is zero, unless it is a logarithm."""
    out = t.exp() * (t - x + 1) if log_target else torch.where(t > 0, t.log() - x + 1, 0.0)
    return g * (out / x.numel() if reduction == 1 else out)


def logits_gradient(g: torch.Tensor, x: torch.Tensor, t: torch.Tensor, weight: Any, positive: Any, how: int) -> Any:
    """Of -weight * (positive * t * log(s) + (1 - t) * log(1 - s)) for x, with s = 1 / (1 + exp(-x))."""
    s = 1 / (1 + (-x).exp())
    out = (1 - t) * s - (1 if positive is None else positive) * t * (1 - s)
    out = out if weight is None else out * weight
    return g * (out / x.numel() if how == 1 else out)


def gathered_back(g: torch.Tensor, sizes: Sequence[int], dim: int, index: torch.Tensor, sparse: bool) -> torch.Tensor:
    """The sum of the gradients at each place that an element was taken from."""
    out = g.new_zeros(sizes)
    for at in itertools.product(*(range(n) for n in index.shape)):
        to = list(at)
        to[dim] = int(index[at])
        place = torch.zeros_like(out)
        place[tuple(to)] = 1
        out = out + place * g[at]
    return out


def repeats_added(g: torch.Tensor, x: torch.Tensor, repeats: int, dim: int | None) -> torch.Tensor:
    along = 0 if dim is None else dim % x.dim()
    return g.unflatten(along, (-1, repeats)).sum(along + 1).reshape(x.shape)


def mish_gradient(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Of x * tanh(log(1 + exp(x)))."""
    t = torch.tanh((1 + x.exp()).log())
    return g * (t + x * (1 - t * t) / (1 + (-x).exp()))


def kept(logits: torch.Tensor, p: torch.Tensor | None, k: torch.Tensor | None) -> torch.Tensor:
    """The k largest, then the smallest set of them whose probabilities sum to p; what is not kept is -99 here."""
    out = torch.full_like(logits, -99)
    for row, values in enumerate(logits.tolist()):
        order = sorted(range(len(values)), key=lambda i: -values[i])
        order = order[: len(values) if k is None else int(k[row])]
        chances, total = torch.tensor([values[i] for i in order], dtype=torch.float64).softmax(0).tolist(), 0.0
        for i, chance in zip(order, chances, strict=True):
            out[row, i] = values[i]
            total += chance
            if p is not None and total >= p[row]:
                break
    return out


def unpermuted(tokens: torch.Tensor, places: torch.Tensor, probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.stack(
        [
            sum(p * tokens[int(i)] for p, i in zip(ps, row, strict=True))
            for ps, row in zip(probs, places.reshape(probs.shape), strict=True)
        ]
    )
    return out, tokens.detach()


IMAGE, TURNED = rand(2, 4, 5, 4), rand(4, 3, 3, 2)
TWO = ([1, 0], [1, 0], [2, 1], [1, 2], 2)  # padding, more of the result, stride, dilation, groups
FORTH, BACK = torch_npu.npu_convolution_transpose, torch_npu.npu_convolution_transpose_backward
LINE = (rand(2, 4, 6), rand(4, 3, 3))
VOLUME, CUBE = rand(1, 2, 3, 4, 3), rand(2, 3, 2, 3, 2)
ALL, SOME = [True, True, True], [True, False, True]
LOGITS = torch.stack([torch.randperm(7, generator=torch.Generator().manual_seed(i)) for i in range(4)]) * 0.75
CASES: dict[str, Any] = {
    "npu_conv_transpose2d": (transposed, [IMAGE, TURNED, rand(6), *TWO]),
    "npu_convolution_transpose": (transposed, [IMAGE, TURNED, None, *TWO]),
    "npu_convolution_transpose 1": (transposed, [*LINE, rand(3), [1], [1], [2], [1], 1]),
    "npu_convolution_transpose 3": (transposed, [VOLUME, CUBE, None, [1, 0, 1], [0, 0, 1], [2, 1, 2], [1, 1, 1], 1]),
    "_dropout_with_byte_mask_backward": (
        lambda g, mask, p: torch.where(mask == 1, g / (1 - p), 0.0),
        [rand(5, 7), (rand(5, 7) > 0).byte(), 0.25],
    ),
    "npu_max_backward": (scattered, [rand(3, 4), 1, ints([2, 0, 1, 4], [0, 0, 4, 3], [1, 1, 1, 1]), [3, 5, 4], False]),
    "npu_min_backward": (scattered, [rand(3, 1), -1, ints([3], [0], [2]), [3, 4], True]),
    "npu_scatter": (
        lambda x, i, u, dim: torch.where(torch.arange(5) == i[:, None], u[:, None], x),
        [rand(3, 5), ints(4, 0, 2).int(), rand(3), 1],
    ),
    "npu_softmax_cross_entropy_with_logits_backward": (
        lambda g, x, t: g[:, None] * (x.softmax(-1) * t.sum(-1, True) - t),
        [rand(4), rand(4, 6), rand(5, 4, 6)[0].abs()],
    ),
    "_npu_index_add": (rows_added, [rand(4, 3), ints(2, 0, 2), rand(3, 3)], {"alpha": 2}),
    "kl_div_backward": (
        kl_gradient,
        [rand(3, 4), rand(5, 3, 4)[0], rand(4, 3, 4)[0].clamp_min(0), 0],
        {"log_target": False},
    ),
    "kl_div_backward 1": (kl_gradient, [rand(), rand(3, 4), rand(6, 3, 4)[0], 1], {"log_target": True}),
    "l1_loss_backward": (
        lambda g, x, t, how: (g * torch.sign(x - t) / (x.numel() if how == 1 else 1)).expand_as(x),
        [rand(), rand(3, 4), rand(2, 3, 4)[0], 1],
    ),
    "l1_loss_backward 0": (
        lambda g, x, t, how: g * torch.sign(x - t),
        [rand(3, 4), rand(5, 3, 4)[0], rand(6, 3, 4)[0], 0],
    ),
    "npu_gather_sparse_index_backward": (
        lambda g, sizes, i: rows_added(g.new_zeros(sizes), i.flatten(), g.flatten(0, i.dim() - 1)),
        [rand(2, 2, 3), [5, 3], ints([4, 0], [4, 2])],
    ),
    "npu_gather_backward": (
        gathered_back,
        [rand(2, 3), [4, 3], 0, ints([3, 0, 3], [3, 1, 2]), False],
    ),
    "npu_gather_backward 1": (gathered_back, [rand(2, 4), [3, 5], 1, ints([0, 0, 4, 0], [2, 2, 2, 1]), False]),
    "repeat_interleave_backward_int": (repeats_added, [rand(3, 8), rand(3, 4), 2, -1]),
    "repeat_interleave_backward_int 0": (repeats_added, [rand(9, 2), rand(3, 2), 3, 0]),
    "repeat_interleave_backward_int all": (repeats_added, [rand(12), rand(3, 2), 2, None]),
    "_npu_moe_token_unpermute": (unpermuted, [rand(6, 8), ints(2, 0, 3, 1, 5, 4).int(), rand(3, 2)]),
}
# Without a gradient: in place, of a gradient, of a choice, or not given by the operator.
PLAIN: dict[str, Any] = {
    "kl_div_target_backward": (
        kl_target_gradient,
        [rand(3, 4), rand(5, 3, 4)[0], rand(4, 3, 4)[0].clamp_min(0), 0],
        {"log_target": False},
    ),
    "kl_div_target_backward 1": (kl_target_gradient, [rand(), rand(3, 4), rand(6, 3, 4)[0], 1], {"log_target": True}),
    "kl_div_target_backward 2": (kl_target_gradient, [rand(), rand(4), rand(3, 4).abs(), 2], {"log_target": False}),
    "npu_binary_cross_entropy_with_logits_backward": (
        logits_gradient,
        [rand(3, 4), rand(2, 3, 4)[0], rand(5, 3, 4)[0].abs(), rand(3, 4, 4)[0, 0], rand(6, 3, 4)[0, 0].abs(), 0],
    ),
    "npu_binary_cross_entropy_with_logits_backward 1": (
        logits_gradient,
        [rand(), rand(2, 3, 4)[0], rand(5, 3, 4)[0].sigmoid(), None, rand(4).abs(), 1],
    ),
    "npu_binary_cross_entropy_with_logits_backward 2": (
        logits_gradient,
        [rand(), rand(2, 3, 4)[0], rand(5, 3, 4)[0].sigmoid(), rand(3, 4).abs(), None, 2],
    ),
    "npu_mish_backward": (mish_gradient, [rand(4, 6), rand(4, 5, 6)[:, 0] * 3]),
    "npu_silu_backward": (
        lambda g, x, y: g * (1 / (1 + (-x).exp())) * (1 + x * (1 - 1 / (1 + (-x).exp()))),
        [rand(4, 6), rand(4, 5, 6)[:, 0], rand(4, 6)],
    ),
    "npu_ptiou": (overlap, [rand(3, 4).abs().cumsum(-1) * 4, rand(2, 4).abs().cumsum(-1) * 4]),
    "npu_ptiou 1": (overlap, [rand(3, 4).abs().cumsum(-1) * 4, rand(2, 4).abs().cumsum(-1) * 4, 1]),
    "npu_masked_softmax_with_rel_pos_bias": (
        lambda x, m, b, s: (x * s + m[:, None] + b).softmax(-1),
        [rand(2, 3, 2, 4, 5), rand(3, 4, 5), rand(2, 4, 5), 0.5],
    ),
    "npu_top_k_top_p": (kept, [LOGITS, torch.tensor([0.3, 0.9, 0.5, 1.0]), ints(3, 5, 1, 7).int()]),
    "npu_top_k_top_p p": (kept, [LOGITS, torch.tensor([0.3, 0.9, 0.5, 0.7]), None]),
    "npu_top_k_top_p k": (kept, [LOGITS, None, ints(3, 5, 1, 7).int()]),
    "npu_scatter_nd_update": (rows_written, [rand(4, 3), ints([3], [1]), rand(2, 3)]),
    "npu_scatter_nd_update 2": (rows_written, [rand(4, 3, 2), ints([[3, 1], [0, 2]], [[1, 1], [0, 0]]), rand(2, 2, 2)]),
    "npu_scatter_nd_update_": (rows_written, [rand(4, 3), ints([3, 1], [1, 2]), rand(2)]),
    "_npu_index_add_": (rows_added, [rand(4, 3), ints(2, 0, 2), rand(3, 3)], {"alpha": -0.5}),
    "npu_view_copy": (lambda x, y, now: y.expand_as(x), [rand(3, 4), rand(4), False]),
    "copy_memory_": (lambda x, y: y, [rand(3, 4), rand(2, 3, 4)[0]]),
    "npu_dtype_cast_": (lambda x, y: y, [rand(3, 4), rand(2, 3, 4)[0]]),
    "one_": (torch.ones_like, [rand(3, 4)]),
}
BACKWARD: dict[str, Any] = {
    "npu_convolution_transpose_backward": (transposed, 6, IMAGE, TURNED, TWO, ALL),
    "npu_conv_transpose2d_backward": (transposed, 6, IMAGE, TURNED, TWO, ALL),
    "npu_conv_transpose2d_backward 1": (transposed, 3, IMAGE, TURNED, ([0, 1], [0, 0], [1, 2], [1, 1], 1), SOME),
    "npu_convolution_transpose_backward 1": (transposed, 3, *LINE, ([1], [1], [2], [1], 1), SOME),
    "npu_convolution_backward": (direct, 4, IMAGE, rand(4, 2, 3, 2), ([2, 1], [1, 0], [1, 2], 2), ALL),
    "npu_convolution_backward 1": (direct, 4, LINE[0], rand(4, 4, 3), ([2], [1], [1], 1), SOME),
    "npu_conv3d_backward": (direct, 3, VOLUME, rand(3, 2, 2, 3, 2), ([1, 2, 1], [1, 0, 1], [1, 1, 2], 1), ALL),
    "npu_conv_transpose3d_backward": (
        transposed,
        3,
        VOLUME,
        CUBE,
        ([1, 0, 1], [0, 0, 1], [2, 1, 2], [1, 1, 1], 1),
        ALL,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    """In three types, of strided operands too; gradients against PyTorch's derivative of the formula."""
    reference, args, *more = CASES[name]
    check(getattr(torch.ops.npu, name.partition(" ")[0]), reference, args, *more)


@pytest.mark.parametrize("name", PLAIN)
def test_values(name: str) -> None:
    reference, args, *more = PLAIN[name]
    operator = getattr(torch.ops.npu, name.partition(" ")[0])
    bounded = (lambda *given, **named: operator(*given, **named).nan_to_num(neginf=-99)) if "top" in name else operator
    check(bounded, reference, args, *more, gradient=False)


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_of_convolutions(name: str) -> None:
    convolution, bias, x, w, rest, mask = BACKWARD[name]
    result = convolution(x.double(), w.double(), None, *rest)
    args = [x, rand(*result.shape), w, *rest, mask]
    check(getattr(torch.ops.npu, name.partition(" ")[0]), gradients(convolution, bias), args, gradient=False)


def test_casts_round_as_the_type_does() -> None:
    x = rand(4, 5) * 100
    for wide, narrow in ((torch.float32, torch.float16), (torch.float64, torch.bfloat16), (torch.float32, torch.int32)):
        given = x.to(wide)
        expected = given.to(narrow)
        casts = ("_npu_dtype_cast", "_npu_dtype_cast_backward", "npu_dtype_cast_backward")
        for cast in (getattr(torch.ops.npu, name) for name in casts):
            got = cast(given.npu(), narrow)
            assert got.dtype == narrow and torch.equal(got.cpu(), expected), cast
        into = torch.zeros_like(expected).npu()
        assert torch.equal(torch_npu.npu_dtype_cast_(into, given.npu()).cpu(), expected) and into.dtype == narrow
    leaf = x.npu().requires_grad_()
    torch.ops.npu._npu_dtype_cast(leaf, torch.float16).backward(torch.full((4, 5), 0.1).half().npu())
    assert torch.equal(leaf.grad.cpu(), torch.full((4, 5), 0.1).half().float())


def test_the_overflow_status_stays_zero() -> None:
    """As the page of INF/NAN mode has it: eight float32 zeros, before and after an overflow."""
    status = torch_npu.npu_alloc_float_status(torch.randn(2).npu())
    assert torch.full((3,), 6e4).half().npu().mul(2).isinf().all()
    for found in (status, torch_npu.npu_get_float_status(status), torch_npu.npu_clear_float_status(status)):
        assert found.dtype == torch.float32 and torch.equal(found.cpu(), torch.zeros(8))


def test_memory_for_gradients_of_attention() -> None:
    """Tensors that the out form can write to, as large as what they are the gradients of."""
    q, k, v, pse, sink = (
        t.npu() for t in (rand(1, 4, 5, 8), rand(1, 2, 6, 8), rand(1, 2, 6, 4), rand(1, 4, 5, 6), rand(4))
    )
    for dtype in FLOATING:
        given = [t.to(dtype) for t in (q, k, v, pse)]
        got = torch.ops.npu._npu_fusion_attention_grad_v3_infer_output(*given, sink)
        assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in (*given, sink)]
    without = torch.ops.npu._npu_fusion_attention_grad_v3_infer_output(q, k, v)
    assert [t.numel() for t in without[3:]] == [0, 0]
    space = torch.ops.npu._npu_fusion_attention_grad_v3_get_max_workspace(q, k, v, q, 4, "BNSD")
    assert space.numel() == 0 and space.dtype == torch.uint8
