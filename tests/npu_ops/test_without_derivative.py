"""`instead:` of ops/npu.yaml: an operator without derivative names, in a backward pass, what has one."""

from __future__ import annotations

import operator
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import torch.autograd.forward_ad as fa

import torch_npu

if TYPE_CHECKING:
    from collections.abc import Callable

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


BOXES, INTO, ROWS5 = torch.rand(4, 3), torch.rand(3, 1), torch.rand(5, 2, 4)
GRADIENTS = {  # operands but the gradient, whose tangents were lost, then the gradient and the rest
    "npu_masked_causal_conv1d_backward": (lambda f, g, x, w: f(g, x, w)[0], ROWS5, [ROWS5, torch.rand(3, 4)]),
    "npu_giou_backward": (lambda f, g, a, b: f(g, a, b)[0], INTO, [BOXES, BOXES + 0.5]),
    "npu_diou_backward": (lambda f, g, a, b: f(g, a, b)[0], INTO.t(), [BOXES, BOXES + 0.5]),
    "npu_ciou_backward": (lambda f, g, a, b: f(g, a, b, None, is_cross=False)[0], INTO.t(), [BOXES, BOXES + 0.5]),
    "npu_renorm_backward": (lambda f, g, x: f(g, x, 2, 0, 1.0), ROWS5, [ROWS5]),
    "stft_backward": (
        lambda f, g, x: f(g, x, 4, return_complex=True),
        torch.rand(3, 9, dtype=torch.cfloat),
        [BOXES.flatten()],
    ),
    "matmul_double_backward": (
        lambda f, g, a, b: f(a, b, g, a, b, [True] * 3)[1],
        BOXES @ BOXES.t(),
        [BOXES, BOXES.t()],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_forward_mode_of_gradients_is_refused_of_operands_and_right_of_the_gradient(name: str) -> None:
    call, grad, operands = GRADIENTS[name]
    f, (grad, *operands) = getattr(torch.ops.npu, name), [t.npu() for t in (grad, *operands)]
    for i, t in enumerate(operands):
        for jvp in (torch.func.jvp, dual):
            with pytest.raises(NotImplementedError, match=f"forward AD with {name}"):
                jvp(lambda t, i=i: call(f, grad, *operands[:i], t, *operands[i + 1 :]), (t,), (torch.ones_like(t),))
    if name != "matmul_double_backward":  # of which it is an operand, too
        found = torch.func.jvp(lambda t: call(f, t, *operands), (grad,), (2 * grad,))
        torch.testing.assert_close(found[1].cpu(), 2 * found[0].cpu())


def dual(f: Callable, values: tuple, tangents: tuple) -> torch.Tensor:
    with fa.dual_level():
        return f(fa.make_dual(values[0], tangents[0]))


# Operands without gradient: choices, masks and lengths, which are integers or have the derivative 0, and what only
# quantized results depend on.
CONSTANT = """
actual_seq_kvlen actual_seq_lengths_key actual_seq_lengths_kv actual_seq_lengths_query actual_seq_qlen atten_mask
block_sparse_mask block_table dropout_mask dst finished group_index indices input_ids mask padding_mask routing_map
sorted_indices sparse_indices target tid2eid topk_indices topk_mask npu_moe_gating_top_k.bias npu_rotary_mul.rotate
npu_add_rms_norm_dynamic_mx_quant.gamma npu_add_rms_norm_dynamic_mx_quant.beta npu_swiglu_group_quant.scale
""".split()


def test_every_operand_has_a_gradient_or_refuses_one_or_is_a_constant() -> None:
    for name, row in ROWS.items():
        ruled = {n for key in row.data.get("grad", {}) for n in key.replace(",", " ").split()}
        left = [a.name for a in row.schema.arguments if a.is_tensor and ruled and a.name not in ruled]
        assert not [n for n in left if n not in CONSTANT and f"{name}.{n}" not in CONSTANT], name


@pytest.mark.parametrize(("name", "refused"), [("npu_cross_entropy_loss", "weight"), ("npu_roi_align", "rois")])
def test_an_operand_that_has_none_is_refused_where_it_asks_for_a_gradient(name: str, refused: str) -> None:
    x, w = torch.rand(2, 3).npu().requires_grad_(), torch.rand(3).npu().requires_grad_()
    image, rois = torch.rand(1, 2, 6, 6).npu(), torch.tensor([[0.0, 0, 0, 4, 4]]).npu().requires_grad_()
    calls = {
        "weight": (w, lambda w: torch_npu.npu_cross_entropy_loss(x, torch.tensor([0, 2]).npu(), w)[0]),
        "rois": (rois, lambda r: torch_npu.npu_roi_align(image.requires_grad_(), r, 1.0, 2, 2, 2, 0)),
    }
    operand, call = calls[refused]
    says = rf"{name}: the derivative for '{refused}' is not implemented; give {refused}.detach\(\)"
    with pytest.raises(NotImplementedError, match=says):
        call(operand)
    call(operand.detach()).sum().backward()
    with torch.no_grad():
        call(operand)
    assert f"that for {refused} is refused" in getattr(torch_npu, name).__doc__
