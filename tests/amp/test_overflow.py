"""Looking for infinities and NaNs by hand."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from torch_npu.npu import amp
from torch_npu.npu.utils import npu_check_overflow

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "values, overflow", [([1.0, -2.0], False), ([1.0, INF], True), ([-INF], True), ([NAN, 0.0], True), ([], False)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_tensors(values: list[float], overflow: bool, dtype: torch.dtype) -> None:
    assert npu_check_overflow(torch.tensor(values, dtype=dtype, device="npu")) is overflow


def test_large_finite_values_are_no_overflow_though_their_sum_is() -> None:
    assert npu_check_overflow(torch.full((4,), 3e38, device="npu")) is False


@pytest.mark.parametrize("value, overflow", [(1.0, False), (INF, True), (NAN, True), ([1.0, INF], True), (0, False)])
def test_numbers_and_lists(value, overflow: bool) -> None:
    assert npu_check_overflow(value) is overflow


def test_a_product_that_overflows_half_is_found() -> None:
    x = torch.full((2, 2), 300.0, device="npu")
    with amp.autocast():
        product = x @ x  # 180,000 > 65,504
    assert npu_check_overflow(product)


@pytest.mark.parametrize("function", ["get_npu_overflow_flag", "clear_npu_overflow_flag"])
def test_the_flag_of_saturating_chips_is_refused_with_the_remedy(function: str) -> None:
    for owner in (torch_npu.npu, amp.GradScaler):
        with pytest.raises(RuntimeError, match="npu_check_overflow"):
            getattr(owner, function)()
