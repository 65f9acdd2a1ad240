"""Copies between host and npu, between devices, dtypes and strides; .item(); printing."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import check

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4).to(dtype)
    assert torch.equal(x.npu().cpu(), x)


@pytest.mark.parametrize("source", DTYPES[:-1], ids=str)
@pytest.mark.parametrize("target", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
def test_dtype_conversion_on_the_way(source: torch.dtype, target: torch.dtype) -> None:
    x = (torch.rand(3, 4) * 5).to(source)
    assert torch.equal(x.to("npu", target).cpu(), x.to(target))
    assert torch.equal(x.npu().to(target).cpu(), x.to(target))
    assert torch.equal(x.npu().to("cpu", target), x.to(target))


@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 1:3], lambda x: x[0], lambda x: x.unsqueeze(1).expand(4, 3, 6)],
)
def test_strided_tensors(view: object) -> None:
    x = torch.randn(4, 6)
    assert torch.equal(view(x).npu().cpu(), view(x))
    assert torch.equal(view(x.npu()).cpu(), view(x))
    y, z = torch.zeros(6, 4), torch.zeros(6, 4, device="npu")
    y.t().copy_(x), z.t().copy_(x)
    assert torch.equal(z.cpu(), y)


def test_copy_broadcasts() -> None:
    check(torch.Tensor.copy_, torch.zeros(3, 4), torch.randn(4))
    assert torch.equal(torch.zeros(3, 4, device="npu").copy_(torch.arange(4.0)).cpu(), torch.arange(4.0).expand(3, 4))
    with pytest.raises(RuntimeError, match="must match the existing size"):
        torch.zeros(3, 4, device="npu").copy_(torch.randn(5))


def test_a_view_is_copied_onto_itself() -> None:
    """Nothing happens, whatever overlaps in it."""
    x = torch.arange(1.0, device="npu").add_(3).expand(4)
    assert x.copy_(x[:]).tolist() == [3.0] * 4
    with pytest.raises(RuntimeError, match="more than one element"):
        x.copy_(torch.ones(4, device="npu"))


def test_between_devices() -> None:
    x = torch.randn(5, 6)
    a = x.to("npu:0")
    b = a.to("npu:1")
    assert b.device == torch.device("npu:1") and torch.equal(b.cpu(), x)
    c = torch.zeros(6, 5, device="npu:1").t()
    c.copy_(a)
    assert torch.equal(c.cpu(), x)
    assert torch.equal(a.t().to("npu:1", torch.float16).cpu(), x.t().half())


def test_pinned_memory_does_not_block() -> None:
    x = torch.randn(1000).pin_memory()
    assert x.is_pinned()
    y = x.to("npu", non_blocking=True)
    z = torch.empty(1000, pin_memory=True)
    z.copy_(y, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(z, x)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not torch.complex64], ids=str)
def test_item(dtype: torch.dtype) -> None:
    value = torch.tensor(3, dtype=dtype)
    assert value.npu().item() == value.item() and type(value.npu().item()) is type(value.item())


def test_item_of_a_slice_and_of_many() -> None:
    x = torch.arange(6.0).npu()
    assert x[4].item() == 4.0
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()


def test_conjugate_and_negative_bits() -> None:
    x = torch.randn(3, dtype=torch.complex64)
    assert torch.equal(x.npu().conj().cpu(), x.conj().resolve_conj())
    assert torch.equal(x.conj().npu().cpu(), x.conj().resolve_conj())
    assert torch.equal(x.npu().conj().imag.cpu(), x.conj().imag)


def test_printing() -> None:
    text = repr(torch.ones(2, 3).npu() + 1)
    assert "device='npu:0'" in text and "2., 2., 2." in text
    assert "0.5000" in repr(torch.tensor([0.5, 100.25]).npu())
    assert repr(torch.tensor([], device="npu")) == "tensor([], device='npu:0')"


def test_clone_contiguous_and_numpy() -> None:
    check(lambda x: x.t().clone(), torch.randn(3, 4))
    check(lambda x: x.t().contiguous(), torch.randn(3, 4))
    assert torch.equal(torch.from_numpy(torch.arange(3).npu().cpu().numpy()), torch.arange(3))


def test_copy_from_and_resize_keeps_equal_sizes() -> None:
    target = torch.zeros(4, 3, device="npu").t()
    stride = target.stride()
    torch.ops.aten._copy_from_and_resize(torch.arange(12.0).reshape(3, 4), target)
    assert target.stride() == stride and torch.equal(target.cpu(), torch.arange(12.0).reshape(3, 4))
    small = torch.zeros(1, device="npu")
    torch.ops.aten._copy_from_and_resize(torch.arange(3.0), small)
    assert torch.equal(small.cpu(), torch.arange(3.0))
