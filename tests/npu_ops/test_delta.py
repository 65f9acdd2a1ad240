"""The gated delta rule of linear attention."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import FLOATING, TOLERANCE, check

KEY_HEADS, HEADS, KEYS, VALUES = 2, 4, 3, 5
LENGTHS = (2, 3, 1)
TOKENS = sum(LENGTHS)


def rule(query, key, value, states, lengths, blocks, accepted, beta, g, gk, scale):
    """Token by token and head by head, from the page: results, and the pool after."""
    pool, out, token = states.clone(), torch.zeros_like(value), 0
    for i, length in enumerate(lengths.tolist()):
        begin = states[blocks[token + (int(accepted[i]) - 1 if accepted is not None else 0)]]
        for h in range(HEADS):
            state, of = begin[h], h // (HEADS // KEY_HEADS)
            for t in range(token, token + length):
                decay = torch.ones(KEYS, dtype=query.dtype)
                decay = decay if g is None else decay * g[t, h].exp()
                decay = decay if gk is None else decay * gk[t, h].exp()
                state = state * decay
                k = key[t, of]
                write = (value[t, h] - state @ k) * (1 if beta is None else beta[t, h])
                state = state + torch.outer(write, k)
                pool[blocks[t], h] = state
                out[t, h] = state @ query[t, of] * scale
        token += length
    return out, pool


def operands():
    torch.manual_seed(8)
    unit = lambda *s: torch.nn.functional.normalize(torch.randn(*s), dim=-1)
    query, key, value = unit(TOKENS, KEY_HEADS, KEYS), unit(TOKENS, KEY_HEADS, KEYS), torch.randn(TOKENS, HEADS, VALUES)
    lengths, blocks = torch.tensor(LENGTHS, dtype=torch.int32), torch.randperm(8)[:TOKENS].int()
    beta, g, gk = torch.rand(TOKENS, HEADS), -torch.rand(TOKENS, HEADS), -torch.rand(TOKENS, HEADS, KEYS)
    return query, key, value, torch.randn(8, HEADS, VALUES, KEYS), lengths, blocks, beta, g, gk


def npu(arguments):
    return {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", ["all", "plain"])
def test_recurrent(form, dtype):
    query, key, value, state, lengths, blocks, beta, g, gk = operands()
    query, key, value, state, beta = (t.to(dtype) for t in (query, key, value, state, beta))
    accepted = torch.tensor([2, 3, 1], dtype=torch.int32)
    given = {"actual_seq_lengths": lengths, "ssm_state_indices": blocks}
    if form == "all":
        given |= {"beta": beta, "scale": 0.5, "num_accepted_tokens": accepted, "g": g, "gk": gk}
    wide = lambda name: given[name].double() if name in given else None
    expected, pool = rule(
        *(t.double() for t in (query, key, value, state)),
        lengths, blocks, given.get("num_accepted_tokens"),
        wide("beta"), wide("g"), wide("gk"), given.get("scale", KEYS**-0.5),
    )  # fmt: skip
    args, limit = [t.npu() for t in (query, key, value)], TOLERANCE[dtype]
    written = state.npu()
    out = torch_npu.npu_recurrent_gated_delta_rule(*args, written, **npu(given))
    assert out.dtype == dtype and written.dtype == dtype
    torch.testing.assert_close(out.cpu().double(), expected, rtol=limit, atol=limit)
    torch.testing.assert_close(written.cpu().double(), pool, rtol=limit, atol=limit)
    again = torch_npu.npu_recurrent_gated_delta_rule_functional(*args, state.npu(), **npu(given))
    assert torch.equal(again[0], out) and torch.equal(again[1], written)


def chunk(query, key, value, beta, initial_state, actual_seq_lengths, scale=1.0, g=None):
    count = len(actual_seq_lengths)
    # A pool in which the first of each sequence's tokens finds its state, and each token writes a block of its own.
    starts = [sum(LENGTHS[:i]) for i in range(count)]
    pool = initial_state.new_zeros(TOKENS, *initial_state.shape[1:])
    pool = pool.index_copy(0, torch.tensor(starts), initial_state)
    blocks = torch.arange(TOKENS)
    out, pool = rule(query, key, value, pool, actual_seq_lengths, blocks, None, beta, g, None, scale)
    return out, pool[[s + n - 1 for s, n in zip(starts, LENGTHS, strict=True)]]


@pytest.mark.parametrize("given", [{}, {"scale": 0.5, "g": operands()[7]}], ids=["plain", "decay"])
def test_chunks(given):
    query, key, value, state, lengths, _, beta, *_ = operands()
    named = {"beta": beta, "initial_state": state[:3], "actual_seq_lengths": lengths, **given}
    check(torch_npu.npu_chunk_gated_delta_rule, chunk, [query, key, value], named)


def test_gradients_by_differences():
    query, key, value, state, lengths, _, beta, g, _ = operands()
    leaves = [t.double().npu().requires_grad_() for t in (query, key, value, state[:3], beta, g)]
    f = lambda q, k, v, s, b, g: torch_npu.npu_chunk_gated_delta_rule(
        q, k, v, initial_state=s, beta=b, g=g, actual_seq_lengths=lengths.npu()
    )
    assert torch.autograd.gradcheck(f, leaves, fast_mode=True)


def test_a_sequence_without_tokens_keeps_its_state():
    query, key, value, state, *_ = operands()
    lengths = torch.tensor([2, 0, 4], dtype=torch.int32)
    rows = [t.npu() for t in (query, key, value)]
    whole = torch_npu.npu_chunk_gated_delta_rule(*rows, initial_state=state[:3].npu(), actual_seq_lengths=lengths.npu())
    assert torch.equal(whole[1][1].cpu(), state[1])
    last = torch_npu.npu_chunk_gated_delta_rule(
        *(t[2:] for t in rows), initial_state=state[2:3].npu(), actual_seq_lengths=lengths[2:].npu()
    )
    assert torch.equal(whole[0][2:], last[0]) and torch.equal(whole[1][2], last[1][0])


def test_tokens_behind_the_last_sequence_are_padding():
    query, key, value, state, _, blocks, *_ = operands()
    rows = [t.npu() for t in (query, key, value)]
    lengths = torch.tensor([2, 3], dtype=torch.int32).npu()
    whole = torch_npu.npu_chunk_gated_delta_rule
    out, last = whole(*rows, initial_state=state[:2].npu(), actual_seq_lengths=lengths)
    cut, cut_last = whole(*(t[:5] for t in rows), initial_state=state[:2].npu(), actual_seq_lengths=lengths)
    assert torch.equal(out[:5], cut) and torch.equal(last, cut_last) and not out[5:].any()

    step, pools = torch_npu.npu_recurrent_gated_delta_rule, (state.npu(), state.npu())
    blocks = blocks.npu().clone()
    blocks[5] = -1  # what programs pad with
    for count, pool in zip((6, 5), pools, strict=True):
        parts = [t[:count] for t in rows]
        step(*parts, pool, actual_seq_lengths=lengths, ssm_state_indices=blocks[:count])
    assert torch.equal(*pools)


def test_refusals():
    query, key, value, state, lengths, blocks, beta, *_ = (t.npu() for t in operands())
    step, whole = torch_npu.npu_recurrent_gated_delta_rule, torch_npu.npu_chunk_gated_delta_rule
    with pytest.raises(RuntimeError, match="actual_seq_lengths is needed"):
        step(query, key, value, state, ssm_state_indices=blocks)
    with pytest.raises(RuntimeError, match="ssm_state_indices is needed"):
        step(query, key, value, state, actual_seq_lengths=lengths)
    with pytest.raises(RuntimeError, match="initial_state is needed"):
        whole(query, key, value, actual_seq_lengths=lengths)
    with pytest.raises(RuntimeError, match="value has 3 heads, no multiple of the 2 of key"):
        step(query, key, value[:, :3], state[:, :3], actual_seq_lengths=lengths, ssm_state_indices=blocks)
    with pytest.raises(RuntimeError, match="state must have 5 in dimension 2, got 3"):
        step(query, key, value, state.mT, actual_seq_lengths=lengths, ssm_state_indices=blocks)
    with pytest.raises(RuntimeError, match="beta must have 6 in dimension 0, got 5"):
        whole(query, key, value, initial_state=state[:3], actual_seq_lengths=lengths, beta=beta[:5])
