"""Labels, indices and operands of types that CANN's documentation has and PyTorch's CPU library has not."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand

A = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str)
def test_whole_numbers_have_no_fraction(npu, dtype):
    x = torch.arange(6, dtype=dtype).reshape(2, 3)
    compare(npu, "aclnnFrac", {"input": x}, {"out": torch.zeros_like(x)})


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.bool, torch.float32, torch.float16], ids=str)
def test_indices_of_a_gradient_of_embedding(npu, dtype):
    grad, places = rand(4, 3), torch.tensor([1, 0, 1, 1])
    want = A.embedding_dense_backward(grad, places, 2, -1, False)
    values = {"grad": grad, "indices": places.to(dtype), "numWeights": 2, "paddingIdx": -1, "scaleGradByFreq": False}
    compare(npu, "aclnnEmbeddingDenseBackward", values, {"out": want})


def test_bytes_are_classes_of_pixels(npu):
    x, target = rand(2, 3, 4, 5), torch.randint(3, (2, 4, 5), generator=torch.Generator().manual_seed(1))
    loss, total = A.nll_loss2d_forward(x, target, None, 1, -100)
    values = {"self": x, "target": target.to(torch.uint8), "weight": None, "reduction": 1, "ignoreIndex": -100}
    compare(npu, "aclnnNLLLoss2d", values, {"out": loss, "totalWeightOut": total})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool], ids=str)
def test_labels_of_ctc_are_numbers_of_any_kind(npu, dtype):
    x, labels = rand(5, 2, 3).log_softmax(2), torch.tensor([[1, 1], [1, 0]])
    values = {"logProbs": x, "targets": labels.to(dtype), "inputLengths": [5, 5], "targetlengths": [1, 1], "blank": 2}
    loss, alpha = A._ctc_loss(x, labels, [5, 5], [1, 1], 2, False)
    compare(npu, "aclnnCtcLoss", values | {"zeroInfinity": False}, {"negLogLikelihoodOut": loss, "logAlphaOut": alpha})
