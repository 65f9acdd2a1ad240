"""Old operators on parts of tensors: loops written from the vendor's tests and pages."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torch_npu

from .compare import check


def filled_in_a_loop(x, start, end, value, axis):
    out = x.clone()
    for i, row in enumerate(start.tolist()):
        for j, begin in enumerate(row):
            for k in range(begin, end[i, j]):
                if x.dim() > 1 and axis % x.dim() == x.dim() - 1:
                    out[j, ..., k] = value[i]
                else:
                    out.select(axis, k).fill_(value[i])
    return out


@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((4, 9), 0), ((4, 9), 1), ((2, 9, 5), 1), ((4, 3, 9), -1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8])
def test_filled_ranges(shape, axis, dtype):
    x = torch.arange(1, 1 + int(np.prod(shape))).reshape(shape).to(dtype)
    start, end = torch.tensor([[0, 2, 3, 3], [1, 1, 3, 0]]).int(), torch.tensor([[1, 4, 3, 4], [2, 1, 4, 2]]).int()
    value = torch.tensor([7, 9]).to(dtype)
    got = torch_npu.npu_masked_fill_range(x.npu(), start.npu(), end.npu(), value.npu(), axis)
    assert torch.equal(got.cpu(), filled_in_a_loop(x, start, end, value, axis)) and got.dtype == dtype


@pytest.mark.parametrize("kind", [0, 1])
def test_normalized_sequences(kind):
    torch.manual_seed(1)
    x, lengths = torch.randn(3, 4, 6) * 3, torch.tensor([3, 6, 2], dtype=torch.int32)

    def reference(x):
        out = []
        for row, n in zip(x, lengths.tolist(), strict=True):
            seen = row[:, :n] if kind == 0 else row[:, :n].reshape(1, -1)
            out.append((row - seen.mean(1, keepdim=True)) / (seen.std(1, keepdim=True) + 1e-5))
        return torch.stack(out)

    check(lambda x: torch_npu.npu_normalize_batch(x, lengths.to(x.device), kind), reference, [x])


def test_added_channels():
    a, b = torch.randn(2, 5, 3, 1, 2), torch.randn(2, 20, 3, 1, 2)

    def reference(a, b):
        fill = lambda t: torch.cat([t, t.new_zeros(2, 32 - t.shape[1], 3, 1, 2)], 1)
        return fill(a[:, 2:]) + fill(b[:, 1:])

    check(lambda a, b: torch_npu.npu_stride_add(a, b, 2, 1, 2), reference, [a, b])
    one = torch.ones(1, 1, 1, 1, 1).npu()
    assert torch_npu.npu_stride_add(one, one, 0, 0, 1).flatten().tolist() == [2.0] + [0.0] * 15
    with pytest.raises(ValueError, match="other has 20 channels; from offset 0 on there are at most 16"):
        torch_npu.npu_stride_add(a.npu(), b.npu(), 0, 0, 1)


def test_random_choice():
    x = torch.tensor([1, 0, 1, 0]).bool().npu()
    index, mask = torch_npu.npu_random_choice_with_mask(x, 2, 1, 0)
    assert sorted(index.tolist()) == [[0], [2]] and mask.tolist() == [True, True]
    assert index.dtype == torch.int32 and mask.dtype == torch.bool
    index, mask = torch_npu.npu_random_choice_with_mask(x, 6)
    assert sorted(index[:2].tolist()) == [[0], [2]] and not index[2:].any()
    assert mask.tolist() == [True, True] + [False] * 4
    assert sorted(torch_npu.npu_random_choice_with_mask(x, 0)[0].tolist()) == [[0], [2]]
    many = torch.ones(3, 400).bool().npu()
    index, _ = torch_npu.npu_random_choice_with_mask(many, 600)
    places = index[:, 0].long() * 400 + index[:, 1]
    assert places.unique().numel() == 600 and abs(places.float().mean().item() - 599.5) < 60
    torch.npu.manual_seed(7)
    first = torch_npu.npu_random_choice_with_mask(many, 50)[0].cpu()
    assert not torch.equal(first, torch_npu.npu_random_choice_with_mask(many, 50)[0].cpu())
    torch.npu.manual_seed(7)
    assert torch.equal(first, torch_npu.npu_random_choice_with_mask(many, 50)[0].cpu())
    seeded = [torch_npu.npu_random_choice_with_mask(many, 50, 3, s)[0].cpu() for s in (4, 4, 5)]
    assert torch.equal(seeded[0], seeded[1]) and not torch.equal(seeded[0], seeded[2])


@pytest.mark.parametrize("with_offset", [True, False])
def test_search_for_a_scale(with_offset):
    """The loop of the vendor's own test, in fp32."""
    torch.manual_seed(6)
    x = torch.rand(5, 7) * 2 - 0.7
    low, high, bins, part = x.min(), x.max(), 16, 0.97
    cumsum = torch.histc(x, bins, low.item(), high.item()).cumsum(0).int()
    cdf = cumsum / x.numel()
    top = (cdf < part).sum() / bins * (high - low) + low
    bottom = (cdf < 1 - part).sum() / bins * (high - low) + low
    tried = torch.arange(0.7, 1.3, 0.01)
    top, bottom = (top.clamp_min(0), bottom.clamp_max(0)) if with_offset else (max(top.abs(), bottom.abs()), None)
    scales = (top * tried - bottom) / 255 if with_offset else top * tried / 127
    offsets = -((bottom / scales).round() + 128) if with_offset else torch.zeros_like(scales)
    losses = []
    for scale, offset in zip(scales, offsets, strict=True):
        whole = ((x / scale).round() + offset).clamp(-128, 127)
        losses.append((((whole - offset) * scale - x) ** 2).sum())
    best = torch.stack(losses).argmin()
    given = [x.npu(), low.reshape(1).npu(), high.reshape(1).npu(), cumsum.npu()]
    scale, offset = torch_npu.npu_ifmr(*given, part, part, 0.7, 1.3, 0.01, with_offset)
    torch.testing.assert_close(scale.cpu(), scales[best].reshape(1), rtol=1e-5, atol=0)
    torch.testing.assert_close(offset.cpu(), offsets[best].reshape(1))
