"""Shapes, copies, indices, products and decompositions: rows that no other test of the room gives a value."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nn

from tests.opapi.cases import check_row, rand, refused

A, B = rand(4, 6), rand(4, 6, seed=1)
LINE, MASK = rand(5), rand(4, 6, seed=2) > 0
IMAGE = rand(2, 3, 5, 6)
SQUARE = rand(4, 4)
BATCH, OTHER = rand(3, 4, 5), rand(3, 5, 6)
IDS = torch.tensor([2, 0, 3])
COLUMNS = nn.unfold(IMAGE, (2, 3), (1, 2), (1, 0), (2, 1))
WINDOWS = A.unfold(1, 3, 2)


def spread(gradient: torch.Tensor) -> torch.Tensor:
    x = torch.zeros(4, 6, requires_grad=True)
    x.unfold(1, 3, 2).backward(gradient)
    return x.grad


ROWS = {
    "Cast": ((A * 10, torch.int32), (A * 10).int()),
    "InplaceFillTensor": ((A, torch.tensor(7.0)), torch.full((4, 6), 7.0)),
    "InplaceOne": ((), torch.ones(3)),
    "Cat": (([A, B[:, :2]], 1), torch.cat([A, B[:, :2]], 1)),
    "Stack": (([A, B], 1), torch.stack([A, B], 1)),
    "Repeat": ((A, [2, 1, 3]), A.repeat(2, 1, 3)),
    "Flip": ((IMAGE, [0, 3]), IMAGE.flip(0, 3)),
    "Roll": ((A, [1, -2], [0, 1]), A.roll([1, -2], [0, 1])),
    "ConstantPadNd": ((A, [1, -1, 0, 2], 7.0), nn.pad(A, [1, -1, 0, 2], value=7.0)),
    "Eye": ((3, 5), torch.eye(3, 5)),
    "Arange": ((1, 8, 3), torch.tensor([1, 4, 7])),
    "Linspace": ((-2.0, 3.0, 6), torch.arange(-2.0, 4.0)),
    "LogSpace": ((0.0, 3.0, 4, 2.0), torch.tensor([1.0, 2.0, 4.0, 8.0])),
    "Tril": ((A, -1), A.tril(-1)),
    "Triu": ((A, 2), A.triu(2)),
    "OneHot": ((IDS, 4, torch.ones(1), torch.zeros(1), -1), nn.one_hot(IDS, 4).float()),
    "Im2col": ((IMAGE, [2, 3], [1, 2], [1, 0], [2, 1]), COLUMNS),
    "Im2colBackward": ((COLUMNS, [5, 6], [2, 3], [1, 2], [1, 0], [2, 1]),
                       nn.fold(COLUMNS, (5, 6), (2, 3), (1, 2), (1, 0), (2, 1))),
    "UnfoldGrad": ((WINDOWS.contiguous(), [4, 6], 1, 3, 2), spread(WINDOWS)),
    "InplaceMaskedFillTensor": ((A, MASK, torch.tensor(7.0)), A.masked_fill(MASK, 7.0)),
    "InplaceIndexFill": ((A, 0, IDS, 7.0), A.index_fill(0, IDS, 7.0)),
    "ScatterAdd": ((A, 0, IDS.view(1, 3), B), A.scatter_add(0, IDS.view(1, 3), B)),
    "InplacePut": ((A, torch.tensor([1, 23, 1]), LINE[:3], True), A.put(torch.tensor([1, 23, 1]), LINE[:3], True)),
    "Trace": ((SQUARE,), SQUARE.diagonal().sum()),
    "TopkV2": ((A, 3, 1, True, True, 1), tuple(A.topk(3, 1))),
    "InplaceAddmm": ((SQUARE, A, B.t().contiguous(), 0.5, 2.0, 0), 0.5 * SQUARE + 2 * A @ B.t()),
    "Addbmm": ((A, BATCH, OTHER, 0.5, 2.0, 0), 0.5 * A + 2 * (BATCH @ OTHER).sum(0)),
    "Addmv": ((A[:, 0].contiguous(), A, B[0], 2.0, 0.5, 0), 0.5 * A[:, 0] + 2 * A @ B[0]),
    "Addr": ((A, A[:, 0].contiguous(), B[0], 0.5, 2.0), 0.5 * A + 2 * torch.outer(A[:, 0], B[0])),
    "LinalgCross": ((A.view(8, 3), B.view(8, 3), 1), torch.linalg.cross(A.view(8, 3), B.view(8, 3))),
    "TriangularSolve": ((A, SQUARE.triu() + 4 * torch.eye(4), True, False, False),
                        (torch.linalg.solve_triangular(SQUARE.triu() + 4 * torch.eye(4), A, upper=True),
                         SQUARE.triu() + 4 * torch.eye(4))),
    "Renorm": ((A, 2.0, 0, 1.0), A.renorm(2.0, 0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_row(npu, name):
    inputs, result = ROWS[name]
    check_row(npu, "aclnn" + name, inputs, result if isinstance(result, tuple) else (result,))


def test_what_fills_is_one_number(npu):
    """Without dimensions, or with one of 1, as CANN's page has it."""
    got = npu.call("aclnnInplaceFillTensor", selfRef=A, value=torch.tensor([7.0]))
    assert torch.equal(got["selfRef"], torch.full((4, 6), 7.0))
    for value in (torch.ones(2), torch.ones(1, 1), torch.ones(0)):
        refused(npu, "aclnnInplaceFillTensor", {"value": value}, {"selfRef": A}, "value")


def test_index_copy_writes_beside_what_it_reads(npu):
    """Its first operand is marked as changed, but the result goes to the last."""
    got = npu.call("aclnnIndexCopy", selfRef=A, dim=0, index=IDS, source=B[:3].contiguous(), outRef=torch.zeros(4, 6))
    assert torch.equal(got["outRef"], A.index_copy(0, IDS, B[:3]))


def test_the_factors_of_qr(npu):
    got = npu.call("aclnnLinalgQr", self=A, mode=1, Q=torch.empty(4, 4), R=torch.empty(4, 6))
    torch.testing.assert_close(got["Q"] @ got["R"], A, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got["Q"].t() @ got["Q"], torch.eye(4), rtol=1e-5, atol=1e-5)
    assert torch.equal(got["R"], got["R"].triu())


def test_the_factors_of_svd(npu):
    got = npu.call("aclnnSvd", input=A, fullMatrices=False, computeUV=True, sigma=torch.empty(4), u=torch.empty(4, 4),
                   v=torch.empty(6, 4))  # fmt: skip
    torch.testing.assert_close(got["sigma"], torch.linalg.svdvals(A), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got["u"] * got["sigma"] @ got["v"].t(), A, rtol=1e-5, atol=1e-5)


def test_unique_values_have_a_shape_of_their_own(npu):
    x = torch.tensor([3.0, 1.0, 3.0, 2.0])
    values = npu.tensor(torch.zeros(4))
    got = npu.call("aclnnUnique", self=x, sorted=True, returnInverse=True, valueOut=values,
                   inverseOut=torch.zeros(4, dtype=torch.int64))  # fmt: skip
    assert values.shape() == (3,) and got["valueOut"][:3].tolist() == [1, 2, 3]
    assert got["inverseOut"].tolist() == [2, 0, 2, 1]


def test_unique_rows(npu):
    x = torch.tensor([[2, 1], [0, 5], [2, 1]])
    values, counts = npu.tensor(torch.zeros(3, 2, dtype=torch.int64)), npu.tensor(torch.zeros(3, dtype=torch.int64))
    got = npu.call("aclnnUniqueDim", self=x, sorted=True, returnInverse=True, dim=0, valueOut=values,
                   inverseOut=torch.zeros(3, dtype=torch.int64), countsOut=counts)  # fmt: skip
    assert values.shape() == (2, 2) and counts.shape() == (2,)
    assert got["valueOut"].flatten()[:4].tolist() == [0, 5, 2, 1]
    assert got["inverseOut"].tolist() == [1, 0, 1] and got["countsOut"][:2].tolist() == [1, 2]


@pytest.mark.parametrize("by_tensors", [False, True])
def test_normal_numbers(npu, by_tensors):
    n = 20000
    if by_tensors:
        mean, std = torch.arange(n) % 2 * 10.0, torch.full((n,), 0.5)
        got = npu.call("aclnnNormalTensorTensor", mean=mean, std=std, seed=3, offset=0, out=torch.zeros(n))["out"]
        drawn = (got - mean) / std
    else:
        got = npu.call("aclnnNormalFloatFloat", mean=2.0, std=0.5, seed=3, offset=0, out=torch.zeros(n))["out"]
        drawn = (got - 2) / 0.5
    assert abs(drawn.mean()) < 0.03 and abs(drawn.std() - 1) < 0.02 and abs((drawn > 1).float().mean() - 0.1587) < 0.01
