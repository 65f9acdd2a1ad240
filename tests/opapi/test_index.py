"""Indexing, gathering, scattering and operators whose output shape depends on data, against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand

I64, I32 = torch.int64, torch.int32


@pytest.mark.parametrize("itype", [I64, I32])
def test_index_select_gather_take(npu, itype):
    x, i = rand(4, 5), torch.tensor([2, 0, 3, 3])
    compare(npu, "aclnnIndexSelect", {"self": x, "dim": 0, "index": i.to(itype)}, {"out": x.index_select(0, i)})
    j = torch.tensor([[0, 1], [4, 2], [3, 3], [1, 0]])
    compare(npu, "aclnnGather", {"self": x, "dim": 1, "index": j.to(itype)}, {"out": x.gather(1, j)})
    compare(npu, "aclnnTake", {"self": x, "index": j.to(itype)}, {"out": x.take(j)})
    compare(
        npu,
        "aclnnEmbedding",
        {"weight": x, "indices": j.to(itype) % 4},
        {"out": torch.nn.functional.embedding(j % 4, x)},
    )


def test_index_with_holes(npu):
    x, i, k = rand(3, 4, 5), torch.tensor([2, 0]), torch.tensor([1, 4])
    compare(npu, "aclnnIndex", {"self": x, "indices": [i]}, {"out": x[i]})
    compare(npu, "aclnnIndex", {"self": x, "indices": [torch.empty(0), i.int(), k]}, {"out": x[:, i, k]})
    compare(npu, "aclnnIndex", {"self": x, "indices": [i, torch.empty(0), k]}, {"out": x[i, :, k]})
    compare(
        npu, "aclnnIndex", {"self": x, "indices": [torch.empty(0, dtype=I64)]}, {"out": x[torch.empty(0, dtype=I64)]}
    )


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(npu, accumulate):
    x, i, v = rand(4, 3), torch.tensor([1, 3, 1] if accumulate else [1, 3, 0]), rand(3, 3)
    got = npu.call("aclnnIndexPutImpl", selfRef=x, indices=[i], values=v, accumulate=accumulate, unsafe=False)[
        "selfRef"
    ]
    torch.testing.assert_close(got, x.index_put((i,), v, accumulate))


def test_index_add_copy_fill(npu):
    x, i, s = rand(4, 3), torch.tensor([2, 0]), rand(2, 3)
    compare(
        npu,
        "aclnnIndexAdd",
        {"self": x, "dim": 0, "index": i, "source": s, "alpha": 2},
        {"out": x.index_add(0, i, s, alpha=2)},
    )
    got = npu.call("aclnnInplaceIndexCopy", selfRef=x, dim=0, index=i, source=s)["selfRef"]
    assert torch.equal(got, x.index_copy(0, i, s))
    compare(npu, "aclnnIndexFill", {"self": x, "dim": 1, "index": i, "value": 5.0}, {"out": x.index_fill(1, i, 5)})
    compare(
        npu,
        "aclnnIndexFillTensor",
        {"self": x, "dim": 1, "index": [2, 0], "value": 5.0},
        {"out": x.index_fill(1, i, 5)},
    )


@pytest.mark.parametrize("reduce, name", [(0, None), (1, "add"), (2, "multiply")])
def test_scatter(npu, reduce, name):
    x, i, s = rand(3, 4), torch.tensor([[0, 2], [1, 3], [3, 0]]), rand(3, 2)
    extra = {"reduce": name} if name else {}
    compare(
        npu,
        "aclnnScatter",
        {"self": x, "dim": 1, "index": i, "src": s, "reduce": reduce},
        {"out": x.scatter(1, i, s, **extra)},
    )
    compare(
        npu,
        "aclnnScatterValue",
        {"self": x, "dim": 1, "index": i, "value": 2.0, "reduce": reduce},
        {"out": x.scatter(1, i, 2.0, **extra)},
    )
    got = npu.call("aclnnInplaceScatter", selfRef=x, dim=1, index=i, src=s, reduce=reduce)["selfRef"]
    torch.testing.assert_close(got, x.scatter(1, i, s, **extra))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("reduce, name", [(1, "sum"), (2, "prod"), (3, "amax"), (4, "amin"), (5, "mean")])
def test_scatter_reduce(npu, reduce, name, include):
    x, i, s = rand(3, 4), torch.tensor([[0, 0], [1, 3], [3, 3]]), rand(3, 2)
    compare(
        npu,
        "aclnnScatterReduce",
        {"self": x, "dim": 1, "index": i, "src": s, "reduce": reduce, "includeSelf": include},
        {"out": x.scatter_reduce(1, i, s, name, include_self=include)},
    )


def test_scatter_nd_update_and_gather_v3(npu):
    x, i, u = rand(3, 4, 2), torch.tensor([[0, 1], [2, 3]]), rand(2, 2)
    expected = x.clone()
    expected[i[:, 0], i[:, 1]] = u
    assert torch.equal(npu.call("aclnnScatterNdUpdate", varRef=x, indices=i, updates=u)["varRef"], expected)
    j = torch.tensor([[0, 1], [1, 0]])
    compare(
        npu,
        "aclnnGatherV3",
        {"self": x, "dim": 1, "index": j},
        {"out": x.index_select(1, j.flatten()).view(3, 2, 2, 2)},
    )
    k = torch.tensor([[0], [3], [2]])
    compare(
        npu,
        "aclnnGatherV3",
        {"self": x, "dim": 1, "index": k, "batchDims": 1},
        {"out": torch.stack([x[b].index_select(0, k[b]) for b in range(3)])},
    )


def test_embedding_backward(npu):
    g, i = rand(2, 3, 4), torch.tensor([[0, 2, 2], [1, 0, 4]])
    for padding in (-1, 2):
        expected = torch.ops.aten.embedding_dense_backward(g, i, 5, padding, False)
        compare(
            npu,
            "aclnnEmbeddingDenseBackward",
            {"grad": g, "indices": i, "numWeights": 5, "paddingIdx": padding & (2**64 - 1)},
            {"out": expected},
        )


def dynamic(npu, op: str, outputs: dict, **inputs):
    """Calls with buffers large enough and checks the shape that the handle then has, and the values."""
    handles = {
        name: npu.tensor(torch.full((room,) if isinstance(room, int) else room, 77, dtype=want.dtype))
        for name, (room, want) in outputs.items()
    }
    npu.call(op, **inputs, **handles)
    for name, (_, want) in outputs.items():
        assert handles[name].shape() == tuple(want.shape), name
        assert torch.equal(handles[name].read().flatten()[: want.numel()].view(want.shape), want), name


def test_nonzero_and_masked_select(npu):
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    dynamic(npu, "aclnnNonzero", {"out": ((6, 2), x.nonzero())}, self=x)
    dynamic(npu, "aclnnNonzeroV2", {"out": ((2, 6), x.nonzero().t())}, self=x)
    dynamic(npu, "aclnnMaskedSelect", {"out": (6, x[x > 1])}, self=x, mask=x > 1)
    dynamic(npu, "aclnnNonzero", {"out": ((6, 2), torch.empty(0, 2, dtype=I64))}, self=torch.zeros(2, 3))


def test_unique(npu):
    x = torch.tensor([3, 1, 3, 2, 1])
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    dynamic(
        npu,
        "aclnnUnique2",
        {"valueOut": (5, values), "inverseOut": (5, inverse), "countsOut": (5, counts)},
        self=x,
        sorted=True,
        returnInverse=True,
        returnCounts=True,
    )
    values, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    dynamic(
        npu,
        "aclnnUniqueConsecutive",
        {"valueOut": (5, values), "inverseOut": (5, inverse), "countsOut": (5, counts)},
        self=x,
        returnInverse=True,
        returnCounts=True,
        dim=1000,
    )


def test_masked_fill_and_scatter(npu):
    x = rand(3, 4)
    m = x > 0
    assert torch.equal(
        npu.call("aclnnInplaceMaskedFillScalar", selfRef=x, mask=m, value=9.0)["selfRef"], x.masked_fill(m, 9)
    )
    source = torch.arange(12.0)
    assert torch.equal(
        npu.call("aclnnInplaceMaskedScatter", selfRef=x, mask=m, source=source)["selfRef"], x.masked_scatter(m, source)
    )


def test_search_and_bins(npu):
    edges, x = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0.0, 3.0, 6.0])
    compare(
        npu,
        "aclnnBucketize",
        {"self": x, "boundaries": edges, "right": True},
        {"out": torch.bucketize(x, edges, right=True)},
    )
    compare(
        npu,
        "aclnnSearchSorted",
        {"sortedSequence": edges, "self": x, "outInt32": True},
        {"out": torch.searchsorted(edges, x, out_int32=True)},
    )
    compare(npu, "aclnnHistc", {"self": x, "bins": 3, "min": 0.0, "max": 6.0}, {"out": torch.histc(x, 3, 0, 6)})
    n = torch.tensor([0, 2, 2])
    compare(npu, "aclnnBincount", {"self": n, "minlength": 4}, {"out": torch.bincount(n, minlength=4)})
