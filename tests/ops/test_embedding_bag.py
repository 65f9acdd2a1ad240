"""Bags of embeddings by aclnnEmbeddingBag: results and gradients as the CPU's, what autograd keeps included."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

INDEX = torch.tensor([1, 4, 4, 0, 9, 2, 1, 3])
OFFSETS = {"full bags": [0, 2, 5], "an empty bag": [0, 3, 3, 6], "one bag": [0]}


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_bags_and_gradients(dtype, mode, padding, offsets):
    weight, begins = torch.randn(10, 5, generator=torch.Generator().manual_seed(0)).to(dtype), torch.tensor(offsets)
    found = []
    for device, kind in (("cpu", torch.float64), ("npu", dtype)):
        table = weight.detach().to(device, kind).requires_grad_()
        bags = F.embedding_bag(INDEX.to(device), table, begins.to(device), mode=mode, padding_idx=padding)
        bags.backward(torch.arange(1.0, 1 + bags.numel(), device=device, dtype=kind).view_as(bags) / 8)
        found.append((bags.detach().cpu().to(dtype), table.grad.cpu().to(dtype)))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("types", [(torch.int32, torch.int64), (torch.int64, torch.int32), (torch.int32, torch.int32)])
def test_weights_of_samples_and_a_last_offset(types):
    weight, begins, share = torch.randn(10, 5), torch.tensor([0, 2, 5, 8]), torch.rand(8)
    found = []
    for device in ("cpu", "npu"):
        table, each = (t.detach().to(device).requires_grad_() for t in (weight, share))
        index, offsets = INDEX.to(device, types[0]), begins.to(device, types[1])
        bags = F.embedding_bag(
            index, table, offsets, mode="sum", per_sample_weights=each, include_last_offset=True, padding_idx=2
        )
        bags.square().sum().backward()
        found.append([t.detach().cpu() for t in (bags, table.grad, each.grad)])
    torch.testing.assert_close(found[1], found[0])


def test_the_bag_of_each_index_is_there_where_whole_rows_are_summed():
    """ATen's sum leaves it out, and the gradient needs it."""
    offsets = torch.tensor([0, 2, 2, 5], device="npu")
    _, bag, sizes, _ = torch._embedding_bag(torch.randn(10, 5).npu(), INDEX.npu(), offsets)
    assert bag.tolist() == [0, 0, 2, 2, 2, 3, 3, 3] and sizes.shape == (4,)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_bags(mode):
    index, offsets = torch.tensor([1], device="npu"), torch.tensor([0], device="npu")
    bags = F.embedding_bag(index, torch.randn(4, 3).npu(), offsets, mode=mode, include_last_offset=True)
    torch.npu.synchronize()
    assert bags.shape == (0, 3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    ("offsets", "words"),
    [([0, 3, 1], "must not decrease, got 1 behind 3"), ([0, -5], "must not decrease"), ([1, 2], "must be 0, got 1"),
     ([0, 9], "at most the number of indices, 3, got 9")],
)  # fmt: skip
def test_offsets_that_are_none(mode, offsets, words):
    weight, index = torch.randn(4, 3).npu(), torch.tensor([1, 2, 3], device="npu")
    with pytest.raises(RuntimeError, match=words):
        F.embedding_bag(index, weight, torch.tensor(offsets, device="npu"), mode=mode)
        torch.npu.synchronize()


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_where_some_are_no_numbers(dtype, padding):
    """A NaN is taken where it is a bag's first, as on the CPU; -inf is a number like others."""
    nan, inf = float("nan"), float("inf")
    weight = torch.tensor([[nan, 1, -inf], [2, nan, -inf], [-inf, nan, nan], [7, 8, 9]], dtype=dtype)
    index, offsets = torch.tensor([0, 1, 1, 0, 2, 3, 0, 2, 1, 3]), torch.tensor([0, 2, 4, 5, 7, 9, 9])
    found = []
    for device in ("cpu", "npu"):
        table = weight.detach().to(device).requires_grad_()
        bags = F.embedding_bag(index.to(device), table, offsets.to(device), mode="max", padding_idx=padding)
        bags.backward(torch.arange(1.0, 1 + bags.numel(), dtype=dtype, device=device).view_as(bags))
        found.append((bags.detach().cpu(), table.grad.cpu()))
    torch.testing.assert_close(found[1], found[0], equal_nan=True)
