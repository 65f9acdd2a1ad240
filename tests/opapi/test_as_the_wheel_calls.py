"""Calls as the vendor's plugin makes them, where no document says so. Each was found by running its wheel."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import rand


@pytest.mark.parametrize("columns", [7, 8])
def test_the_alphas_of_ctc_loss_may_have_columns_to_spare(npu, columns):
    """On Ascend910B it allocates a multiple of eight; forward and backward use the first 2 * longest + 1."""
    steps = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(2).requires_grad_()
    targets, lengths, target_lengths = torch.tensor([[1, 2, 3], [3, 1, 2]]), [5, 4], [3, 2]
    losses, alphas = torch._ctc_loss(steps, targets, lengths, target_lengths)
    (gradient,) = torch.autograd.grad(losses, steps, torch.ones(2))
    common = {"targets": targets, "inputLengths": lengths, "blank": 0, "zeroInfinity": False}
    got = npu.call("aclnnCtcLoss", logProbs=steps.detach(), targetlengths=target_lengths,
                   negLogLikelihoodOut=torch.zeros(2), logAlphaOut=torch.zeros(2, 5, columns), **common)  # fmt: skip
    torch.testing.assert_close(got["negLogLikelihoodOut"], losses.detach())
    # The second sequence is shorter: PyTorch leaves some of its alphas undefined.
    torch.testing.assert_close(got["logAlphaOut"][0, :, :7], alphas.detach()[0])
    back = npu.call(
        "aclnnCtcLossBackward", gradOut=torch.ones(2), logProbs=steps.detach(), targetLengths=target_lengths,
        negLogLikelihood=got["negLogLikelihoodOut"], logAlpha=got["logAlphaOut"], out=torch.zeros_like(steps), **common,
    )  # fmt: skip
    torch.testing.assert_close(back["out"], gradient)


def test_results_of_an_embedding_bag_may_be_empty(npu):
    weight, indices, offsets = rand(5, 3), torch.tensor([1, 2, 3, 1]), torch.tensor([0, 2])
    got = npu.call("aclnnEmbeddingBag", weight=weight, indices=indices, offsets=offsets, scaleGradByFreq=False, mode=1,
                   sparse=False, perSampleWeights=None, includeLastOffset=False, paddingIdx=-1,
                   output=torch.zeros(2, 3), offset2bag=torch.zeros(4, dtype=torch.int64),
                   bagSize=torch.zeros(0, dtype=torch.int64), maxIndices=torch.zeros(0, dtype=torch.int64))  # fmt: skip
    expected = torch.nn.functional.embedding_bag(indices, weight, offsets)
    torch.testing.assert_close(got["output"], expected)
    assert got["offset2bag"].tolist() == [0, 0, 1, 1]


def test_gradients_of_an_lstm_may_be_null(npu):
    """dh, dc and outputMask: only the sequence has a gradient."""
    lstm, x = torch.nn.LSTM(3, 2), rand(4, 2, 3).requires_grad_()
    y, _ = lstm(x)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    weights = [w.detach() for w in lstm.parameters()]
    steps = [[torch.zeros(4, 2, 2)] for _ in range(7)]
    names = ("iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut")
    zero = torch.zeros(1, 2, 2)
    common = {"input": x.detach(), "params": weights, "hasBias": True, "numLayers": 1, "dropout": 0.0, "train": True,
              "bidirectional": False, "batchFirst": False, "hx": [zero, zero]}  # fmt: skip
    got = npu.call("aclnnLSTM", batchSizes=None, output=torch.zeros(4, 2, 2), hy=zero, cy=zero,
                   **dict(zip(names, steps, strict=True)), **common)  # fmt: skip
    torch.testing.assert_close(got["output"], y.detach(), rtol=1e-5, atol=1e-6)
    saved = dict(zip(("i", "g", "f", "o", "h", "c", "tanhc"), (got[name] for name in names), strict=True))
    back = npu.call("aclnnLstmBackward", dy=torch.ones(4, 2, 2), dh=None, dc=None, batchSizesOptional=None,
                    outputMask=None, dxOut=torch.zeros(4, 2, 3), dhPrevOut=zero, dcPrevOut=zero,
                    dparamsOut=[torch.zeros_like(w) for w in weights], **saved, **common)  # fmt: skip
    torch.testing.assert_close(back["dxOut"], dx, rtol=1e-5, atol=1e-6)


def gru_arguments(two_ways: bool) -> tuple[torch.nn.GRU, torch.Tensor, dict]:
    torch.manual_seed(0)
    gru, x, ways = torch.nn.GRU(3, 2, 2, bidirectional=two_ways), rand(4, 2, 3).requires_grad_(), 2 if two_ways else 1
    return gru, x, {"input": x.detach(), "params": [w.detach() for w in gru.parameters()], "hasBias": True,
                    "numLayers": 2, "bidirection": two_ways, "batchFirst": False,
                    "hx": torch.zeros(2 * ways, 2, 2)}  # fmt: skip


@pytest.mark.parametrize("two_ways", [False, True])
def test_gru(npu, two_ways):
    gru, x, common = gru_arguments(two_ways)
    y, _ = gru(x)
    inputs = [x, *gru.parameters()]
    dx, *dparams = torch.autograd.grad(y, inputs, torch.ones_like(y))
    entries = common["hx"].size(0)
    names = ("rOut", "zOut", "nOut", "hnOut", "hOut")
    lists = {name: [torch.zeros(4, 2, 2) for _ in range(entries)] for name in names}
    got = npu.call("aclnnGRU", batchSizes=None, dropout=0.0, train=True, output=torch.zeros_like(y),
                   hy=torch.zeros_like(common["hx"]), **lists, **common)  # fmt: skip
    torch.testing.assert_close(got["output"], y.detach(), rtol=1e-5, atol=1e-6)
    saved = dict(zip(("r", "z", "n", "hn", "h"), (got[name] for name in names), strict=True))
    back = npu.call("aclnnGRUBackward", dy=torch.ones_like(y), dh=None, batchSizes=None, dxOut=torch.zeros_like(x),
                    dhPrevOut=torch.zeros_like(common["hx"]), dparamsOut=[torch.zeros_like(w) for w in dparams],
                    **saved, **common)  # fmt: skip
    torch.testing.assert_close(back["dxOut"], dx, rtol=1e-4, atol=1e-5)
    for mine, want in zip(back["dparamsOut"], dparams, strict=True):
        torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5)
