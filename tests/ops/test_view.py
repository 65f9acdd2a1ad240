"""Views, resize and set_: metadata only, and writes seen through views."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.ops.compare import check

VIEWS = {
    "view": lambda x: x.view(2, 12),
    "reshape": lambda x: x.reshape(-1),
    "t": lambda x: x[0].t(),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[1:, ::2],
    "select": lambda x: x.select(1, 2),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "as_strided": lambda x: x.as_strided((3, 2), (2, 1), 1),
    "diagonal": lambda x: x[0].diagonal(),
    "chunk": lambda x: x.chunk(2, 2)[1],
    "split": lambda x: x.split([1, 3], 2)[1],
    "unbind": lambda x: x.unbind(0)[1],
    "flatten": lambda x: x.flatten(1),
    "movedim": lambda x: x.movedim(0, 2),
    "swapaxes": lambda x: x.swapaxes(0, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    expected, actual = VIEWS[name](x), VIEWS[name](x.npu())
    assert actual.stride() == expected.stride() and actual.storage_offset() == expected.storage_offset()
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("name", [n for n in VIEWS if n not in ("expand", "unfold", "reshape")])
def test_a_write_through_a_view_is_seen(name: str) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        VIEWS[name](x).mul_(2)
        return x

    check(write, torch.arange(24.0).reshape(2, 3, 4))


def test_complex_views() -> None:
    check(lambda x: torch.view_as_real(x) * 2, torch.randn(3, dtype=torch.complex64))
    check(lambda x: torch.view_as_complex(x).real, torch.randn(3, 2))


def test_dtype_view() -> None:
    check(lambda x: x.view(torch.int32), torch.randn(4))


def test_resize_and_set() -> None:
    x = torch.arange(6.0).npu()
    x.resize_(2, 2)
    assert torch.equal(x.cpu(), torch.arange(4.0).reshape(2, 2))
    x.resize_(4, 4)
    assert x.shape == (4, 4) and torch.equal(x.flatten()[:6].cpu(), torch.arange(6.0))
    y = torch.empty(0, device="npu").set_(x)
    assert y.data_ptr() == x.data_ptr() and y.shape == x.shape
    z = torch.empty(0, device="npu").set_(x.untyped_storage(), 1, (2,), (2,))
    assert torch.equal(z.cpu(), torch.tensor([1.0, 3.0]))
    assert y.is_set_to(x) and not z.is_set_to(x)


def test_storage_resize() -> None:
    x = torch.arange(4.0).npu()
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == 0
    x.untyped_storage().resize_(16)
    x.fill_(1)
    assert torch.equal(x.cpu(), torch.ones(4))


def test_data_of_a_parameter_may_move_to_npu() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    same = id(parameter)
    parameter.data = parameter.data.npu()
    assert id(parameter) == same and parameter.device.type == "npu"
    parameter.data = parameter.data.cpu()
    assert parameter.device.type == "cpu"


def test_gradients_of_gradients_behind_an_in_place_operator_on_a_view() -> None:
    """PyTorch says so where the first backward is another thread's; and the way around (docs/errors.md)."""

    def gradients(device: str, *, apart: bool = False, threads: bool = True) -> list[float]:
        x = torch.arange(1.0, 5.0, device=device).requires_grad_()
        y, first = x * 1, []
        y[1:3].relu_()
        total = y.square().sum()

        def backward() -> None:
            first.append(torch.autograd.grad(total, x, create_graph=True)[0])

        with torch.autograd.set_multithreading_enabled(threads):
            if apart:
                thread = threading.Thread(target=backward)
                thread.start()
                thread.join()
            else:
                backward()
        return torch.autograd.grad(first[0].sum(), x)[0].tolist()

    for call in (lambda: gradients("cpu", apart=True), lambda: gradients("npu")):
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            call()
    assert gradients("npu", threads=False) == gradients("cpu") == [2.0] * 4
