"""Boxes of detectors, and the next step of a decoding server."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import check


def chosen(boxes, scores, most, overlap, least):
    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        if scores[i] <= least or len(kept) == most:
            continue
        for j in kept:
            common = (torch.minimum(high[i], high[j]) - torch.maximum(low[i], low[j])).clamp_min(0).prod()
            union = (high[i] - low[i]).prod() + (high[j] - low[j]).prod() - common
            if common / union > overlap:
                break
        else:
            kept.append(i)
    return kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("most", [3, 30])
def test_boxes_that_do_not_overlap(dtype, most):
    torch.manual_seed(41)
    boxes, scores = (torch.rand(25, 4) * 10).to(dtype), torch.rand(25).to(dtype)
    index, count = torch_npu.npu_nms_v4(
        boxes.npu(), scores.npu(), most, torch.tensor(0.2).npu(), torch.tensor(0.25).npu()
    )
    expected = chosen(boxes.float(), scores.float(), most, 0.2, 0.25)
    assert index.dtype == count.dtype == torch.int32 and index.shape == (most,)
    assert count.item() == len(expected) and index.tolist() == expected + [0] * (most - len(expected))


def sampled(x, r, scale, height, width, samples):
    out = torch.zeros(r.shape[0], x.shape[1], height, width, dtype=x.dtype)
    h, w = x.shape[2:]
    for n, (b, *corners) in enumerate(r.tolist()):
        x0, y0, x1, y1 = (c * scale for c in corners)
        dy, dx = max(y1 - y0, 1) / height / samples, max(x1 - x0, 1) / width / samples
        for i in range(height * samples):
            for j in range(width * samples):
                y, z = y0 + (i + 0.5) * dy, x0 + (j + 0.5) * dx
                if not (-1 <= y <= h and -1 <= z <= w):
                    continue
                y, z = min(max(y, 0), h - 1), min(max(z, 0), w - 1)
                a, c = int(y), int(z)
                a1, c1 = min(a + 1, h - 1), min(c + 1, w - 1)
                v = x[int(b)]
                value = (v[:, a, c] * (1 - z + c) + v[:, a, c1] * (z - c)) * (1 - y + a)
                value = value + (v[:, a1, c] * (1 - z + c) + v[:, a1, c1] * (z - c)) * (y - a)
                out[n, :, i // samples, j // samples] += value / samples**2
    return out


def test_the_example_of_the_page():
    x = torch.arange(1, 37).float().reshape(1, 1, 6, 6).npu()
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]]).npu()
    out = torch_npu.npu_roi_align(x, rois, 0.25, 3, 3, 2, 0)
    assert out.cpu().tolist() == [[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]]


def test_regions_and_their_gradients():
    torch.manual_seed(42)
    x = torch.randn(2, 3, 5, 7)
    rois = torch.tensor(
        [[1, 0.0, 2.0, 9.0, 8.0], [0, -6.0, -8.0, 3.0, 1.5], [1, 3.0, 3.0, 3.5, 3.5], [0, 8, 2, 30, 40]]
    )
    op = lambda x: torch_npu.npu_roi_align(x, rois.to(x.device), 0.5, 2, 3, 2, 0)
    check(op, lambda x: sampled(x, rois, 0.5, 2, 3, 2), [x])
    leaf = x.double().requires_grad_()
    out = sampled(leaf, rois, 0.5, 2, 3, 2)
    grad = torch.randn_like(out)
    (expected,) = torch.autograd.grad(out, leaf, grad)
    got = torch_npu.npu_roi_alignbk(grad.npu(), rois.npu(), [2, 3, 5, 7], 3, 2, 0.5, 2, 0)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_the_next_step_of_a_server():
    tokens, positions, lengths, slots = (torch.arange(4) + 10 * i for i in range(4))
    tables, sampled_ids = (
        torch.tensor([[7, 3, 1, 8, 2, 5]] * 4) + torch.arange(4).unsqueeze(1) * 10,
        torch.tensor([[50], [51]]),
    )
    on = [t.npu() for t in (tokens, sampled_ids, positions, lengths, slots)]
    torch_npu.npu_advance_step_flashattn(*on, tables.npu(), 4, 2, 8)
    old = lengths[:2].clone()
    expected = [tokens.clone(), sampled_ids, positions.clone(), lengths.clone(), slots.clone()]
    expected[0][:2] = sampled_ids[:, 0]
    expected[2][:2], expected[3][:2] = old, old + 1
    expected[4][:2] = tables[torch.arange(2), old // 8] * 8 + old % 8
    for g, e in zip(on, expected, strict=True):
        assert torch.equal(g.cpu(), e)


def test_the_next_step_with_guesses():
    make = lambda first: torch.arange(first, first + 6).reshape(2, 3)
    tokens, sampled_ids, positions, lengths, slots = (make(i) for i in (100, 200, 4, 5, 0))
    tables, guesses, accepted = (
        torch.tensor([[7, 3, 1, 8], [2, 5, 9, 4]]),
        torch.tensor([[1, 2], [3, 4]]),
        torch.tensor([2, 0]),
    )
    on = [t.npu() for t in (tokens, sampled_ids, positions, lengths, slots)]
    torch_npu.npu_advance_step_flashattn(
        *on, tables.npu(), 2, 2, 4, spec_token=guesses.npu(), accepted_num=accepted.npu()
    )
    place = positions + 1 + accepted.unsqueeze(1)
    assert on[0].cpu().tolist() == [[202, 1, 2], [203, 3, 4]]
    assert torch.equal(on[2].cpu(), place) and torch.equal(on[3].cpu(), place + 1)
    assert torch.equal(on[4].cpu(), tables.gather(1, place // 4) * 4 + place % 4)


def test_what_does_not_fit_is_refused():
    boxes, number = torch.rand(5, 4).npu(), torch.tensor(0.5).npu()
    with pytest.raises(RuntimeError, match="scores must have 5 in dimension 0, got 4"):
        torch_npu.npu_nms_v4(boxes, boxes[:4, 0], 3, number, number)
    with pytest.raises(NotImplementedError, match="roi_end_mode 1 is not implemented"):
        torch_npu.npu_roi_align(torch.rand(1, 1, 4, 4).npu(), torch.rand(2, 5).npu(), 1.0, 2, 2, 2, 1)
    with pytest.raises(NotImplementedError, match="roi_end_mode 1 is not implemented"):  # what None is
        torch_npu.npu_roi_alignbk(torch.rand(2, 1, 2, 2).npu(), torch.rand(2, 5).npu(), [1, 1, 4, 4], 2, 2, 1.0, 2)
    with pytest.raises(NotImplementedError, match="sample_num 0"):
        torch_npu.npu_roi_align(torch.rand(1, 1, 4, 4).npu(), torch.rand(2, 5).npu(), 1.0, 2, 2, 0, 0)
    one = torch.zeros(4).long().npu()
    step = torch_npu.npu_advance_step_flashattn
    with pytest.raises(RuntimeError, match="seq_lens must be torch.int64, got torch.int32"):
        step(one, one[:2, None], one, one.int(), one, one[:, None], 4, 2, 8)
    with pytest.raises(ValueError, match="spec_token and accepted_num go together"):
        step(one, one[:2, None], one, one, one, one[:, None], 4, 2, 8, spec_token=one[:, None])
