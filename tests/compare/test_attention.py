"""Attention of the npu's own is compared, with dropout by the mask that was drawn; a seeded mistake in it is found."""

from __future__ import annotations

import inspect

import pytest
import torch

import torch_npu
from tests.compare.test_compare import numbers, quiet
from torch_npu.utils.compare import Compare

# scaled_dot_product_attention's words, and the operator that it becomes.
ATTENTION = {
    "plain": ({}, "npu_fusion_attention"),
    "causal": ({"is_causal": True}, "npu_fusion_attention"),
    "hidden": ({"attn_mask": numbers(2, 1, 6, 9) < 1.2}, "npu_fusion_attention"),  # rows of the last see nothing
    "added": ({"attn_mask": numbers(2, 1, 6, 9)}, "_npu_dot_product_attention"),
    "infinite": ({"attn_mask": numbers(6, 9).masked_fill(numbers(6, 9) > 1, -torch.inf)}, "_npu_dot_product_attention"),
    "least": ({"attn_mask": (numbers(2, 1, 1, 9) > 1) * -65504.0}, "_npu_dot_product_attention"),
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
@pytest.mark.parametrize("form", ["hidden", "added", "infinite", "least", "dropped"])
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


# npu_fusion_attention itself: layout, heads of query and key, sparse_mode, its mask's shape and type, the band.
WHOLE, TRIANGLE = (6, 9), (2048, 2048)
FORMS = {
    "BNSD, no mask": ("BNSD", 4, 2, 0, None, None, {}),
    "BSND, whole": ("BSND", 4, 4, 0, WHOLE, torch.bool, {}),
    "BSH, band": ("BSH", 4, 2, 0, WHOLE, torch.uint8, {"pre_tockens": 2, "next_tockens": 3}),
    "SBH, all": ("SBH", 4, 1, 1, (2, 1, 6, 9), torch.uint8, {}),
    "BSH, left": ("BSH", 4, 4, 2, TRIANGLE, torch.bool, {}),
    "SBH, right": ("SBH", 4, 2, 3, TRIANGLE, torch.uint8, {}),
    "BSND, right": ("BSND", 6, 2, 3, TRIANGLE, torch.bool, {}),
}
# Counted, and not compared.
WITHOUT = {
    "a compressed band": ("BNSD", 4, 2, 4, TRIANGLE, torch.bool, {"pre_tockens": 3, "next_tockens": 1}),
    "dropout": ("BNSD", 4, 4, 0, None, None, {"keep_prob": 0.5}),
}
SHAPES = {
    "BNSD": lambda heads, rows: (2, heads, rows, 8),
    "BSND": lambda heads, rows: (2, rows, heads, 8),
    "BSH": lambda heads, rows: (2, rows, heads * 8),
    "SBH": lambda heads, rows: (rows, 2, heads * 8),
}


def fused(form: tuple, dtype: torch.dtype) -> Compare:
    layout, heads, of_key, mode, shape, kind, band = form
    torch.manual_seed(2)
    q, k, v = (
        torch.randn(SHAPES[layout](n, rows)).to(dtype).npu().requires_grad_()
        for n, rows in ((heads, 6), (of_key, 9), (of_key, 9))
    )
    if shape == TRIANGLE:
        mask = torch.ones(shape).triu(1).to(kind).npu()
    else:
        mask = None if shape is None else (torch.rand(shape) < 0.3).to(kind).npu()
    with quiet() as found:
        out = torch_npu.npu_fusion_attention(
            q, k, v, heads, layout, atten_mask=mask, scale=0.4, sparse_mode=mode, **band
        )[0]
        (out * torch.randn(out.shape).to(dtype).npu()).sum().backward()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_fusion_attention_is_compared_and_a_mistake_found(replaced, form):
    for dtype in (torch.float32, torch.float16):
        found = fused(FORMS[form], dtype)
        assert found.first is None and found.skipped == {}, found
        compared = {row.operator for row in found.rows.values()}
        assert {"npu.npu_fusion_attention.default", "npu.npu_fusion_attention_grad.default"} <= compared
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
    for mistake in ("_grad", ""):  # the gradient first: the forward's stays replaced
        seeded = f"npu::npu_fusion_attention{mistake}"
        right, spoil = torch.library.get_kernel(seeded, "PrivateUse1"), MISTAKES[mistake][0]
        replaced(seeded, lambda *a, right=right, spoil=spoil, **o: spoil(*right.call_boxed(keys, *a, **o)))
        assert fused(FORMS[form], torch.float32).first.operator == seeded.replace("::", ".") + ".default"


@pytest.mark.parametrize("form", WITHOUT)
def test_a_form_without_a_formula_is_counted(form):
    found = fused(WITHOUT[form], torch.float32)
    names = ("npu.npu_fusion_attention.default", "npu.npu_fusion_attention_grad.default")
    assert {name: 1 for name in names} in found.skipped.values(), found.skipped
    assert not {row.operator for row in found.rows.values()} & set(names)
