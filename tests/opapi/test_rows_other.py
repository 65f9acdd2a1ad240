"""Shapes, indices, products, decompositions, padding, resampling: rows that no other test of the room gives a value."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nn

from tests.opapi.cases import check_row, rand

AT = torch.ops.aten
A, B = rand(4, 6), rand(4, 6, seed=1)
IMAGE, VOLUME = rand(2, 3, 5, 6), rand(1, 2, 4, 5, 6)
SQUARE = rand(3, 4, 4)
DEFINITE = SQUARE @ SQUARE.mT + 4 * torch.eye(4)
THETA = rand(2, 2, 3)
IDS = torch.tensor([2, 0, 2])
COUNTS = torch.tensor([2, 0, 3, 1])
GRID, GRID3 = rand(2, 4, 3, 2).tanh(), rand(1, 3, 4, 2, 3).tanh()

ROWS = {
    "Range": ((1, 9, 2), torch.tensor([1, 3, 5, 7, 9])),
    "ChunkCat": (([A, B], 0, 2), torch._chunk_cat([A, B], 0, 2)),
    "InplaceTriu": ((A, -1), A.triu(-1)),
    "InplaceTril": ((A, 1), A.tril(1)),
    "ChannelShuffle": ((rand(2, 6, 3, 3), 3), nn.channel_shuffle(rand(2, 6, 3, 3), 3)),
    "InplaceFillDiagonal": ((rand(7, 3), 9.0, True), rand(7, 3).fill_diagonal_(9.0, wrap=True)),
    "AffineGrid": ((THETA, [2, 3, 4, 5], False), nn.affine_grid(THETA, [2, 3, 4, 5], align_corners=False)),
    "RepeatInterleave": ((A[:, 0].contiguous(), COUNTS, 6), A[:, 0].repeat_interleave(COUNTS)),
    "RepeatInterleaveWithDim": ((A, COUNTS, 0, 6), A.repeat_interleave(COUNTS, 0)),
    "RepeatInterleaveInt": ((A, 2, 48), A.repeat_interleave(2)),
    "RepeatInterleaveIntWithDim": ((A, 2, 1, 12), A.repeat_interleave(2, 1)),
    "RepeatInterleaveTensor": ((COUNTS, 6), torch.repeat_interleave(COUNTS)),
    "SplitWithSize": ((A, [1, 3, 2], 1), [t.contiguous() for t in A.split([1, 3, 2], 1)]),
    "NpuFormatCast": ((A,), A),
    "IndexAddV2": ((A, 0, IDS, B[:3], 0.5, 0), A.index_add(0, IDS, B[:3], alpha=0.5)),
    "InplaceIndexFillTensor": ((A, 1, [0, 3], 7.0), A.index_fill(1, torch.tensor([0, 3]), 7.0)),
    "InplaceScatterValue": ((A, 0, IDS.view(1, 3), 7.0, 0), A.scatter(0, IDS.view(1, 3), 7.0)),
    "InplaceScatter": ((A, 0, IDS.view(1, 3), B, 0), A.scatter(0, IDS.view(1, 3), B)),
    "IsInScalarTensor": ((3.0, torch.tensor([1.0, 3.0]), False, False), torch.tensor(True)),
    "IsInTensorScalar": ((torch.tensor([1.0, 3.0]), 3.0, False, True), torch.tensor([True, False])),
    "EmbeddingRenorm": ((A, IDS, 0.5, 2.0), AT.embedding_renorm_(A.clone(), IDS, 0.5, 2.0)),
    "SearchSorteds": ((torch.arange(5.0), 2.0, False, True, torch.arange(5)), torch.tensor(3)),
    "MatmulWeightNz": ((A, B.t().contiguous(), 0), A @ B.t()),
    "BatchMatMulWeightNz": ((SQUARE, DEFINITE, 0), SQUARE @ DEFINITE),
    "AddmmWeightNz": ((A[:, :4].contiguous(), A, B.t().contiguous(), 0.5, 2.0, 0), 0.5 * A[:, :4] + 2 * A @ B.t()),
    "InplaceAddr": ((A, A[:, 0].contiguous(), B[0], 0.5, 2.0), 0.5 * A + 2 * torch.outer(A[:, 0], B[0])),
    "Inverse": ((DEFINITE,), DEFINITE.inverse()),
    "LinalgCholesky": ((DEFINITE, False), torch.linalg.cholesky(DEFINITE)),
    "Slogdet": ((SQUARE,), tuple(torch.linalg.slogdet(SQUARE))),
    "Pdist": ((A, 2.0), nn.pdist(A)),
    "Cdist": ((A, B, 1.0, 0), torch.cdist(A, B, 1.0)),
    "InplaceRenorm": ((A, 2.0, 0, 1.0), A.renorm(2.0, 0, 1.0)),
    "BatchNormReduce": ((IMAGE,), (IMAGE.sum((0, 2, 3)), IMAGE.square().sum((0, 2, 3)))),
    "ReflectionPad3d": ((VOLUME, [1, 2, 1, 0, 2, 1]), nn.pad(VOLUME, [1, 2, 1, 0, 2, 1], mode="reflect")),
    "ReplicationPad3d": ((VOLUME, [1, 2, 1, 0, 2, 1]), nn.pad(VOLUME, [1, 2, 1, 0, 2, 1], mode="replicate")),
    "UpsampleNearest1d": ((A[None], [9]), nn.interpolate(A[None], size=[9], mode="nearest")),
    "UpsampleNearest2dV2": ((IMAGE, [7, 9], 0.0, 0.0), nn.interpolate(IMAGE, size=[7, 9], mode="nearest")),
    "UpsampleNearestExact2d": ((IMAGE, [7, 9], 0.0, 0.0), nn.interpolate(IMAGE, size=[7, 9], mode="nearest-exact")),
    "UpsampleNearest3d": ((VOLUME, [3, 7, 9], 0.0, 0.0, 0.0), nn.interpolate(VOLUME, size=[3, 7, 9], mode="nearest")),
    "UpsampleNearestExact3d": ((VOLUME, [3, 7, 9], 0.0, 0.0, 0.0),
                               nn.interpolate(VOLUME, size=[3, 7, 9], mode="nearest-exact")),
    "UpsampleBicubic2dAA": ((IMAGE, [3, 4], False, 0.0, 0.0),
                            nn.interpolate(IMAGE, size=[3, 4], mode="bicubic", antialias=True)),
    "GridSampler2D": ((IMAGE, GRID, 0, 1, True), nn.grid_sample(IMAGE, GRID, "bilinear", "border", True)),
    "GridSampler3D": ((VOLUME, GRID3, 1, 0, False), nn.grid_sample(VOLUME, GRID3, "nearest", "zeros", False)),
    "MseLossOut": ((A, B, 1), nn.mse_loss(A, B)),
    "ConvDepthwise2d": ((IMAGE, rand(3, 1, 3, 3), [3, 3], rand(3), [1, 1], [1, 1], [1, 1], 0),
                        nn.conv2d(IMAGE, rand(3, 1, 3, 3), rand(3), padding=1, groups=3)),
    "DropoutBackward": ((A, torch.full((16,), 0b01010101, dtype=torch.uint8), 2.0),
                        A * (2 * (1 - torch.arange(24) % 2)).view(4, 6)),
    "DropoutV3Grad": ((A, torch.full((16,), 0b01010101, dtype=torch.uint8), 2.0),
                      A * (2 * (1 - torch.arange(24) % 2)).view(4, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_row(npu, name):
    inputs, result = ROWS[name]
    check_row(npu, "aclnn" + name, inputs, result if isinstance(result, tuple) else (result,), rtol=1e-4, atol=1e-5)


def gradient(function, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A cotangent for the result, and the gradient of x."""
    leaf = x.clone().requires_grad_()
    y = function(leaf)
    dy = rand(*y.shape, seed=5)
    return dy, torch.autograd.grad(y, leaf, dy)[0]


PADS = {
    "ReflectionPad2d": (IMAGE, [1, 2, 2, 1], "reflect"),
    "ReflectionPad3d": (VOLUME, [1, 2, 1, 0, 2, 1], "reflect"),
    "ReplicationPad3d": (VOLUME, [1, 2, 1, 0, 2, 1], "replicate"),
}


@pytest.mark.parametrize("name", PADS)
def test_gradient_of_padding(npu, name):
    x, padding, mode = PADS[name]
    dy, dx = gradient(lambda t: nn.pad(t, padding, mode=mode), x)
    check_row(npu, f"aclnn{name}Backward", (dy, x, padding), (dx,))


RESAMPLED = {
    "UpsampleNearest3dBackward": (VOLUME, [3, 7, 9], "nearest", 3),
    "UpsampleNearestExact2dBackward": (IMAGE, [7, 9], "nearest-exact", 2),
    "UpsampleNearestExact3dBackward": (VOLUME, [3, 7, 9], "nearest-exact", 3),
}


@pytest.mark.parametrize("name", RESAMPLED)
def test_gradient_of_resampling(npu, name):
    x, size, mode, dims = RESAMPLED[name]
    dy, dx = gradient(lambda t: nn.interpolate(t, size=size, mode=mode), x)
    check_row(npu, "aclnn" + name, (dy, size, list(x.shape), *[0.0] * dims), (dx,))


def test_gradient_of_antialiased_resampling(npu):
    dy, dx = gradient(lambda t: nn.interpolate(t, size=[3, 4], mode="bicubic", antialias=True), IMAGE)
    check_row(npu, "aclnnUpsampleBicubic2dAAGrad", (dy, [3, 4], list(IMAGE.shape), False, 0.0, 0.0), (dx,))


@pytest.mark.parametrize(
    "op, x, grid", [("GridSampler2DBackward", IMAGE, GRID), ("GridSampler3DBackward", VOLUME, GRID3)]
)
def test_gradient_of_sampling(npu, op, x, grid):
    a, g = x.clone().requires_grad_(), grid.clone().requires_grad_()
    y = nn.grid_sample(a, g, "bilinear", "zeros", True)
    dy = rand(*y.shape, seed=5)
    grads = torch.autograd.grad(y, (a, g), dy)
    check_row(npu, "aclnn" + op, (dy, x, grid, 0, 0, True, [True, True]), grads)


def test_gradient_of_distances(npu):
    dy, dx = gradient(lambda t: torch.cdist(t, B, 1.5), A)
    check_row(npu, "aclnnCdistBackward", (dy, A, B, torch.cdist(A, B, 1.5), 1.5), (dx,))


@pytest.mark.parametrize("reduce, name", [(1, "sum"), (2, "prod")])
def test_scatter_reduce_in_place(npu, reduce, name):
    index = torch.tensor([[0, 1, 0], [2, 2, 2]])
    expected = A.scatter_reduce(0, index, B, name, include_self=True)
    check_row(npu, "aclnnInplaceScatterReduce", (A, 0, index, B, reduce, True), (expected,))


def test_gradient_of_the_target_of_kl_divergence(npu):
    logs, target = A.log_softmax(1), B.softmax(1).requires_grad_()
    dy = rand(4, 6, seed=3)
    for log_target in (False, True):
        t = (target.log() if log_target else target).detach().requires_grad_()
        (grad,) = torch.autograd.grad(nn.kl_div(logs, t, reduction="none", log_target=log_target), t, dy)
        check_row(npu, "aclnnKlDivTargetBackward", (dy, logs, t.detach(), 0, log_target), (grad,), rtol=1e-4)


def test_statistics_gathered_from_ranks(npu):
    """Sums of two ranks of three and five images: their mean and variance together, and the running ones moved."""
    x = rand(8, 3, 4)
    parts = x[:3], x[3:]
    sums = torch.stack([p.sum((0, 2)) for p in parts])
    squares = torch.stack([p.square().sum((0, 2)) for p in parts])
    counts = torch.tensor([12, 20], dtype=torch.int32)
    mean, var = x.mean((0, 2)), x.var((0, 2), unbiased=False)
    running_mean, running_var = rand(3, seed=1), rand(3, seed=2).abs()
    got = npu.call("aclnnSyncBatchNormGatherStats", totalSum=sums, totalSquareSum=squares, sampleCount=counts,
                   mean=running_mean, variance=running_var, momentum=0.1, eps=1e-5, batchMean=torch.zeros(3),
                   batchInvstd=torch.zeros(3))  # fmt: skip
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(got["batchMean"], mean, **close)
    torch.testing.assert_close(got["batchInvstd"], (var + 1e-5).rsqrt(), **close)
    torch.testing.assert_close(got["mean"], 0.9 * running_mean + 0.1 * mean, **close)
    torch.testing.assert_close(got["variance"], 0.9 * running_var + 0.1 * var * 32 / 31, **close)


TWINS = {
    "InplaceUniform": ("InplaceUniformTensor", {"selfRef": torch.zeros(50), "from": 1.0, "to": 3.0}),
    "InplaceNormal": ("InplaceNormalTensor", {"selfRef": torch.zeros(50), "mean": 1.0, "std": 3.0}),
    "InplaceRandom": ("InplaceRandomTensor", {"selfRef": torch.zeros(50), "from": 1, "to": 30}),
    "InplaceRandomWithoutFromTo": ("InplaceRandomWithoutFromToTensor", {"selfRef": torch.zeros(50, dtype=torch.int32)}),
    "DropoutGenMaskV2": ("DropoutGenMaskV2Tensor", {"shape": [100], "prob": 0.3, "probDataType": torch.float32,
                                                    "out": torch.zeros(16, dtype=torch.uint8)}),
    "DropoutV3": ("DropoutV3Tensor", {"input": rand(128), "optionalNoiseShape": None, "p": 0.3, "out": torch.zeros(128),
                                      "maskOut": torch.zeros(16, dtype=torch.uint8)}),
    "Multinomial": ("MultinomialTensor", {"self": torch.ones(20), "numsamples": 30, "replacement": True,
                                          "out": torch.zeros(30, dtype=torch.int64)}),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_seed_and_offset_may_be_tensors(npu, name):
    """The same numbers as with the seed and the sum of both offsets as integers; others for another seed."""
    twin, values = TWINS[name]
    known = {p.name for p in npu.signatures["aclnn" + name]}
    plain = npu.call("aclnn" + name, **{k: v for k, v in values.items() if k in known}, seed=5, offset=12)

    def drawn(seed: int) -> dict:
        return npu.call(
            "aclnn" + twin, **values, seedTensor=torch.tensor([seed]), offsetTensor=torch.tensor([4]), offset=8
        )

    for key, value in drawn(5).items():
        assert torch.equal(value, plain[key])
    assert any(not torch.equal(value, plain[key]) for key, value in drawn(6).items())
    assert all(len(value.unique()) > 5 for value in plain.values())


def test_dropout_keeps_scales_and_says_what_it_kept(npu):
    x = rand(1000).abs() + 1
    for op, mask in (("Dropout", "maskOut"), ("DropoutV3", "maskOut")):
        more = {"train": True} if op == "Dropout" else {"optionalNoiseShape": None}
        got = npu.call("aclnn" + op, input=x, p=0.25, seed=3, offset=0, out=torch.zeros(1000),
                       maskOut=torch.zeros(128, dtype=torch.uint8), **more)  # fmt: skip
        kept = ((got[mask][:, None] >> torch.arange(8)) & 1).flatten()[:1000].bool()
        torch.testing.assert_close(got["out"], torch.where(kept, x / 0.75, 0))
        assert 0.7 < kept.float().mean() < 0.8


def test_bernoulli_into_another_tensor(npu):
    x = torch.zeros(4000)
    got = npu.call("aclnnBernoulli", self=x, prob=0.3, seed=1, offset=0, out=torch.full((4000,), 9.0))["out"]
    assert set(got.unique().tolist()) == {0.0, 1.0} and abs(got.mean() - 0.3) < 0.03
    chances = torch.arange(4000) / 4000
    got = npu.call("aclnnBernoulliTensor", self=x, prob=chances, seed=1, offset=0, out=torch.full((4000,), 9.0))["out"]
    assert abs(got[:2000].mean() - 0.25) < 0.03 and abs(got[2000:].mean() - 0.75) < 0.03


def test_a_normal_of_given_means_and_a_number_for_the_deviation(npu):
    means, close = torch.arange(4000.0), {"seed": 2, "offset": 0}
    out = torch.zeros(4000)
    got = npu.call("aclnnNormalTensorFloat", mean=means, std=2.0, out=out, **close)["out"] - means
    assert abs(got.std() - 2) < 0.1 and abs(got.mean()) < 0.15
    stds = torch.full((4000,), 3.0)
    got = npu.call("aclnnNormalFloatTensor", mean=10.0, std=stds, out=out, **close)["out"]
    assert abs(got.std() - 3) < 0.15 and abs(got.mean() - 10) < 0.2


def test_exponential_numbers(npu):
    got = npu.call("aclnnStatelessExponentialTensor", self=torch.zeros(4000), lambd=2.0, seedTensor=torch.tensor([5]),
                   offsetTensor=torch.tensor([4]), offset=8)["self"]  # fmt: skip
    assert got.min() > 0 and abs(got.mean() - 0.5) < 0.03 and abs(got.std() - 0.5) < 0.05


def test_dropout_mask_has_the_share_it_is_asked_for(npu):
    out = torch.zeros(512, dtype=torch.uint8)
    got = npu.call("aclnnDropoutGenMask", shape=[4096], prob=0.25, seed=1, offset=0, out=out)["out"]
    bits = ((got[:, None] >> torch.arange(8)) & 1).float()
    assert abs(bits.mean() - 0.75) < 0.03
