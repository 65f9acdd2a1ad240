"""Cross entropy of a vocabulary in parts, and the choice of a token from filtered logits."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import FLOATING, check
from tests.references.tokens import choose

ROWS, COLUMNS, WORDS = 11, 6, 9


def operands():
    torch.manual_seed(3)
    return torch.randn(ROWS, COLUMNS), torch.randn(WORDS, COLUMNS), torch.randint(0, 20, (ROWS,))


def partial(input, weight, target, start, end, return_logits=False):
    logits = input @ weight.T
    largest = logits.amax(-1)
    rest = logits - largest[:, None]
    elsewhere = (target < start) | (target > end)
    local = torch.where(elsewhere, 0, target - start)
    bits = [*elsewhere.int().tolist(), *[1] * (-len(target) % 8)]
    packed = [int("".join(map(str, bits[i : i + 8])), 2) for i in range(0, len(bits), 8)]
    predicted = torch.where(elsewhere, 0.0, rest[torch.arange(len(target)), local])
    found = largest, rest.exp().sum(-1), predicted, torch.tensor(packed, dtype=torch.uint8), local
    return (*found, logits) if return_logits else found


@pytest.mark.parametrize("logits", [True, False])
def test_the_part_of_a_rank(logits):
    check(torch_npu.npu_fused_linear_online_max_sum, partial, [*operands(), 4, 12], {"return_logits": logits})


def test_gradients_by_differences():
    input, weight, target = (t.npu() for t in operands())
    leaves = [t.double().requires_grad_() for t in (input, weight)]
    f = lambda a, w: torch_npu.npu_fused_linear_online_max_sum(a, w, target, 4, 12, True)[:3]
    assert torch.autograd.gradcheck(f, leaves, fast_mode=True)


def test_types_of_the_part():
    input, weight, target = (t.npu() for t in operands())
    found = torch_npu.npu_fused_linear_online_max_sum(input.half(), weight.half(), target.int(), 4, 12, True)
    assert [t.dtype for t in found] == [torch.float32] * 3 + [torch.uint8, torch.int32, torch.float16]
    assert torch_npu.npu_fused_linear_online_max_sum(input, weight, target, 4, 12)[5] is None


def test_ranks_together_give_cross_entropy():
    """Two parts of a vocabulary, reduced as by all_reduce, equal PyTorch's loss, softmax and gradients."""
    torch.manual_seed(4)
    input, weight = torch.randn(ROWS, COLUMNS), torch.randn(2 * WORDS, COLUMNS)
    target, seed = torch.randint(0, 2 * WORDS, (ROWS,)), torch.rand(ROWS)
    leaves = [t.double().requires_grad_() for t in (input, weight)]
    expected = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T, target, reduction="none")
    gradients = torch.autograd.grad(expected, leaves, seed.double())
    parts = [weight[:WORDS].npu(), weight[WORDS:].npu()]
    ranks = [
        torch_npu.npu_fused_linear_online_max_sum(input.npu(), part, target.npu(), WORDS * i, WORDS * (i + 1) - 1, True)
        for i, part in enumerate(parts)
    ]
    largest = torch.maximum(ranks[0][0], ranks[1][0])
    total = sum(r[1] * (r[0] - largest).exp() for r in ranks)
    here = [target < WORDS, target >= WORDS]
    predicted = sum((r[2] + r[0] - largest) * h.npu() for r, h in zip(ranks, here, strict=True))
    input_gradient = torch.zeros_like(gradients[0])
    for i, r in enumerate(ranks):
        loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
            largest, total, predicted, vocab_parallel_logits=r[5]
        )
        torch.testing.assert_close(loss.cpu().double(), expected.detach(), rtol=1e-4, atol=1e-5)
        for known in ({"softmax": softmax}, {"logits_max": largest, "sum_exp_logits": total}):
            dx, dw = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
                seed.npu(), input.npu(), parts[i], r[3], r[4], **known
            )
            of_part = gradients[1][WORDS * i : WORDS * (i + 1)]
            torch.testing.assert_close(dw.cpu().double(), of_part, rtol=1e-4, atol=1e-5)
        input_gradient += dx.cpu()
    torch.testing.assert_close(input_gradient, gradients[0], rtol=1e-4, atol=1e-5)


def test_the_loss():
    torch.manual_seed(5)
    args = [torch.randn(4), torch.rand(4) + 1, torch.randn(4)]
    softmax = lambda m, s, p, vocab_parallel_logits: (
        s.log() - p,
        (vocab_parallel_logits - m[:, None]).exp() / s[:, None],
    )
    check(torch_npu.npu_fused_cross_entropy_loss_with_max_sum, lambda m, s, p: s.log() - p, args)
    op = torch_npu.npu_fused_cross_entropy_loss_with_max_sum
    check(op, softmax, args, {"vocab_parallel_logits": torch.randn(4, 6)}, dtypes=FLOATING[:1])
    assert op(*(t.npu() for t in args))[1] is None


def test_refusals_of_the_loss():
    one, matrix, target = torch.ones(4).npu(), torch.ones(4, 6).npu(), torch.zeros(4).long().npu()
    mask = torch.zeros(1, dtype=torch.uint8).npu()
    with pytest.raises(NotImplementedError, match="label_smoothing"):
        torch_npu.npu_fused_cross_entropy_loss_with_max_sum(one, one, one, label_smoothing=0.1)
    with pytest.raises(NotImplementedError, match="weight is not implemented"):
        torch_npu.npu_fused_cross_entropy_loss_with_max_sum(one, one, one, weight=matrix)
    with pytest.raises(RuntimeError, match="do not lie in 4 rows"):
        torch_npu.npu_fused_linear_online_max_sum(matrix, matrix, target, 0, 4)
    backward = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward
    with pytest.raises(RuntimeError, match="needs logits_max and sum_exp_logits"):
        backward(one, matrix, matrix, mask, target)
    with pytest.raises(RuntimeError, match="has 0 bits for 4 rows"):
        backward(one, matrix, matrix, mask[:0], target, softmax=torch.ones(4, 4).npu())


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", ["plain", "q", "min_p", "probabilities", "few"])
def test_chosen_tokens(form, dtype):
    torch.manual_seed(6)
    logits = torch.randn(8, 20).to(dtype)
    logits = (logits.float().softmax(1) if form == "probabilities" else logits).to(dtype)
    top_k = torch.tensor([0, 1, 5, 20, 40, 3, 0, 9], dtype=torch.int32)
    top_p = torch.tensor([1.0, 0.5, 0.75, 0.9375, 0.25, -1.0, 0.5, 2.0]).to(dtype)
    given = {
        "plain": {},
        "q": {"q": torch.rand(8, 20)},
        "min_p": {
            "min_ps": torch.tensor([0.25, 0.5, 0.25, 0.125, -1, 0.5, 1.5, 0.0]).to(dtype),
            "q": torch.rand(8, 20),
        },
        "probabilities": {"input_is_logits": False},
        "few": {"ks_max": 8},
    }[form]
    moved = {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in given.items()}
    token, kept = torch_npu.npu_top_k_top_p_sample(logits.npu(), top_k.npu(), top_p.npu(), is_need_logits=True, **moved)
    expected, stays, _ = choose(logits.double(), top_k, top_p, **given)
    assert token.dtype == torch.int64 and kept.dtype == torch.float32
    assert torch.equal(token.cpu(), expected)
    outside = 0.0 if form == "probabilities" else float("-inf")
    assert torch.equal(kept.cpu(), logits.float().masked_fill(~stays, outside))


def test_drawn_tokens():
    logits = torch.tensor([[0.0, 1.0, 0.5, -8.0]]).expand(4000, 4).contiguous().npu()
    top_k, top_p = torch.full((4000,), 2, dtype=torch.int32).npu(), torch.ones(4000).npu()
    draw = lambda seed: torch_npu.npu_top_k_top_p_sample(
        logits, top_k, top_p, post_sample="multiNomial", generator=torch.Generator("npu").manual_seed(seed)
    )[0]
    token = draw(1)
    assert torch.equal(token, draw(1)) and not torch.equal(token, draw(2))
    share = token.cpu().bincount(minlength=4) / 4000
    expected = torch.tensor([0.0, 0.6225, 0.3775, 0.0])
    torch.testing.assert_close(share, expected, rtol=0, atol=0.04)


def test_refusals_of_the_choice():
    logits, k, p = torch.ones(2, 4).npu(), torch.ones(2, dtype=torch.int32).npu(), torch.ones(2).npu()
    choice = torch_npu.npu_top_k_top_p_sample
    assert choice(logits, k, p)[1].numel() == 0
    with pytest.raises(ValueError, match="post_sample"):
        choice(logits, k, p, post_sample="other")
    with pytest.raises(NotImplementedError, match="q of seeds and offsets"):
        choice(logits, k, p, q=torch.ones(2, 2).long().npu(), post_sample="multiNomial")
    with pytest.raises(RuntimeError, match="top_k must have 2 in dimension 0, got 1"):
        choice(logits, k[:1], p)
    with pytest.raises(RuntimeError, match="q must have 4 in dimension 1, got 3"):
        choice(logits, k, p, q=torch.ones(2, 3).npu())
