"""torch_npu/contrib/function: each function against its formula."""

from __future__ import annotations

import pytest
import torch

from torch_npu import contrib
from torch_npu.contrib import function


def corners(count: int, generator: torch.Generator) -> torch.Tensor:
    low = torch.rand(count, 2, generator=generator) * 50
    return torch.cat([low, low + 5 + torch.rand(count, 2, generator=generator) * 30], 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("moments", [{}, {"means": [0.1, 0.2, 0.0, -0.1], "stds": [0.1, 0.1, 0.2, 0.2]}])
def test_boxes_are_encoded_and_decoded(dtype, moments):
    generator = torch.Generator().manual_seed(0)
    anchors, boxes = corners(20, generator).to(dtype), corners(20, generator).to(dtype)
    means, stds = (torch.tensor(moments.get(k, [d] * 4)).double() for k, d in (("means", 0.0), ("stds", 1.0)))
    a, b = anchors.double(), boxes.double()
    size, wanted = a[:, 2:] - a[:, :2] + 1, b[:, 2:] - b[:, :2] + 1
    shift = ((b[:, 2:] + b[:, :2]) - (a[:, 2:] + a[:, :2])) / 2 / size
    expected = (torch.cat([shift, (wanted / size).log()], 1) - means) / stds
    got = function.npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), boxes.npu(), **moments)
    limit = 1e-4 if dtype == torch.float32 else 0.15
    assert got.dtype == dtype and (got.double().cpu() - expected).abs().max() < limit
    back = function.npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), got, **moments, wh_ratio_clip=1e-3)
    assert (back.double().cpu() - b).abs().max() < (1e-3 if dtype == torch.float32 else 0.5)
    small = function.npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), got, **moments, max_shape=(15, 18))
    assert small[:, 0::2].max() <= 18 and small[:, 1::2].max() <= 15
    scaled = function.npu_bbox_coder_encode_xyxy2xywh(
        anchors.float().npu() / 100, boxes.float().npu() / 100, is_normalized=True, normalized_scale=100.0, **moments
    )
    assert (scaled.double().cpu() - expected).abs().max() < 1e-3


def test_boxes_as_yolo_targets():
    anchors = torch.tensor([[0.0, 0, 10, 10], [5, 5, 20, 30]])
    boxes = torch.tensor([[1.0, 2, 12, 9], [4, 6, 22, 33]])
    stride = torch.tensor([8, 16])
    got = function.npu_bbox_coder_encode_yolo(anchors.npu(), boxes.npu(), stride.npu())
    centre = ((boxes[:, :2] + boxes[:, 2:]) - (anchors[:, :2] + anchors[:, 2:])) / 2 / stride[:, None] + 0.5
    ratio = ((boxes[:, 2:] - boxes[:, :2]) / (anchors[:, 2:] - anchors[:, :2])).log()
    assert torch.allclose(got.cpu(), torch.cat([centre.clamp(1e-6, 1 - 1e-6), ratio], 1), atol=1e-5)
    with pytest.raises(ValueError, match="Expected two tensors of shape"):
        function.npu_bbox_coder_encode_yolo(anchors.npu(), boxes[:1].npu(), stride.npu())
    with pytest.raises(ValueError, match="Expected a stride of shape"):
        function.npu_bbox_coder_encode_yolo(anchors.npu(), boxes.npu(), stride[:1].npu())
    with pytest.raises(TypeError, match="boxes of one dtype"):
        function.npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), boxes.npu().half())
    with pytest.raises(ValueError, match="max_shape of 2 numbers"):
        function.npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), boxes.npu(), max_shape=[3])


@pytest.mark.parametrize("name", ["means", "stds"])
@pytest.mark.parametrize("count", [0, 3, 5])
def test_moments_are_four(name, count):
    boxes = torch.tensor([[0.0, 0, 10, 10]], device="npu")
    for call in (function.npu_bbox_coder_encode_xyxy2xywh, function.npu_bbox_coder_decode_xywh2xyxy):
        with pytest.raises(ValueError, match=f"Expected {name} of 4 numbers, got {count}"):
            call(boxes, boxes, **{name: [1.0] * count})


def test_anchors_of_cells_with_a_centre_are_responsible():
    boxes = torch.tensor([[0.0, 0, 20, 20], [40, 8, 50, 60]])  # centres (10, 10) and (45, 34), as (x, y)
    flags = function.npu_single_level_responsible_flags((4, 5), boxes.npu(), (16, 16), 3)
    cells = {0 * 5 + 0, 2 * 5 + 2}
    assert flags.dtype == torch.uint8
    assert flags.tolist() == [int(cell in cells) for cell in range(20) for _ in range(3)]


def suppressed(boxes: torch.Tensor, scores: torch.Tensor, threshold: float, overlap: float, number: int) -> list:
    """Greedy suppression, a class at a time, then the best of all: (box, score, class)."""
    found = []
    for kind in range(scores.shape[1] - 1):
        order = scores[:, kind].argsort(descending=True).tolist()
        kept: list[int] = []
        for index in order:
            box = boxes[index] if boxes.dim() == 2 else boxes[index, kind]
            if scores[index, kind] <= threshold:
                continue
            others = [boxes[k] if boxes.dim() == 2 else boxes[k, kind] for k in kept]
            for other in others:
                w = min(box[2], other[2]) - max(box[0], other[0])
                h = min(box[3], other[3]) - max(box[1], other[1])
                common = max(w, 0) * max(h, 0)
                union = (box[2] - box[0]) * (box[3] - box[1]) + (other[2] - other[0]) * (other[3] - other[1]) - common
                if common / union > overlap:
                    break
            else:
                kept.append(index)
                found.append((box.tolist(), scores[index, kind].item(), kind))
    return sorted(found, key=lambda item: -item[1])[:number]


@pytest.mark.parametrize("own", [False, True], ids=["shared", "of-each-class"])
def test_suppression_is_greedy_by_class(own):
    generator = torch.Generator().manual_seed(1)
    boxes = torch.stack([corners(25, generator) for _ in range(3)], 1) if own else corners(25, generator)
    scores = torch.rand(25, 4, generator=generator)
    for number in (6, 40):
        expected = suppressed(boxes, scores, 0.3, 0.4, number)
        got, labels = function.npu_multiclass_nms(boxes.npu(), scores.npu(), 0.3, 0.4, number)
        assert got.shape == (number, 5) and labels.shape == (number,) and got.dtype == labels.dtype == torch.float16
        assert labels[: len(expected)].tolist() == [kind for _, _, kind in expected]
        want = torch.tensor([[*box, score] for box, score, _ in expected])
        assert torch.allclose(got[: len(expected)].float().cpu(), want, atol=0.05)
        assert not got[len(expected) :].any() and not labels[len(expected) :].any()


@pytest.mark.parametrize(("count", "classes"), [(0, 80), (4, 0), (0, 0)])
def test_suppression_of_no_boxes_or_no_classes_finds_none(count, classes):
    boxes, scores = torch.ones(count, 4, device="npu"), torch.ones(count, classes + 1, device="npu")
    got, labels = function.npu_multiclass_nms(boxes, scores, max_num=3)
    assert torch.equal(got, torch.zeros(3, 5, dtype=torch.float16, device="npu"))
    assert torch.equal(labels, torch.zeros(3, dtype=torch.float16, device="npu"))
    got, labels = function.npu_batched_multiclass_nms(boxes.expand(2, -1, -1), scores.expand(2, -1, -1), max_num=3)
    assert got.shape == (2, 3, 5) and labels.shape == (2, 3) and not got.any() and not labels.any()
    with pytest.raises(ValueError, match="not even the background's"):
        function.npu_multiclass_nms(boxes, scores[:, :0])


def test_suppression_of_a_batch_and_factors():
    generator = torch.Generator().manual_seed(2)
    boxes = torch.stack([corners(12, generator) for _ in range(2)])
    scores, factors = torch.rand(2, 12, 3, generator=generator), torch.rand(2, 12, generator=generator)
    got, labels = function.npu_batched_multiclass_nms(boxes.npu(), scores.npu(), 0.1, 0.5, 5, factors.npu())
    for image in range(2):
        one, kinds = function.npu_multiclass_nms(
            boxes[image].npu(), (scores[image] * factors[image, :, None]).npu(), 0.1, 0.5, 5
        )
        assert torch.equal(got[image], one) and torch.equal(labels[image], kinds)
    with pytest.raises(ValueError, match="max_num is at least 1"):
        function.npu_multiclass_nms(boxes[0].npu(), scores[0].npu(), max_num=-1)
    with pytest.raises(ValueError, match="Expected boxes"):
        function.npu_multiclass_nms(boxes[0, :3].npu(), scores[0].npu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_softmax_with_mask_and_dropout(dtype):
    scores = torch.randn(2, 3, 4, 32, dtype=dtype, device="npu", requires_grad=True)
    mask = torch.randn(2, 1, 4, 32, dtype=dtype, device="npu")
    expected = torch.softmax(scores.detach().double().cpu() / 8 + mask.double().cpu(), -1)
    limit = 1e-6 if dtype == torch.float32 else 2e-3
    layer = torch.nn.Dropout(0.5).eval()
    quiet = function.fuse_add_softmax_dropout(False, layer, mask, scores, 64, p=0.5)
    assert (quiet.double().cpu() - expected).abs().max() < limit
    dropped = function.fuse_add_softmax_dropout(True, layer, mask, scores, 64, p=0.5)
    kept = dropped.detach() != 0
    assert 0.4 < kept.float().mean() < 0.6
    assert ((dropped.detach().double().cpu() - 2 * expected) * kept.cpu()).abs().max() < 4 * limit
    dropped.float().square().sum().backward()
    exact = scores.detach().double().cpu().requires_grad_()
    ((torch.softmax(exact / 8 + mask.double().cpu(), -1) * 2 * kept.cpu()).square().sum()).backward()
    assert (scores.grad.double().cpu() - exact.grad).abs().max() < 10 * limit


def test_dropout_with_byte_mask():
    x = torch.full((4000,), 3.0, device="npu", requires_grad=True)
    y = function.dropout_with_byte_mask(x, 0.25)
    assert set(y.tolist()) == {0.0, 4.0} and 0.7 < (y != 0).float().mean() < 0.8
    y.sum().backward()
    assert torch.equal(x.grad, y.detach() / 3)
    assert torch.equal(function.dropout_with_byte_mask(x, 0.25, training=False), x)
    with pytest.raises(ValueError, match="between 0 and 1, but got 1.5"):
        function.dropout_with_byte_mask(x, 1.5)
    with pytest.raises(ValueError, match="no inplace form"):
        function.dropout_with_byte_mask(x, inplace=True)


def test_small_functions_with_gradients():
    a = torch.randn(2, 3, 4, device="npu", requires_grad=True)
    b = torch.randn(2, 5, 4, device="npu")
    product = function.matmul_transpose(a, b)
    assert torch.allclose(product, torch.einsum("bnk,bmk->bnm", a, b), atol=1e-5)
    product.sum().backward()
    assert torch.allclose(a.grad, b.sum(1, keepdim=True).expand_as(a), atol=1e-5)
    x = torch.arange(6.0, device="npu").view(2, 3)
    assert function.npu_fast_condition_index_put(x, x > 3, -1.0).tolist() == [[0, 1, 2], [3, -1, -1]]
    assert x.max() == 5
    with pytest.raises(TypeError, match="Expected condition.dtype in"):
        function.npu_fast_condition_index_put(x, x, 0.0)
    assert function.roll(x, (1, 1), (0, 1)).tolist() == [[5, 3, 4], [2, 0, 1]]


def test_what_has_no_operator_is_refused_by_its_name():
    with pytest.raises(NotImplementedError, match="needs the operator npu_fused_attention_score: .*npu_fusion"):
        contrib.npu_fused_attention(*[None] * 8)
    with pytest.raises(NotImplementedError, match="npu_fused_attention_layernorm_qkv_fwd"):
        contrib.npu_fused_attention_with_layernorm(*[None] * 10)


def test_names_are_found_in_contrib_too():
    for name in contrib.__all__:
        assert getattr(contrib, name).__doc__, name
    absent = {*function.__all__, *contrib.module.__all__} - {*contrib.__all__}
    assert absent == {"dropout_with_byte_mask", "DropoutWithByteMask", "QuantConv2d"}  # as docs/contrib.md says
    assert contrib.roll is function.roll and contrib.function is function
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        contrib.missing  # noqa: B018
