"""Tensors of bool in vectorized loops: read and written as masks, for lanes of each size, also in part."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F

from tests.inductor import compiler


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_masks_are_read_and_written(dtype):
    def function(full, odd):
        return [
            (torch.where(mask, x, y), x < y, mask & (x > 1), ~mask, mask.to(x.dtype) + x, mask.sum(-1))
            for x, y, mask in (full, odd)
        ]

    torch.manual_seed(0)
    given = [
        (torch.randint(0, 4, size).to(dtype), torch.randint(0, 4, size).to(dtype), torch.rand(size) < 0.5)
        for size in ((4, 64), (3, 37))
    ]
    compiler.same_as_cpu(function, *given, rtol=0, atol=0)


def test_the_functions_for_masks_are_called():
    torch.manual_seed(0)
    x = torch.randn(8, 64, device="npu", requires_grad=True)
    found, codes = run_and_get_code(lambda: torch.compile(F.relu)(x).sum().backward())
    read, written = ("\n".join(codes).count(text) for text in ("= npu_mask<", " npu_store_mask(tmp"))
    assert read == written == 1
    assert x.grad.equal((x > 0).float())


def test_whatever_is_not_zero_is_true():
    """As eager takes a bool that a view of other bytes made."""
    torch.manual_seed(0)
    mask = torch.randint(0, 256, (7, 48), dtype=torch.uint8, device="npu")
    x = torch.randn(7, 48, device="npu")
    compiled = torch.compile(lambda mask, x: torch.where(mask, x, 0))
    assert compiled(mask.view(torch.bool), x).equal(torch.where(mask != 0, x, 0))


def test_masks_across_a_transposed_tensor():
    def function(x, mask):
        return torch.where(mask.t(), x, -x), (x > 0).t().contiguous(), (x.t() > 0) & mask

    torch.manual_seed(0)
    for rows, columns in ((64, 48), (33, 17)):
        compiler.same_as_cpu(function, torch.randn(rows, columns), torch.rand(columns, rows) < 0.5, rtol=0, atol=0)


@pytest.mark.parametrize("size", [3, 4, 5, 16, 20, 37, 64])
def test_a_scatter_of_masks_stores_as_many_as_there_are(size):
    def function(mask, index, source):
        return (
            torch.scatter(mask, 0, index, source),
            mask.clone().scatter_(1, index, True),
            torch.scatter(mask, 1, index, source & mask),
            mask.clone().index_put_((index[0], index[1]), source[0]),
        )

    torch.manual_seed(0)
    index = torch.stack([torch.randperm(size) for _ in range(size)])
    compiler.same_as_cpu(function, torch.rand(size, size) < 0.3, index, torch.rand(size, size) < 0.5, rtol=0, atol=0)
