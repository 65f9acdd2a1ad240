"""Indexing: reads, writes, masks, gathers and scatters, results of unknown size."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import check, check_grad

X = torch.arange(60.0).reshape(3, 4, 5)
ROWS, COLS = torch.tensor([2, 0, 1]), torch.tensor([3, -1, 0])
READS = {
    "one": lambda x: x[ROWS.to(x.device)],
    "two": lambda x: x[ROWS.to(x.device), COLS.to(x.device)],
    "gap": lambda x: x[ROWS.to(x.device), :, COLS.to(x.device)],
    "second": lambda x: x[:, COLS.to(x.device)],
    "broadcast": lambda x: x[ROWS.to(x.device)[:, None], COLS.to(x.device)],
    "mask": lambda x: x[x > 30],
    "partial_mask": lambda x: x[:, x[0, :, 0] > 5],
    "mixed": lambda x: x[1:, COLS.to(x.device), 2],
    "list": lambda x: x[[0, 2]],
    "ellipsis": lambda x: x[..., COLS.to(x.device)],
    "none": lambda x: x[None, ROWS.to(x.device)],
    "empty": lambda x: x[torch.tensor([], dtype=torch.long)],
    "cpu_index": lambda x: x[ROWS],
    "transposed": lambda x: x.transpose(0, 2)[COLS.to(x.device)],
}


@pytest.mark.parametrize("name", READS)
def test_read(name: str) -> None:
    check(READS[name], X.clone())


@pytest.mark.parametrize("name", ["one", "two", "gap", "mask", "second", "mixed"])
def test_gradient_of_a_read(name: str) -> None:
    check_grad(READS[name], X.clone().requires_grad_())


def test_write() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x[ROWS.to(x.device), COLS.to(x.device)] = 7.0
        x[:, 1] = torch.arange(5.0, device=x.device)
        x[x > 50] = -1
        x[x < 3] = torch.zeros_like(x[x < 3])
        x[0, COLS.to(x.device)] += 2
        x[2] = x[1]
        return x

    check(write, X.clone())
    check(
        lambda x, v: x.index_put_((torch.tensor([0, 0, 1], device=x.device),), v, accumulate=True),
        X.clone(),
        torch.ones(3, 4, 5),
    )


def test_out_of_range_is_an_error() -> None:
    with pytest.raises((RuntimeError, IndexError)):
        X.npu()[torch.tensor([5]).npu()]
        torch.npu.synchronize()


def test_gather_scatter() -> None:
    index = torch.tensor([[0, 1, 2, 0, 1]])[:, None].expand(1, 4, 5)
    check(torch.gather, X, 0, index)
    check(torch.scatter, X, 0, index, torch.zeros(1, 4, 5))
    check(torch.scatter, X, 0, index, 5.0)
    check(torch.scatter_add, X, 0, index, torch.ones(1, 4, 5))
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        check(torch.scatter_reduce, X, 0, index, torch.full((1, 4, 5), 2.0), reduce)
        check(torch.scatter_reduce, X, 0, index, torch.full((1, 4, 5), 2.0), reduce, include_self=False)
    check(torch.index_select, X, 1, ROWS)
    check(torch.index_add, X, 0, ROWS, torch.ones(3, 4, 5), alpha=2)
    check(torch.index_copy, X, 0, ROWS, torch.ones(3, 4, 5))
    check(torch.index_fill, X, 1, ROWS, 3.0)
    check(torch.take, X, torch.tensor([[1, 59], [3, 4]]))
    check(torch.Tensor.put_, X.clone(), torch.tensor([1, 59]), torch.tensor([7.0, 8.0]))
    check(torch.take_along_dim, X, X.argsort(1), 1)
    check_grad(lambda x: torch.gather(x, 0, index.to(x.device)), X.clone().requires_grad_())


def test_masks() -> None:
    mask = X > 30
    check(torch.masked_fill, X, mask, -1.0)
    check(torch.masked_select, X, mask)
    check(torch.masked_select, X, mask[0])
    check(torch.masked_scatter, X, mask, torch.arange(60.0))
    check(torch.nonzero, mask)
    check(torch.nonzero, mask, as_tuple=True)
    check(torch.nonzero, torch.zeros(3, 2))
    check(torch.where, mask)
    check(torch.argwhere, mask)


def test_unique() -> None:
    x = torch.tensor([3, 1, 2, 3, 1, 1])
    check(torch.unique, x)
    check(torch.unique, x, return_inverse=True, return_counts=True)
    check(torch.unique_consecutive, x, return_inverse=True, return_counts=True)
    check(torch.unique, torch.tensor([[1, 2], [1, 2], [3, 4]]), dim=0, return_inverse=True, return_counts=True)
    check(torch.isin, x, torch.tensor([1, 9]))
    check(torch.isin, x, 3)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("number", [3, 4, 2.5])
def test_one_number_is_in_a_tensor_or_not(number: float, invert: bool) -> None:
    x = torch.tensor([[3, 1], [2, 3]])
    assert check(torch.isin, number, x, invert=invert).item() == ((number == 3) != invert)
    out = torch.empty((), dtype=torch.bool)
    check(lambda test, out: torch.isin(number, test, invert=invert, out=out), x, out)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize(
    "dtypes", [(torch.int64, torch.int64), (torch.float32, torch.int64), (torch.int32, torch.half)]
)
def test_many_in_many_takes_little_memory(dtypes: tuple[torch.dtype, torch.dtype], invert: bool) -> None:
    """Not an element of memory for each pair: 20,000 by 10,000 would be 190 MiB."""
    elements = torch.randint(0, 1000, (200, 100)).to(dtypes[0])
    test = (torch.randint(0, 600, (10_000,)) * 3).to(dtypes[1])
    if dtypes[0].is_floating_point:
        elements[0, :50] = float("nan")
    a, b = elements.npu(), test.npu()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    found = torch.isin(a, b, invert=invert)
    assert torch.npu.max_memory_allocated() - before < 16 << 20
    assert torch.equal(found.cpu(), torch.isin(elements, test, invert=invert))
    assert 0 < found.sum().item() < found.numel()


def test_joining_and_repeating() -> None:
    check(torch.cat, [X, X[:1]], 0)
    check(torch.cat, [X, X.half()], 2)
    check(torch.cat, [torch.empty(0), X[0]], 1)
    check(torch.stack, [X, X], 1)
    check(torch.flip, X, (0, 2))
    check(torch.roll, X, 2)
    check(torch.roll, X, (1, -1), (0, 2))
    check(torch.repeat_interleave, ROWS, torch.tensor([1, 0, 2]))
    check(torch.repeat_interleave, X, 2, dim=1)
    check(torch.Tensor.repeat, X, 2, 1, 1)
    check(torch.tile, X[0], (2, 2))
    check(torch.diag, X[0, :, 0])
    check(torch.block_diag, X[0], X[1])
    check_grad(
        lambda a, b: torch.cat([a, b]), torch.randn(2, 3, requires_grad=True), torch.randn(1, 3, requires_grad=True)
    )


def test_an_index_on_another_npu_is_refused() -> None:
    a, there = torch.arange(4.0, device="npu:0"), torch.tensor([1], device="npu:1")
    text = r"indices should be either on cpu or on the same device as the indexed tensor \(npu:0\), one is on npu:1"
    mask = torch.tensor([True, False, False, True], device="npu:1")
    for index in (there, mask, (None, there)):
        of = a.reshape(2, 2) if isinstance(index, tuple) else a
        with pytest.raises(RuntimeError, match=text):
            of[index]
        with pytest.raises(RuntimeError, match=text):
            of[index] = 1.0
    for accumulate in (False, True):
        with pytest.raises(RuntimeError, match=text):
            a.index_put_((there,), torch.ones(1, device="npu:0"), accumulate)
    here, text = torch.arange(4.0), r"as the indexed tensor \(cpu\), one is on npu:1; move it with .cpu\(\)"
    for call in (lambda: here[there], lambda: here.__setitem__(there, 1.0), lambda: here.index_put_((there,), a[:1])):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(RuntimeError, match="the indexed tensor on cpu and out on npu:0; move one of them"):
        torch.ops.aten.index.Tensor_out(here, [there.cpu()], out=torch.empty(1, device="npu:0"))
    assert a[there.cpu()].tolist() == [1] and a[mask.cpu()].tolist() == [0, 3] and a.tolist() == [0, 1, 2, 3]


SET = {
    "whole": lambda x, m, r, c, n: x.__setitem__(m, -1.0),
    "rows": lambda x, m, r, c, n: x.__setitem__(r, -1.0),
    "columns": lambda x, m, r, c, n: x.__setitem__((slice(None), c), -1),
    "transposed": lambda x, m, r, c, n: x.mT.__setitem__(m.mT, float("inf")),
    "a view": lambda x, m, r, c, n: x[1:].__setitem__(m[1:], True),
    "a tensor": lambda x, m, r, c, n: x.__setitem__(m, n),
    "index_put_": lambda x, m, r, c, n: x.index_put_((m,), n),
}


@pytest.mark.parametrize("name", SET)
def test_a_number_at_a_mask_waits_for_nothing(name):
    """`x[mask] = 1` waited for the mask's coordinates, and could not be captured in a graph."""
    x, m = torch.arange(12.0).view(3, 4), torch.arange(12).view(3, 4) % 3 == 0
    arguments = m, torch.tensor([True, False, True]), torch.tensor([False, True, True, False]), torch.tensor(2.5)
    expected = x.clone()
    SET[name](expected, *arguments)
    found, given = x.npu(), [t.npu() for t in arguments]
    torch.npu.synchronize()
    torch.npu.set_sync_debug_mode("error")
    try:
        SET[name](found, *given)
    finally:
        torch.npu.set_sync_debug_mode("default")
    assert torch.equal(found.cpu(), expected)
    again = x.npu()
    with torch.npu.graph(graph := torch.npu.NPUGraph()):
        SET[name](again, *given)
    graph.replay()
    assert torch.equal(again.cpu(), expected)


def test_masks_of_the_cpu_and_of_the_tensor_itself():
    x, m = torch.arange(6.0), torch.arange(6) % 2 == 0
    found, expected = x.npu(), x.clone()
    found[m] = 7
    expected[m] = 7
    assert torch.equal(found.cpu(), expected)
    for number in (8, torch.tensor(9.0), torch.tensor(10.0).npu()):  # uint8, PyTorch's old form of a mask
        found[m.byte().npu()] = number
        expected[m] = float(number)
        assert torch.equal(found.cpu(), expected)
    i, j = torch.arange(4), torch.arange(4).npu()
    for t in (i, j):
        with pytest.raises(RuntimeError, match="written-to tensor refer to a single memory location"):
            t.index_put_((t,), torch.zeros(4, dtype=torch.long, device=t.device))
