"""The switch: torch.autocast('npu'), torch_npu.npu.amp.autocast, custom_fwd and custom_bwd."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

import torch_npu
from torch_npu.npu import amp


def product_dtype() -> torch.dtype:
    x = torch.ones(2, 2, device="npu")
    return (x @ x).dtype


@pytest.mark.parametrize(
    "context, dtype",
    [
        (lambda: amp.autocast(), torch.float16),
        (lambda: amp.autocast(dtype=torch.bfloat16), torch.bfloat16),
        (lambda: amp.autocast(enabled=False), torch.float32),
        (lambda: amp.autocast(False), torch.float32),
        (lambda: torch.autocast("npu"), torch.float16),
        (lambda: torch.autocast(device_type="npu", dtype=torch.bfloat16), torch.bfloat16),
        (lambda: torch.amp.autocast("npu", enabled=False), torch.float32),
        (lambda: torch.autocast("cpu"), torch.float32),
    ],
)
def test_the_dtype_inside(context, dtype: torch.dtype) -> None:
    with context():
        assert product_dtype() is dtype
    assert product_dtype() is torch.float32


def test_an_inner_context_wins_and_the_outer_one_comes_back() -> None:
    with amp.autocast():
        assert product_dtype() is torch.float16
        with amp.autocast(enabled=False):
            assert product_dtype() is torch.float32
            with amp.autocast(dtype=torch.bfloat16):
                assert product_dtype() is torch.bfloat16
            assert product_dtype() is torch.float32
        assert product_dtype() is torch.float16


def test_an_exception_leaves_autocast_off() -> None:
    with pytest.raises(ZeroDivisionError), amp.autocast():
        1 / 0  # noqa: B018
    assert not torch.is_autocast_enabled("npu")


def test_as_a_decorator() -> None:
    @amp.autocast()
    def decorated() -> torch.dtype:
        return product_dtype()

    assert decorated() is torch.float16


def test_other_threads_are_not_affected() -> None:
    seen = []
    with amp.autocast():
        thread = threading.Thread(target=lambda: seen.append(product_dtype()))
        thread.start()
        thread.join()
    assert seen == [torch.float32]


def test_backward_runs_with_the_types_of_forward_outside_the_context() -> None:
    w = torch.ones(2, 2, device="npu", requires_grad=True)
    with amp.autocast():
        y = w @ w
    y.sum().backward()
    assert w.grad.dtype is torch.float32
    assert torch.equal(w.grad.cpu(), torch.full((2, 2), 4.0))


def casts_of(weight: torch.Tensor, **options: bool) -> int:
    """How often a parameter is cast in a region that uses it three times."""
    x = torch.ones(2, 2, device="npu", dtype=torch.float16)
    count = 0

    class Counter(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal count
            count += func is torch.ops.aten._to_copy.default
            return func(*args, **(kwargs or {}))

    with amp.autocast(**options), Counter():
        for _ in range(3):
            x @ weight
    return count


def test_the_cast_of_a_parameter_is_cached() -> None:
    assert casts_of(torch.ones(2, 2, device="npu", requires_grad=True)) == 1


def test_the_cache_can_be_turned_off() -> None:
    assert casts_of(torch.ones(2, 2, device="npu", requires_grad=True), cache_enabled=False) == 3


def test_the_cache_is_dropped_at_the_end_of_the_region() -> None:
    w = torch.ones(2, 2, device="npu", requires_grad=True)
    x = torch.ones(2, 2, device="npu")
    with amp.autocast():
        first = x @ w
    with torch.no_grad():
        w.mul_(3)
    with amp.autocast():
        second = x @ w
    assert torch.equal(first.cpu() * 3, second.cpu())


def test_an_unsupported_dtype_warns_and_disables() -> None:
    with pytest.warns(UserWarning, match="only supports dtypes of torch.float16, torch.bfloat16"):
        context = torch.autocast("npu", dtype=torch.float32)
    with context:
        assert product_dtype() is torch.float32


def test_supported_dtypes() -> None:
    assert torch_npu.npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_state_functions_of_torch_npu() -> None:
    assert not torch_npu.npu.is_autocast_enabled()
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert torch_npu.npu.is_autocast_enabled()
        assert torch_npu.npu.get_autocast_dtype() is torch.bfloat16
        torch_npu.npu.set_autocast_enabled(False)
        assert product_dtype() is torch.float32
    assert torch_npu.npu.get_autocast_dtype() is torch.float16


def make_function(cast_inputs):
    class Double(torch.autograd.Function):
        @staticmethod
        @amp.custom_fwd(cast_inputs=cast_inputs)
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            Double.forward_state = (x.dtype, torch.is_autocast_enabled("npu"))
            return x @ w

        @staticmethod
        @amp.custom_bwd
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            Double.backward_state = (torch.is_autocast_enabled("npu"), torch.get_autocast_dtype("npu"))
            return grad @ w.t(), x.t() @ grad

    return Double


def test_custom_fwd_with_cast_inputs_turns_autocast_off_inside() -> None:
    function = make_function(torch.float32)
    x = torch.ones(2, 2, device="npu", dtype=torch.float16, requires_grad=True)
    w = torch.ones(2, 2, device="npu", requires_grad=True)
    with amp.autocast():
        y = function.apply(x, w)
    assert function.forward_state == (torch.float32, False)
    assert y.dtype is torch.float32
    y.sum().backward()
    assert function.backward_state[0] is False
    assert torch.equal(w.grad.cpu(), torch.full((2, 2), 2.0))


def test_custom_bwd_runs_with_the_state_of_forward() -> None:
    function = make_function(None)
    x = torch.ones(2, 2, device="npu", requires_grad=True)
    with amp.autocast(dtype=torch.bfloat16):
        y = function.apply(x, x)
    assert function.forward_state == (torch.float32, True)
    assert y.dtype is torch.bfloat16
    y.sum().backward()
    assert function.backward_state == (True, torch.bfloat16)
    assert not torch.is_autocast_enabled("npu")


def test_custom_fwd_outside_autocast_changes_nothing() -> None:
    function = make_function(torch.float32)
    x = torch.ones(2, 2, device="npu", dtype=torch.float16)
    assert function.apply(x, x).dtype is torch.float16


def test_checkpoint_recomputes_under_the_same_autocast() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)).npu()
    x = torch.randn(3, 4, device="npu")
    gradients = []
    for run in (layer, lambda x: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)):
        layer.zero_grad()
        with amp.autocast():
            run(x).float().sum().backward()
        gradients.append([p.grad.clone() for p in layer.parameters()])
    for plain, recomputed in zip(*gradients, strict=True):
        assert torch.equal(plain, recomputed)


def test_nothing_is_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with amp.autocast():
            product_dtype()
        amp.GradScaler()


@pytest.mark.parametrize("dtype", [torch.int8, torch.float64, torch.complex64, torch.bool])
def test_a_type_that_autocast_cannot_compute_in_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match=f"target dtype {dtype} is not supported"):
        torch.npu.set_autocast_dtype(dtype)
    assert torch.npu.get_autocast_dtype() == torch.float16


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types_that_autocast_computes_in(dtype: torch.dtype) -> None:
    former = torch.npu.get_autocast_dtype()
    try:
        torch.npu.set_autocast_dtype(dtype)
        assert torch.npu.get_autocast_dtype() == dtype
    finally:
        torch.npu.set_autocast_dtype(former)
