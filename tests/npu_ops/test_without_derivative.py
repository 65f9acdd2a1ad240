"""`instead:` of ops/npu.yaml: an operator without derivative names, in a backward pass, what has one."""

from __future__ import annotations

import operator
import re
import sys
from pathlib import Path

import pytest
import torch

import torch_npu

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "codegen"))
import npu  # noqa: E402

ROWS = {row.schema.full: row for row in npu.rows()}
REMEDIES = {name: row.data["instead"] for name, row in ROWS.items() if "instead" in row.data}


@pytest.mark.parametrize("name", REMEDIES)
def test_what_is_named_has_a_derivative(name: str) -> None:
    named = re.findall(r"npu_\w+", REMEDIES[name])
    assert all("grad" in ROWS[other].data or ROWS[other].composite for other in named)
    others = re.findall(r"torch(?:\.\w+)+", REMEDIES[name])
    assert named or others
    for other in others:
        operator.attrgetter(other.removeprefix("torch."))(torch)


def test_second_derivatives_of_attention_name_what_has_them() -> None:
    q = torch.randn(1, 2, 4, 8)

    def twice(x: torch.Tensor) -> torch.Tensor:
        attention = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        (g,) = torch.autograd.grad(attention.square().sum(), x, create_graph=True)
        g.square().sum().backward()
        return x.grad.cpu()

    with pytest.raises(RuntimeError, match=r"is not implemented: for second derivatives use torch.nn.attention.sdpa"):
        twice(q.npu().requires_grad_())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        found, expected = twice(q.npu().requires_grad_()), twice(q.clone().requires_grad_())
    torch.testing.assert_close(found, expected)


def test_gating_names_what_gives_its_values_and_gradients() -> None:
    logits = torch.randn(16, 8)
    x = logits.npu().requires_grad_()
    y, experts, _ = torch_npu.npu_moe_gating_top_k_softmax_v2(x, k=2)
    assert y.requires_grad and not experts.requires_grad
    says = r"for npu::npu_moe_gating_top_k_softmax_v2 is not implemented: use npu_moe_gating_top_k\(x, k\), or "
    with pytest.raises(RuntimeError, match=says):
        y.sum().backward()
    leaf = logits.clone().requires_grad_()
    expected = torch.softmax(leaf, -1).topk(2)
    weights = torch.tensor([1.0, 3.0])
    (expected.values * weights).sum().backward()
    for call in (lambda t: torch_npu.npu_moe_gating_top_k(t, 2)[:2], lambda t: torch.softmax(t, -1).topk(2)):
        t = logits.npu().requires_grad_()
        values, chosen = call(t)
        (values * weights.npu()).sum().backward()
        torch.testing.assert_close(values.cpu(), y.detach().cpu())
        assert torch.equal(chosen.cpu().long(), experts.cpu().long())
        torch.testing.assert_close(t.grad.cpu(), leaf.grad)


def test_rows_by_expert_name_what_makes_the_same() -> None:
    x, experts = torch.randn(4, 8), torch.tensor([[0, 2], [1, 0], [2, 1], [0, 1]], dtype=torch.int32)
    rows = torch.arange(8, dtype=torch.int32).view(2, 4).t().contiguous()
    leaf = x.npu().requires_grad_()
    made = torch_npu.npu_moe_init_routing(leaf, rows.npu(), experts.npu(), 4)[0]
    with pytest.raises(RuntimeError, match=r"use npu_moe_token_permute\(x, expert_idx\)"):
        made.sum().backward()
    permuted = torch_npu.npu_moe_token_permute(leaf, experts.npu())[0]
    permuted.sum().backward()
    assert torch.equal(leaf.grad.cpu(), torch.full((4, 8), 2.0))
    assert torch.equal(made.detach().cpu().sort(0).values, permuted.detach().cpu().sort(0).values)


def test_without_a_wish_for_gradients_nothing_is_said() -> None:
    x = torch.randn(4, 8).npu().requires_grad_()
    with torch.no_grad():
        assert not torch_npu.npu_moe_gating_top_k_softmax_v2(x, k=2)[0].requires_grad
    assert not torch_npu.npu_moe_gating_top_k_softmax_v2(x.detach(), k=2)[0].requires_grad


def test_forward_mode_is_refused_at_the_call() -> None:
    x = torch.randn(4, 8).npu()
    with pytest.raises(NotImplementedError, match="forward AD with npu_moe_gating_top_k_softmax_v2"):
        torch.func.jvp(lambda t: torch_npu.npu_moe_gating_top_k_softmax_v2(t, k=2)[0], (x,), (torch.ones_like(x),))
