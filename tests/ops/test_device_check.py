"""Tensors of several devices in one call: refused with PyTorch's error, whichever argument is where and whoever
computes; numbers from the CPU are taken where PyTorch takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo

IMAGE, KERNEL, VECTOR = torch.ones(1, 2, 4, 4), torch.ones(2, 2, 3, 3), torch.ones(2)
SQUARE, PLACES = torch.eye(3), torch.tensor([0, 1, 2])

CALLS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "conv2d": (F.conv2d, (IMAGE, KERNEL, VECTOR)),
    "conv_transpose2d": (F.conv_transpose2d, (IMAGE, KERNEL, VECTOR)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (IMAGE, VECTOR, VECTOR)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (IMAGE, torch.ones(4), torch.ones(4))),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (IMAGE, VECTOR, VECTOR)),
    "mm": (torch.mm, (SQUARE, SQUARE)),
    "addmm": (torch.addmm, (SQUARE, SQUARE, SQUARE)),
    "gather": (lambda x, i: torch.gather(x, 0, i), (VECTOR.repeat(2), PLACES)),
    "index_select": (lambda x, i: torch.index_select(x, 0, i), (SQUARE, PLACES)),
    "index_add": (lambda x, i, y: torch.index_add(x, 0, i, y), (SQUARE, PLACES, SQUARE)),
    "index_copy": (lambda x, i, y: torch.index_copy(x, 0, i, y), (SQUARE, PLACES, SQUARE)),
    "scatter": (lambda x, i, y: torch.scatter(x, 0, i, y), (SQUARE[0], PLACES, SQUARE[1])),
    "embedding": (lambda i, w: F.embedding(i, w), (PLACES, SQUARE)),
    "nll_loss": (F.nll_loss, (SQUARE, PLACES)),
    "bce": (F.binary_cross_entropy, (SQUARE, SQUARE)),
    "add": (torch.add, (SQUARE, SQUARE)),
    "cat": (lambda x, y: torch.cat([x, y]), (SQUARE, SQUARE)),
    "isin": (torch.isin, (SQUARE, VECTOR)),
    "masked_select": (torch.masked_select, (SQUARE, SQUARE.bool())),
    "bincount": (torch.bincount, (PLACES, torch.ones(3))),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, torch.zeros(1, 2, 2, 2))),
    "lstm_cell": (
        torch._VF.lstm_cell and (lambda x, h, w: torch._VF.rnn_tanh_cell(x, h, w, w)),
        (torch.ones(2, 3), torch.ones(2, 3), SQUARE),
    ),
    # On the CPU, whose kernels do not look at every argument.
    "linalg.solve": (torch.linalg.solve, (SQUARE, SQUARE)),
    "cholesky_solve": (torch.cholesky_solve, (SQUARE, SQUARE)),
    "lu_solve": (lambda b, lu, p: torch.linalg.lu_solve(lu, p, b), (SQUARE, SQUARE, PLACES.int() + 1)),
    "ormqr": (torch.ormqr, (SQUARE, torch.ones(3), SQUARE)),
    "histogram": (lambda x, b: torch.histogram(x, b), (torch.rand(5), torch.tensor([0.0, 0.5, 1.0]))),
    "a fallback": (lambda x, mask: torch._masked_softmax(x, mask, 1, 2), (SQUARE, SQUARE > 0)),
    "igamma": (torch.igamma, (SQUARE + 1, SQUARE + 1)),
}


@pytest.mark.fallback
@pytest.mark.parametrize("name", CALLS)
def test_tensors_of_two_devices_are_refused(name: str) -> None:
    call, arguments = CALLS[name]
    call(*(x.npu() for x in arguments))
    for places in product(("npu:0", "cpu", "npu:1"), repeat=len(arguments)):
        if len(set(places)) == 2 and "npu:0" in places:
            with pytest.raises(RuntimeError, match=re.compile("device", re.I)):
                call(*(x.to(place) for x, place in zip(arguments, places, strict=True)))
            torch.npu.synchronize()


@pytest.mark.fallback
def test_numbers_from_the_cpu_are_taken() -> None:
    x, two = torch.ones(3, device="npu") * 0.5, torch.tensor(2.0)
    assert (x + two).tolist() == [2.5] * 3
    assert torch.special.zeta(x + 2, two).shape == (3,)
    assert torch.where(x > 0, two, torch.tensor(3.0)).tolist() == [2.0] * 3
    assert torch.where(x > 0, 1.0, torch.tensor(3.0)).tolist() == [1.0] * 3
    assert torch.where(torch.tensor(True), x, two).tolist() == [0.5] * 3


# PyTorch's table checks these before their iterator would take the number (device_check: ExactSame): CUDA refuses them.
ONE_DEVICE = {"clamp_max", "clamp_min", "complex", "gcd", "igamma", "igammac", "lcm", "logaddexp", "logaddexp2"}
ONE_DEVICE |= {"nextafter", "polar"}
BINARY = {op.name: op for op in op_db if isinstance(op, BinaryUfuncInfo) and "jiterator" not in op.name}


def forms(op: BinaryUfuncInfo, x: torch.Tensor, two: torch.Tensor) -> Iterator[Callable[..., torch.Tensor]]:
    yield op.op
    yield lambda x, y: op.op(y, x)
    if op.supports_out and not op.name.startswith("clamp"):  # of which the table has another rule
        yield lambda x, y: op.op(x, y, out=op.op(x, x))
    if op.inplace_variant and op.op(x, two).dtype == x.dtype:
        yield lambda x, y: op.inplace_variant(x.clone(), y)


@pytest.mark.fallback
@pytest.mark.parametrize("name", BINARY)
def test_every_function_of_two_tensors_takes_a_number_from_the_cpu_where_cuda_does(name: str) -> None:
    op = BINARY[name]
    dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
    x, two = torch.tensor([1, 2, 3], dtype=dtype), torch.tensor(2, dtype=dtype)
    for call in forms(op, x, two):
        if name in ONE_DEVICE:
            with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                call(x.npu(), two)
        else:
            got = call(x.npu(), two)
            assert got.is_npu
            torch.testing.assert_close(got.cpu(), call(x, two), equal_nan=True)


def test_a_number_from_the_cpu_is_no_place() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.index_select(torch.eye(3).npu(), 0, torch.tensor(1))


INDEX = r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\), one is on npu:0"
OTHER = "on the same device, but found at least two devices, npu and cpu"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.arange(3.0)[torch.tensor([0], device="npu")], INDEX),
        (lambda: torch.arange(3.0)[torch.tensor([True, False, True], device="npu")], INDEX),
        (lambda: torch.arange(3.0).__setitem__(torch.tensor([0], device="npu"), 1.0), INDEX),
        (lambda: torch.rand(3, generator=torch.Generator("npu")), OTHER),
    ],
)
def test_npu_arguments_of_what_is_on_the_cpu(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_the_devices_of_an_error_are_readable():
    with pytest.raises(RuntimeError, match=r"found at least two devices, npu:\d and (cpu|npu:\d)!"):
        torch.cat([torch.ones(2), torch.ones(2, device="npu")])
