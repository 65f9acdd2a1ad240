"""Sparse tensors: tools/codegen/sparse.py, csrc/ops/sparse. The CPU is the judge, over PyTorch's samples, too."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.ops import sparse_samples

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:npu. aten"),
]
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool]
TYPES += [torch.complex64]
COUNTED = {"aten::_sparse_csr_prod.dim_dtype", "aten::_sparse_csr_sum.dim_dtype"}


def check(function: Callable[[str], Any], tolerance: float = 1e-5) -> None:
    """The function's tensors on the npu: layout, type, values of the CPU's, and nothing fell back."""
    torch.npu.reset_fallback_counts()
    got, wanted = function("npu"), function("cpu")
    assert torch.npu.fallback_counts() == {}
    got, wanted = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (got, wanted))
    assert all(x.device.type == "npu" for x in got)
    assert sparse_samples.differ(got, wanted, tolerance) is None


def coo(device: str, dtype: torch.dtype = torch.float32, dense: tuple[int, ...] = (), n: int = 12) -> torch.Tensor:
    """5 x 6, with places that have several entries."""
    torch.manual_seed(0)
    indices = torch.stack([torch.randint(0, 5, (n,)), torch.randint(0, 6, (n,))])
    values = torch.randint(-4, 5, (n, *dense)).to(dtype)
    return torch.sparse_coo_tensor(indices, values, (5, 6, *dense)).to(device)


@pytest.mark.fallback
@pytest.mark.parametrize("layout", sparse_samples.LAYOUTS)
def test_pytorchs_samples(layout: torch.layout) -> None:
    torch.npu.reset_fallback_counts()
    wrong, right = [], 0
    for op in sparse_samples.operators(layout):
        for gradient in (False, True) if op.supports_autograd else (False,):
            for verdict, words in sparse_samples.judge(op, layout, torch.float32, gradient, most=12):
                right += verdict == "right"
                wrong += [] if verdict == "right" else [(op.name, gradient, words)]
    assert wrong == []
    assert right >= {torch.sparse_coo: 100, torch.sparse_csr: 100}.get(layout, 1)
    assert set(torch.npu.fallback_counts()) <= COUNTED


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dense", [(), (3,), (2, 2)])
def test_entries_of_one_place_are_added_up(dtype: torch.dtype, dense: tuple[int, ...]) -> None:
    def parts(device: str) -> list[torch.Tensor]:
        one = coo(device, dtype, dense).coalesce()
        return [one, one.indices(), one.values(), coo(device, dtype, dense).to_dense()]

    check(parts)
    assert coo("npu", dtype, dense).coalesce().is_coalesced()


def test_no_entries_and_no_sparse_dimensions() -> None:
    check(lambda d: coo(d, n=0).coalesce().to_dense())
    check(lambda d: coo(d, n=0) + coo(d))
    check(lambda d: torch.sparse.mm(coo(d, n=0), torch.ones(6, 2, device=d)))
    check(lambda d: torch.sparse_coo_tensor(torch.zeros(0, 3), [1.0, 2.0, 4.0], (), device=d).to_dense())
    check(lambda d: torch.zeros(3, 0, device=d).to_sparse().to_dense())


@pytest.mark.parametrize("dtype", TYPES)
def test_sums(dtype: torch.dtype) -> None:
    both = coo("npu", dtype) + coo("npu", dtype, n=5)
    assert torch.equal(both.to_dense().cpu(), coo("cpu", dtype).to_dense() + coo("cpu", dtype, n=5).to_dense())
    if dtype not in (torch.float16, torch.bool):  # the CPU has no sum of coalesced tensors of these types
        check(lambda d: coo(d, dtype).coalesce().add(coo(d, dtype, n=7).coalesce()))
    check(lambda d: torch.ones(5, 6, device=d, dtype=dtype) + coo(d, dtype))
    check(lambda d: torch.ones(6, 5, device=d, dtype=dtype).t() + coo(d, dtype))
    check(lambda d: torch.ones(5, 6, 3, device=d, dtype=dtype).add_(coo(d, dtype, (3,))))
    if dtype != torch.bool:
        check(lambda d: torch.ones(5, 6, device=d, dtype=dtype).add(coo(d, dtype), alpha=2))
        check(lambda d: coo(d, dtype) * 3)
        check(lambda d: coo(d, dtype) * coo(d, dtype, n=20))


def test_types_are_promoted() -> None:
    check(lambda d: coo(d, torch.float16) + coo(d, torch.float32))
    check(lambda d: coo(d, torch.int32) * coo(d, torch.float32))
    check(lambda d: torch.ones(5, 6, device=d, dtype=torch.float64) + coo(d, torch.float32))
    with pytest.raises(RuntimeError, match="result type (Float|float)"):
        torch.ones(5, 6, device="npu", dtype=torch.int64).add_(coo("npu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_products_and_their_gradients(dtype: torch.dtype, layout: str) -> None:
    def products(device: str) -> list[torch.Tensor]:
        torch.manual_seed(1)
        of_cpu = device == "cpu" and dtype in (torch.float16, torch.bfloat16)  # which has these types for COO only
        a = coo(device, dtype).coalesce()
        a = {
            "coo": lambda: a,
            "csr": a.to_sparse_csr,
            "csc": a.to_sparse_csc,
            "bsr": lambda: (
                torch.cat([a, a], 0).coalesce().index_select(0, torch.arange(6).to(device)).to_sparse_bsr((3, 3))
            ),
        }["coo" if of_cpu and layout != "bsr" else layout]()
        if of_cpu and layout == "bsr":
            a = a.to_dense()
        b = torch.randn(6, 4).to(device, dtype).requires_grad_()
        return [a @ b, torch.autograd.grad((a @ b).abs().sum(), b)[0]] if layout != "bsr" else [a @ b.detach()]

    check(products, sparse_samples.TOLERANCE.get(dtype, 1e-5))


def test_gradients_of_the_sparse_operand() -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        a, b = coo(device).requires_grad_(), torch.arange(12.0).reshape(6, 2).to(device).requires_grad_()
        c = torch.ones(5, 2).to(device).requires_grad_()
        loss = (
            torch.sparse.addmm(c, a, b, beta=2, alpha=3).sum() + torch.sparse.sum(a * 2) + a.to_dense().square().sum()
        )
        return list(torch.autograd.grad(loss, (a, b, c)))

    check(gradients)


def test_sparse_times_sparse_batches_and_vectors() -> None:
    check(lambda d: torch.sparse.mm(coo(d), coo(d).transpose(0, 1).coalesce()))
    check(lambda d: coo(d) @ torch.arange(6.0, device=d))
    check(lambda d: coo(d).to_sparse_csr() @ torch.arange(6.0, device=d))
    check(lambda d: coo(d).to_sparse_csr() @ coo(d).to_sparse_csr().to_dense().t().to_sparse_csr())

    def batches(device: str) -> torch.Tensor:
        a = torch.arange(24.0).reshape(2, 3, 4).remainder(3).to(device).to_sparse()
        return torch.bmm(a, torch.arange(16.0).reshape(2, 4, 2).to(device))

    check(batches)


def test_masks_selection_and_sums_along_dimensions() -> None:
    check(lambda d: torch.arange(30.0, device=d).reshape(5, 6).sparse_mask(coo(d).coalesce()))
    check(lambda d: coo(d).sparse_mask(coo(d, n=4).coalesce()))
    check(lambda d: coo(d).index_select(0, torch.tensor([4, 0, 4, 2], device=d)))
    check(lambda d: coo(d, dense=(3,)).index_select(2, torch.tensor([2, 0], device=d)))
    check(lambda d: torch.sparse.sum(coo(d, dense=(3,)), dim=1))
    check(lambda d: torch.cat([coo(d), coo(d)], 1))
    with pytest.raises(IndexError, match="out of range for dimension of size 5"):
        coo("npu").index_select(0, torch.tensor([5], device="npu"))


@pytest.mark.parametrize("to", ["to_sparse_csr", "to_sparse_csc", "to_sparse"])
def test_layouts(to: str) -> None:
    check(lambda d: getattr(coo(d), to)())
    check(lambda d: getattr(torch.eye(4, device=d), to)())
    check(lambda d: getattr(coo(d).to_sparse_csr(), to)())


def test_csr_is_made_checked_added_and_read() -> None:
    def made(device: str) -> torch.Tensor:
        return torch.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3), device=device)

    check(lambda d: [made(d), made(d).crow_indices(), made(d).col_indices(), made(d).values()])
    check(lambda d: made(d) + made(d) * 2)
    check(lambda d: torch.ones(2, 3, device=d) + made(d))
    with pytest.raises(RuntimeError, match="crow_indices"):
        torch.sparse_csr_tensor([0, 3, 2], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3), device="npu", check_invariants=True)
    with pytest.raises((RuntimeError, ValueError), match="inde"):
        torch.sparse_coo_tensor([[0, 9]], [1.0, 2.0], (2,), device="npu", check_invariants=True)


def train(device: str, optimizer: str, bag: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = (nn.EmbeddingBag(50, 4, sparse=True, mode="sum") if bag else nn.Embedding(50, 4, sparse=True)).to(device)
    kind = {"adam": torch.optim.SparseAdam, "sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}[optimizer]
    steps = kind(model.parameters(), lr=0.1)
    for step in range(3):
        steps.zero_grad()
        places = torch.tensor([[1, 7, 1], [step, 49, 7]], device=device)
        model(places).square().sum().backward()
        assert model.weight.grad.layout == torch.sparse_coo
        steps.step()
    return [model.weight, model.weight.grad.coalesce()]


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adagrad"])
@pytest.mark.parametrize("bag", [False, True])
def test_embeddings_with_sparse_gradients(optimizer: str, bag: bool) -> None:
    check(lambda d: train(d, optimizer, bag))


def test_clip_grad_norm_is_refused_as_on_the_cpu() -> None:
    for device in ("cpu", "npu"):
        model = nn.Embedding(5, 2, sparse=True).to(device)
        model(torch.tensor([1], device=device)).sum().backward()
        with pytest.raises(NotImplementedError, match="linalg_vector_norm"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    check(lambda d: torch.norm(coo(d)))


def test_a_large_table() -> None:
    def gradient(device: str) -> torch.Tensor:
        weight = torch.zeros(1_000_000, 8, device=device, requires_grad=True)
        places = torch.arange(200_000, device=device) * 7919 % 1_000_000
        nn.functional.embedding(places, weight, sparse=True).sum().backward()
        return weight.grad.coalesce()

    check(gradient)


def test_moves_printing_saving_and_copies(tmp_path: Path) -> None:
    for one in (coo("npu"), coo("npu").coalesce(), coo("npu").to_sparse_csr(), coo("npu", torch.float16, (2,))):
        assert one.cpu().npu().layout == one.layout
        file = io.BytesIO()
        torch.save(one, file)
        file.seek(0)
        loaded = torch.load(file)
        assert loaded.device.type == "npu"
        file.seek(0)
        assert torch.load(file, map_location="cpu").device.type == "cpu"
        for other in (loaded, one.cpu(), one.clone(), torch.zeros_like(one) + one):
            assert torch.equal(other.cpu().to_dense(), one.cpu().to_dense())
    assert "device='npu:0', size=(5, 6)" in repr(coo("npu")) and "crow_indices" in repr(coo("npu").to_sparse_csr())


@pytest.mark.fallback
def test_what_the_cpu_alone_has_is_counted() -> None:
    torch.npu.reset_fallback_counts()
    got = torch.sparse.softmax(coo("npu"), 1)
    assert sparse_samples.differ([got], [torch.sparse.softmax(coo("cpu"), 1)], 1e-6) is None
    assert set(torch.npu.fallback_counts()) == {"aten::_sparse_softmax"}


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_the_kernel_is_told_that_a_gradient_follows(reduce: str) -> None:
    grads = []
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        a = torch.randn(4, 5).relu().to_sparse_csr().to(device).requires_grad_()
        b = torch.randn(5, 3).to(device).requires_grad_()
        grads.append(torch.autograd.grad(torch.sparse.mm(a, b, reduce).square().sum(), [a, b]))
    assert sparse_samples.differ(list(grads[1]), list(grads[0]), 1e-6) is None


def test_what_nobody_has_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="takes no sparse tensors, on the npu nor on the CPU"):
        torch.cumsum(coo("npu"), 0)
    with pytest.raises(NotImplementedError, match="quantized tensors do not exist on the npu; quantize on"):
        torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8).npu()


def test_collectives_refuse_sparse_tensors(tmp_path: Path) -> None:
    torch.distributed.init_process_group("hccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with pytest.raises(NotImplementedError, match="c10d::allreduce_ takes no sparse tensors"):
            torch.distributed.all_reduce(coo("npu"))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "make",
    [
        lambda i, v: torch.sparse_coo_tensor(i, v, (2, 2)),
        lambda i, v: torch.sparse_coo_tensor(i, v, (2, 2)).coalesce() * 2,
        lambda i, v: torch.diag(v).to_sparse(),
        lambda i, v: torch.diag(v).to_sparse_csr().to_sparse(),
        lambda i, v: torch.zeros_like(torch.sparse_coo_tensor(i, v, (2, 2))),
        lambda i, v: torch.empty(2, 2, layout=torch.sparse_coo, device=v.device),
        lambda i, v: torch.sparse.mm(torch.sparse_coo_tensor(i, v, (2, 2)), torch.sparse_coo_tensor(i, v, (2, 2))),
        lambda i, v: torch.cat([torch.sparse_coo_tensor(i, v, (2, 2))] * 2) + torch.sparse_coo_tensor(i, v, (4, 2)),
        lambda i, v: torch.ones(2, 2, device=v.device).sparse_mask(torch.sparse_coo_tensor(i, v, (2, 2)).coalesce()),
    ],
    ids=["coo", "coalesce", "to_sparse", "csr", "zeros_like", "empty", "mm", "cat", "mask"],
)
def test_sparse_tensors_of_another_device_than_the_current_one(make: Callable) -> None:
    indices, values = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    made = make(indices.to("npu:1"), values.to("npu:1"))
    assert made.device == made._values().device == made._indices().device == torch.device("npu", 1)
    torch.testing.assert_close(made.to_dense().cpu(), make(indices, values).to_dense())
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float32, torch.int64])
def test_division_by_a_number(dtype: torch.dtype) -> None:
    x = torch.tensor([[0, 2, 0], [3, 0, 5]]).to(dtype)
    for by in (2, 4.0, torch.tensor(2, dtype=dtype)):
        got = x.to_sparse().npu() / (by.npu() if isinstance(by, torch.Tensor) else by)
        assert torch.equal(got.cpu().to_dense(), (x.to_sparse() / by).to_dense())
