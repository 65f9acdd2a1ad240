"""The lists of csrc/ops/autocast.cpp: for every operator PyTorch's own CUDA tests name, the type of the result under
autocast, and its value against the same computation on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists

MODULES = {"torch": torch, "nn": torch._C._nn, "linalg": torch._C._linalg, "methods": torch.Tensor}
AMP_DTYPES = [torch.float16, torch.bfloat16]
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 2e-5}
# CUDA's own operators; and an operator that the upstream list calls with an argument no device takes.
ABSENT = {"cudnn_convolution", "cudnn_convolution_transpose", "einsum"}


def cases(*lists: str) -> list[Any]:
    found = AutocastTestLists("cpu")
    return [
        pytest.param(name, index, id=f"{entry[0]}-{index}")
        for name in lists
        for index, entry in enumerate(getattr(found, name))
        if entry[0] not in ABSENT
    ]


def entry_of(list_name: str, index: int) -> tuple[Any, tuple, Any]:
    """The operator, CPU arguments from a fixed seed, and what the list says about it."""
    torch.manual_seed(0)
    name, args, *rest = getattr(AutocastTestLists("cpu"), list_name)[index]
    return getattr(MODULES[list_name.split("_")[0]], name), args, rest[0] if rest else {}


def mapped(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(one, function) for one in value)
    return value


def rounded(value: Any, dtype: torch.dtype) -> Any:
    """Arguments as the device sees them after the cast, held in float32 for the reference."""
    return mapped(value, lambda t: t.to(dtype).float() if t.is_floating_point() else t)


def tensors(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [t for one in value for t in tensors(one)]


def check(operator: Any, args: tuple, kwargs: dict, amp: torch.dtype, runs_in: torch.dtype) -> None:
    with torch.autocast("npu", dtype=amp):
        results = tensors(operator(*mapped(args, lambda t: t.npu()), **kwargs))
    wanted = tensors(operator(*rounded(args, runs_in), **kwargs))
    assert [t.dtype for t in results] == [runs_in] * len(wanted)
    for result, reference in zip(results, wanted, strict=True):
        torch.testing.assert_close(
            result.cpu().float(), reference.float(), rtol=TOLERANCE[runs_in], atol=TOLERANCE[runs_in], equal_nan=True
        )


@pytest.mark.parametrize("amp", AMP_DTYPES, ids=str)
@pytest.mark.parametrize("name, index", cases("torch_fp16", "nn_fp16", "linalg_fp16", "methods_fp16"))
def test_lower_precision_list(name: str, index: int, amp: torch.dtype) -> None:
    operator, args, kwargs = entry_of(name, index)
    check(operator, args, kwargs, amp, runs_in=amp)


@pytest.mark.parametrize("name, index", cases("torch_fp32", "nn_fp32", "methods_fp32"))
def test_fp32_list(name: str, index: int) -> None:
    operator, args, kwargs = entry_of(name, index)
    check(operator, args, kwargs, torch.float16, runs_in=torch.float32)


@pytest.mark.parametrize("name, index", cases("torch_need_autocast_promote"))
def test_promote_list_runs_in_the_widest_type(name: str, index: int) -> None:
    operator, args, kwargs = entry_of(name, index)
    check(operator, args, kwargs, torch.float16, runs_in=torch.float32)


@pytest.mark.parametrize("name, index", cases("torch_expect_builtin_promote"))
def test_operators_on_no_list_promote_by_themselves(name: str, index: int) -> None:
    operator, args, dtype = entry_of(name, index)
    if operator is torch.equal:  # refuses two types, on the CPU too
        pytest.skip("torch.equal of two types is refused by PyTorch on every device")
    with torch.autocast("npu"):
        result = operator(*mapped(args, lambda t: t.npu()))
    assert result.dtype == dtype
    torch.testing.assert_close(result.cpu(), operator(*args))


@pytest.mark.parametrize("amp", AMP_DTYPES, ids=str)
def test_softmax_and_sum_keep_a_dtype_that_is_asked_for(amp: torch.dtype) -> None:
    x = torch.randn(4, 5).to(amp).npu()
    with torch.autocast("npu", dtype=amp):
        assert x.softmax(1).dtype is torch.float32
        assert x.softmax(1, dtype=amp).dtype is amp
        assert x.sum(dtype=amp).dtype is amp


@pytest.mark.parametrize("amp", AMP_DTYPES, ids=str)
@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers(cell: type, amp: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, x = cell(5, 7, num_layers=2), torch.randn(3, 2, 5)
    wanted, _ = layer(x)
    with torch.autocast("npu", dtype=amp):
        result, _ = layer.npu()(x.npu())
    assert result.dtype is amp
    torch.testing.assert_close(result.cpu().float(), wanted, rtol=TOLERANCE[amp], atol=TOLERANCE[amp])


def test_scaled_dot_product_attention_runs_in_half() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 6, 8).unbind()
    with torch.autocast("npu"):
        result = torch.nn.functional.scaled_dot_product_attention(q.npu(), k.npu(), v.npu())
    assert result.dtype is torch.float16
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(result.cpu().float(), wanted, rtol=1e-2, atol=1e-2)


def test_binary_cross_entropy_is_refused_with_the_remedy() -> None:
    p, t = torch.rand(4).npu(), torch.rand(4).npu()
    with torch.autocast("npu"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        torch.nn.functional.binary_cross_entropy(p, t)
    wanted = torch.nn.functional.binary_cross_entropy(p.cpu(), t.cpu())
    torch.testing.assert_close(torch.nn.functional.binary_cross_entropy(p, t).cpu(), wanted)


def test_float64_and_integers_are_left_alone() -> None:
    with torch.autocast("npu"):
        assert (torch.ones(2, 2, dtype=torch.float64).npu() @ torch.ones(2, 2, dtype=torch.float64).npu()).dtype is (
            torch.float64
        )
        assert torch.ones(3, dtype=torch.int64).npu().sum().dtype is torch.int64


def test_tensors_of_the_cpu_are_left_alone() -> None:
    with torch.autocast("npu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


def test_gradients_reach_float32_parameters_through_the_cast() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(8, 6), torch.randn(6, 3)
    npu_w = w.npu().requires_grad_()
    with torch.autocast("npu"):
        loss = (x.npu() @ npu_w).float().pow(2).mean()
    loss.backward()
    cpu_w = w.clone().requires_grad_()
    (x @ cpu_w).pow(2).mean().backward()
    assert npu_w.grad.dtype is torch.float32
    torch.testing.assert_close(npu_w.grad.cpu(), cpu_w.grad, rtol=1e-2, atol=1e-2)
