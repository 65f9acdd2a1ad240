"""Attention of the npu's own on the CPU: what scaled_dot_product_attention calls, forward and backward. Who uses it:
twins.py.

Weights are computed in float32 for half types, as the npu's are. A form that has no formula here (packed sequences,
sinks, prefixes, drawn dropout) raises NotImplementedError: it is not compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

FAR = 2147483647
# Layout → the view [batch, heads, rows, columns] of what it holds.
HEADS_FIRST = {
    "BNSD": lambda t, n: t,
    "BSND": lambda t, n: t.transpose(1, 2),
    "BSH": lambda t, n: t.unflatten(2, (n, -1)).transpose(1, 2),
    "SBH": lambda t, n: t.unflatten(2, (n, -1)).permute(1, 2, 0, 3),
}
BACK = {
    "BNSD": lambda t: t,
    "BSND": lambda t: t.transpose(1, 2),
    "BSH": lambda t: t.transpose(1, 2).flatten(2),
    "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2),
}


class Call(NamedTuple):
    """Operands in the type of the arithmetic: [batch, heads of the query, rows, columns], keys and values, too."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    group: int  # heads of the query that share one of the key
    scale: float
    shift: torch.Tensor | None  # added behind the scale
    hidden: torch.Tensor | None  # bool
    kept: torch.Tensor | None  # what dropout multiplies by


class Softmax(NamedTuple):
    weights: torch.Tensor
    maximum: torch.Tensor  # [.., rows, 1]; 0 of a row that sees nothing, as is its sum
    sum: torch.Tensor


def wide(t: torch.Tensor) -> torch.Tensor:
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t


def kept_by(bits: torch.Tensor | None, shape: tuple[int, ...], keep: float, like: torch.Tensor) -> torch.Tensor | None:
    """A mask of dropout, a bit a weight and the least significant first, as factors."""
    if keep == 1 or bits is None:
        return None
    flags = bits.unsqueeze(1).bitwise_right_shift(torch.arange(8, dtype=torch.uint8)).bitwise_and(1).flatten()
    return flags[: torch.Size(shape).numel()].view(shape).to(like.dtype) / keep


def hides(mask: torch.Tensor | None, n: int, m: int, mode: int, before: int, after: int) -> torch.Tensor | None:
    """What sparse_mode and the mask hide; without a mask nothing is hidden."""
    if mask is None:
        return None
    if mode not in (0, 1, 2, 3):
        raise NotImplementedError(f"attention of sparse_mode {mode} has no formula here")
    far = torch.arange(m) - torch.arange(n).unsqueeze(1)
    if mode > 1:
        return far > (m - n if mode == 3 else 0)
    seen = (far <= after) & (far >= -before)
    return mask.bool() if mode == 1 else mask.bool() | ~seen


def softmax(call: Call) -> Softmax:
    scores = call.query @ call.key.transpose(-1, -2) * call.scale
    if call.shift is not None:
        scores = scores + call.shift
    if call.hidden is not None:
        scores = scores.masked_fill(call.hidden, float("-inf"))
    maximum = scores.amax(-1, True)
    maximum = maximum.masked_fill(maximum == float("-inf"), 0)
    weights = (scores - maximum).exp()
    total = weights.sum(-1, True)
    return Softmax(weights / total.masked_fill(total == 0, 1), maximum, total)


def forward(call: Call) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention, maximum and sum of the softmax, the latter eight times each."""
    made = softmax(call)
    applied = made.weights if call.kept is None else made.weights * call.kept
    return (
        applied @ call.value,
        made.maximum.expand(*made.maximum.shape[:3], 8),
        made.sum.expand(*made.sum.shape[:3], 8),
    )


def shared(grad: torch.Tensor, group: int) -> torch.Tensor:
    """The sum over heads of the query that share one of the key."""
    return grad.unflatten(1, (-1, group)).sum(2)


def backward(call: Call, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key, value, and of the scores behind the scale."""
    weights = softmax(call).weights
    of_weights = dy @ call.value.transpose(-1, -2)
    applied = weights
    if call.kept is not None:
        applied, of_weights = weights * call.kept, of_weights * call.kept
    scores = weights * (of_weights - (weights * of_weights).sum(-1, True))
    query, key = scores @ call.key * call.scale, scores.transpose(-1, -2) @ call.query * call.scale
    return query, shared(key, call.group), shared(applied.transpose(-1, -2) @ dy, call.group), scores


def call_of(query: Any, key: Any, value: Any, heads: int, layout: str, scale: float, **more: Any) -> Call:
    if layout not in HEADS_FIRST:
        raise NotImplementedError(f"attention of the layout {layout} has no formula here")
    q = HEADS_FIRST[layout](wide(query), heads)
    of_key = heads if layout in ("BNSD", "BSND") else key.shape[2] // q.shape[3]
    k, v = (HEADS_FIRST[layout](wide(t), of_key) for t in (key, value))
    group = heads // k.shape[1]
    keys, rows = k.shape[2], q.shape[2]
    hidden = hides(more.get("mask"), rows, keys, more.get("mode", 0), more.get("before", FAR), more.get("after", FAR))
    kept = kept_by(more.get("bits"), (*q.shape[:3], keys), more.get("keep", 1.0), q)
    shift = more.get("shift")
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    return Call(q, k, v, group, scale, None if shift is None else wide(shift), hidden, kept)


def score_bytes(query: Any, key: Any, heads: int, layout: str) -> int:
    """Of the scores, in the type of the arithmetic."""
    if layout not in HEADS_FIRST:
        return 0
    batch, _, rows, columns = HEADS_FIRST[layout](query, heads).shape
    of_key = heads if layout in ("BNSD", "BSND") else key.shape[2] // columns
    keys = HEADS_FIRST[layout](key, of_key).shape[2]
    return batch * heads * rows * keys * max(query.itemsize, 4)


def dot_product(
    query: Any, key: Any, value: Any, head_num: int, *, pse: Any = None, atten_mask: Any = None, scale: float = 1.0,
    keep_prob: float = 1.0, sparse_mode: int = 0, drop_mask: Any = None,
) -> tuple:  # fmt: skip
    """`drop_mask`: what the npu's call drew."""
    call = call_of(query, key, value, head_num, "BNSD", scale, shift=pse, mask=atten_mask, mode=sparse_mode,
                   bits=drop_mask, keep=keep_prob)  # fmt: skip
    out, maximum, total = forward(call)
    return out.to(query.dtype), maximum, total, None


def dot_product_grad(
    query: Any, key: Any, value: Any, dy: Any, head_num: int, drop_mask: Any, *, pse: Any = None,
    atten_mask: Any = None, softmax_max: Any = None, softmax_sum: Any = None, attention_in: Any = None,
    scale: float = 1.0, keep_prob: float = 1.0, sparse_mode: int = 0, pse_grad: bool = False,
) -> tuple:  # fmt: skip
    call = call_of(query, key, value, head_num, "BNSD", scale, shift=pse, mask=atten_mask, mode=sparse_mode,
                   bits=drop_mask, keep=keep_prob)  # fmt: skip
    *grads, scores = backward(call, wide(dy))
    shift = scores.sum_to_size(pse.shape).to(pse.dtype) if pse_grad and pse is not None else None
    return *(grad.to(query.dtype) for grad in grads), shift


def refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"attention with {name} has no formula here")


def fusion(
    query: Any, key: Any, value: Any, head_num: int, input_layout: str, pse: Any = None, padding_mask: Any = None,
    atten_mask: Any = None, scale: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = FAR, next_tockens: int = FAR,
    inner_precise: int = 0, prefix: Any = None, actual_seq_qlen: Any = None, actual_seq_kvlen: Any = None,
    sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False, softmax_layout: str = "",
    sink: Any = None, dropout_mask: Any = None, seed: int = 0, offset: int = 0,
) -> tuple:  # fmt: skip
    refuse(pse=pse, padding_mask=padding_mask, prefix=prefix, actual_seq_qlen=actual_seq_qlen, sink=sink,
           actual_seq_kvlen=actual_seq_kvlen, dropout_mask=dropout_mask)  # fmt: skip
    call = call_of(query, key, value, head_num, input_layout, scale, mask=atten_mask, mode=sparse_mode,
                   before=pre_tockens, after=next_tockens)  # fmt: skip
    out, maximum, total = forward(call)
    return BACK[input_layout](out).to(query.dtype), maximum, total, query.new_empty(0), None, None, None


def fusion_grad(
    query: Any, key: Any, value: Any, dy: Any, head_num: int, input_layout: str, *, pse: Any = None,
    padding_mask: Any = None, atten_mask: Any = None, softmax_max: Any = None, softmax_sum: Any = None,
    softmax_in: Any = None, attention_in: Any = None, scale_value: float = 1.0, keep_prob: float = 1.0,
    pre_tockens: int = FAR, next_tockens: int = FAR, inner_precise: int = 0, seed: int = 0, offset: int = 0,
    numels: int = 0, prefix: Any = None, actual_seq_qlen: Any = None, actual_seq_kvlen: Any = None,
    sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False, softmax_layout: str = "",
    sink: Any = None,
) -> tuple:  # fmt: skip
    refuse(pse=pse, padding_mask=padding_mask, prefix=prefix, actual_seq_qlen=actual_seq_qlen, sink=sink,
           actual_seq_kvlen=actual_seq_kvlen)  # fmt: skip
    call = call_of(query, key, value, head_num, input_layout, scale_value, mask=atten_mask, mode=sparse_mode,
                   before=pre_tockens, after=next_tockens)  # fmt: skip
    *grads, _ = backward(call, HEADS_FIRST[input_layout](wide(dy), head_num))
    return *(BACK[input_layout](grad).to(query.dtype) for grad in grads), torch.empty(0), torch.empty(0)
