"""Matrix products against CPU PyTorch."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import compare, rand

A = torch.ops.aten
HALF = torch.float16
BF16 = torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, HALF, BF16, torch.float64, torch.int64])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul(npu, dtype, transposed):
    a, b = (rand(7, 5) * 3).to(dtype), (rand(5, 6) * 3).to(dtype)
    if transposed:
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    compare(npu, "aclnnMm", {"self": a, "mat2": b}, {"out": a @ b})
    compare(npu, "aclnnMatmul", {"self": a[0], "mat2": b}, {"out": a[0] @ b})


def test_batched_and_added_products(npu):
    a, b, c = rand(3, 4, 5), rand(3, 5, 6), rand(3, 4, 6)
    compare(npu, "aclnnBatchMatMul", {"self": a, "mat2": b}, {"out": a @ b})
    compare(
        npu,
        "aclnnBaddbmm",
        {"self": c, "batch1": a, "batch2": b, "beta": 0.5, "alpha": 2.0},
        {"out": torch.baddbmm(c, a, b, beta=0.5, alpha=2)},
    )
    compare(
        npu,
        "aclnnAddmm",
        {"self": c[0, 0], "mat1": a[0], "mat2": b[0], "beta": 1, "alpha": 1},
        {"out": torch.addmm(c[0, 0], a[0], b[0])},
    )
    compare(npu, "aclnnMv", {"self": a[0], "vec": b[0, :, 0]}, {"out": a[0] @ b[0, :, 0]})
    compare(npu, "aclnnDot", {"self": a[0, 0], "tensor": b[0, :, 0]}, {"out": a[0, 0] @ b[0, :, 0]})


def test_half_products_round_once(npu):
    a, b = rand(33, 257, dtype=HALF), rand(257, 18, dtype=HALF)
    compare(npu, "aclnnMm", {"self": a, "mat2": b}, {"out": (a.float() @ b.float()).half()}, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
@pytest.mark.parametrize(
    "shape", [(64, 784, 130), (9, 300, 257), (130, 520, 47), (512, 64, 784), (8, 1030, 16)], ids=str
)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_blocked_products(npu, dtype, shape, layout):
    """Sizes of the software NPU's own product: whole and partial tiles, blocks and depths, in any layout."""
    m, k, n = shape
    a, b = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype, seed=1)
    if layout[0] == "t":
        a = a.t().contiguous().t()
    if layout[1] == "t":
        b = b.t().contiguous().t()
    bias, exact = rand(n, dtype=dtype), a.double() @ b.double()
    near = {"rtol": 1e-5, "atol": 2e-4} if dtype == torch.float32 else {"rtol": 1e-3, "atol": 1e-3}
    compare(npu, "aclnnMm", {"self": a, "mat2": b}, {"out": exact.to(dtype)}, **near)
    added = {"self": bias, "mat1": a, "mat2": b, "beta": 0.5, "alpha": 2.0}
    compare(npu, "aclnnAddmm", added, {"out": (0.5 * bias.double() + 2 * exact).to(dtype)}, **near)


@pytest.mark.parametrize("size", [6, 64], ids=["small", "blocked"])
def test_a_product_of_two_types_is_not_rounded_before_it(npu, size):
    a, b = rand(size, size, dtype=HALF), rand(size, size, seed=1)
    exact = (a.double() @ b.double()).to(HALF)
    compare(npu, "aclnnMm", {"self": a, "mat2": b}, {"out": exact}, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_a_cross_product_of_parts_that_its_type_does_not_hold(npu, dtype):
    a, b = torch.tensor([[300.0, 301.0, 7.0]], dtype=dtype), torch.tensor([[299.0, 300.0, 5.0]], dtype=dtype)
    expected = torch.linalg.cross(a.double(), b.double()).to(dtype)
    assert torch.isfinite(expected).all()
    found = npu.call("aclnnLinalgCross", self=a, other=b, dim=-1, out=torch.zeros(1, 3, dtype=dtype))["out"]
    assert torch.equal(found, expected)
