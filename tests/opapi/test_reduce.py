"""Reductions, scans, sorting against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand

F = torch.float32


@pytest.mark.parametrize("dims", [[], [0], [1], [0, 2], [-1]])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_sum(npu, dims, keep, dtype):
    x = (rand(3, 4, 5) * 4).to(dtype)
    compare(
        npu,
        "aclnnReduceSum",
        {"self": x, "dims": dims, "keepDims": keep, "dtype": dtype},
        {"out": torch.sum(x, dims, keepdim=keep)},
    )


CASES = {
    "Mean": ({"dim": [1], "keepDim": True, "dtype": F}, lambda x: {"out": x.mean(1, True)}),
    "MeanV2": ({"dim": [0, 1]}, lambda x: {"out": x.mean((0, 1))}),
    "ReduceNansum": ({"dim": [1], "dtype": F}, lambda x: {"out": x.nansum(1)}),
    "Prod": ({"dtype": F}, lambda x: {"out": x.prod()}),
    "ProdDim": ({"dim": 1, "keepDim": True, "dtype": F}, lambda x: {"out": x.prod(1, True)}),
    "Amax": ({"dim": [0, 2]}, lambda x: {"out": x.amax((0, 2))}),
    "Amin": ({"dim": [1], "keepDim": True}, lambda x: {"out": x.amin(1, True)}),
    "Aminmax": ({"dim": [1]}, lambda x: {"minOut": x.amin(1), "maxOut": x.amax(1)}),
    "AminmaxAll": ({}, lambda x: {"minOut": x.min(), "maxOut": x.max()}),
    "AminmaxDim": ({"dim": 2}, lambda x: {"minOut": x.amin(2), "maxOut": x.amax(2)}),
    "ArgMax": ({"dim": 1}, lambda x: {"out": x.argmax(1)}),
    "ArgMin": ({"dim": 2, "keepdim": True}, lambda x: {"out": x.argmin(2, True)}),
    "Max": ({}, lambda x: {"out": x.max()}),
    "Min": ({}, lambda x: {"out": x.min()}),
    "MaxDim": ({"dim": 1}, lambda x: {"out": x.max(1).values, "indices": x.max(1).indices}),
    "MinDim": ({"dim": 1}, lambda x: {"out": x.min(1).values, "indices": x.min(1).indices.int()}),
    "Median": ({}, lambda x: {"valuesOut": x.median()}),
    "MedianDim": ({"dim": 2}, lambda x: {"valuesOut": x.median(2).values, "indicesOut": x.median(2).indices}),
    "NanMedian": ({}, lambda x: {"out": x.nanmedian()}),
    "NanMedianDim": ({"dim": 2}, lambda x: {"valuesOut": x.nanmedian(2).values, "indicesOut": x.nanmedian(2).indices}),
    "Kthvalue": (
        {"k": 2, "dim": 1},
        lambda x: {"valuesOut": x.kthvalue(2, 1).values, "indicesOut": x.kthvalue(2, 1).indices},
    ),
    "Norm": ({"pScalar": 2.0, "dim": [1]}, lambda x: {"out": x.norm(2, 1)}),
    "LinalgVectorNorm": (
        {"ord": 1.0, "dims": [0], "keepDims": True, "dtype": F},
        lambda x: {"out": x.norm(1, 0, True)},
    ),
    "LogSumExp": ({"dim": [1]}, lambda x: {"out": x.logsumexp(1)}),
    "Std": ({"dim": [1], "correction": 1}, lambda x: {"out": x.std(1)}),
    "Var": ({"dim": [1], "unbiased": True}, lambda x: {"out": x.var(1)}),
    "VarCorrection": ({"dim": [1], "correction": 0}, lambda x: {"out": x.var(1, correction=0)}),
    "VarMean": ({"dim": [1], "correction": 1}, lambda x: {"varOut": x.var(1), "meanOut": x.mean(1)}),
    "StdMeanCorrection": ({"dim": [1], "correction": 1}, lambda x: {"stdOut": x.std(1), "meanOut": x.mean(1)}),
    "Cumsum": ({"dim": 1, "dtype": F}, lambda x: {"out": x.cumsum(1)}),
    "Cumprod": ({"dim": 1, "dtype": F}, lambda x: {"out": x.cumprod(1)}),
    "Cummax": ({"dim": 1}, lambda x: {"valuesOut": x.cummax(1).values, "indicesOut": x.cummax(1).indices}),
    "Cummin": ({"dim": 2}, lambda x: {"valuesOut": x.cummin(2).values, "indicesOut": x.cummin(2).indices}),
    "Sort": (
        {"dim": 1, "stable": True, "descending": True},
        lambda x: {"valuesOut": x.sort(1, True).values, "indicesOut": x.sort(1, True).indices},
    ),
    "Topk": (
        {"k": 2, "dim": 1, "largest": True, "sorted": True},
        lambda x: {"valuesOut": x.topk(2, 1).values, "indicesOut": x.topk(2, 1).indices},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reduction(npu, name):
    x = rand(3, 5, 4, seed=4)
    source = npu.signatures["aclnn" + name][0].name
    attributes, expected = CASES[name]
    compare(npu, "aclnn" + name, {source: x, **attributes}, expected(x))


@pytest.mark.parametrize("name", ["All", "Any"])
@pytest.mark.parametrize("dims", [[], [1], [0, 1]])
def test_all_any(npu, name, dims):
    x = torch.tensor([[True, False], [True, True]])
    function = torch.all if name == "All" else torch.any
    compare(
        npu, "aclnn" + name, {"self": x, "dim": dims}, {"out": function(x, dim=tuple(dims)) if dims else function(x)}
    )


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum_v2(npu, exclusive, reverse):
    x = torch.arange(1.0, 5)
    y = x.flip(0) if reverse else x
    sums = y.cumsum(0) - (y if exclusive else 0)
    compare(
        npu,
        "aclnnCumsumV2",
        {"self": x, "exclusive": exclusive, "reverse": reverse},
        {"out": sums.flip(0) if reverse else sums},
    )
