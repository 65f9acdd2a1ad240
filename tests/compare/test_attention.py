"""Attention of the npu's own is compared, with dropout by the mask that was drawn; a seeded mistake in it is found."""

from __future__ import annotations

import inspect

import pytest
import torch

from tests.compare.test_compare import numbers, quiet
from torch_npu.utils.compare import Compare

# scaled_dot_product_attention's words, and the operator that it becomes.
ATTENTION = {
    "plain": ({}, "npu_fusion_attention"),
    "causal": ({"is_causal": True}, "npu_fusion_attention"),
    "hidden": ({"attn_mask": numbers(2, 1, 6, 9) < 1.2}, "npu_fusion_attention"),  # rows of the last see nothing
    "added": ({"attn_mask": numbers(2, 1, 6, 9)}, "_npu_dot_product_attention"),
    "dropped": ({"is_causal": True, "dropout_p": 0.3}, "_npu_dot_product_attention"),
}
# A seeded mistake: the operator's ending, and what becomes of its results.
MISTAKES = {
    "": (lambda out, *rest: (out * 1.01, *rest), ""),
    "statistics": (lambda out, most, *rest: (out, most + 0.01, *rest), ""),
    "_grad": (lambda q, k, v, *rest: (q, k * 1.001, v, *rest), " (backward)"),
}


def attend(form: str, dtype: torch.dtype) -> tuple[Compare, str]:
    torch.manual_seed(1)
    words = {key: v.to(v.dtype if v.dtype == torch.bool else dtype).npu().requires_grad_(v.dtype != torch.bool)
             if isinstance(v, torch.Tensor) else v for key, v in ATTENTION[form][0].items()}  # fmt: skip
    q, k, v = (
        torch.randn(2, heads, rows, 8).to(dtype).npu().requires_grad_() for heads, rows in ((4, 6), (2, 9), (2, 9))
    )
    with quiet() as found:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **words)
        line = f"test_attention.py:{inspect.currentframe().f_lineno - 1}"
        (out * torch.randn(out.shape).to(dtype).npu()).sum().backward()
    return found, line


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", ATTENTION)
def test_attention_is_compared_forward_and_backward(replaced, form, dtype):
    name = ATTENTION[form][1]
    found, _ = attend(form, dtype)
    assert found.first is None and found.skipped == {}, found
    assert {f"npu.{name}.default", f"npu.{name}_grad.default"} <= {row.operator for row in found.rows.values()}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("form", ["hidden", "dropped"])
def test_a_seeded_mistake_in_attention_is_found(replaced, form, mistake):
    seeded = f"npu::{ATTENTION[form][1]}{'_grad' if mistake == '_grad' else ''}"
    spoil, where = MISTAKES[mistake]
    right, keys = (
        torch.library.get_kernel(seeded, "PrivateUse1"),
        torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1),
    )
    replaced(seeded, lambda *args, **options: spoil(*right.call_boxed(keys, *args, **options)))
    found, line = attend(form, torch.float32)
    # A wrong statistic makes a wrong gradient, too: what came first is named.
    assert found.first.operator == seeded.replace("::", ".") + ".default" and found.first.line.endswith(line + where)
