"""Factories: values and dtypes as on the CPU."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import assert_same

CASES = {
    "arange": lambda d: torch.arange(10, device=d),
    "arange_float": lambda d: torch.arange(0.5, 3, 0.25, device=d),
    "arange_down": lambda d: torch.arange(5, -5, -2, device=d),
    "arange_int32": lambda d: torch.arange(5, dtype=torch.int32, device=d),
    "arange_empty": lambda d: torch.arange(0, device=d),
    "range": lambda d: torch.range(1, 4, device=d),
    "linspace": lambda d: torch.linspace(-1, 1, 7, device=d),
    "logspace": lambda d: torch.logspace(0, 2, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "eye_m": lambda d: torch.eye(2, 4, dtype=torch.int64, device=d),
    "full": lambda d: torch.full((2, 3), 7.5, device=d),
    "full_bool": lambda d: torch.full((2,), True, device=d),
    "zeros": lambda d: torch.zeros(2, 3, dtype=torch.int64, device=d),
    "ones": lambda d: torch.ones(2, dtype=torch.float16, device=d),
    "tensor": lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
    "scalar": lambda d: torch.tensor(2.5, device=d),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(3, 2, device=d).t()),
    "full_like": lambda d: torch.full_like(torch.ones(3, device=d), 4),
    "kaiser_window": lambda d: torch.kaiser_window(9, device=d),
    "kaiser_window_periodic": lambda d: torch.kaiser_window(9, False, device=d),
    "kaiser_window_beta": lambda d: torch.kaiser_window(8, False, 7.5, dtype=torch.float64, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 4, 1, device=d),
    "triu_indices": lambda d: torch.triu_indices(4, 3, -1, device=d),
    "tril": lambda d: torch.tril(torch.ones(4, 4, device=d), -1),
    "triu": lambda d: torch.triu(torch.ones(2, 4, 4, device=d), 1),
    "new_zeros": lambda d: torch.ones(2, device=d).new_zeros(3),
    "hann_window": lambda d: torch.hann_window(8, device=d),
    "meshgrid": lambda d: torch.meshgrid(torch.arange(3, device=d), torch.arange(2, device=d), indexing="ij"),
    "one_hot": lambda d: torch.nn.functional.one_hot(torch.tensor([0, 2, 1], device=d), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_factory(name: str) -> None:
    assert_same(CASES[name]("npu"), CASES[name]("cpu"))


def test_randperm_is_a_permutation_and_repeats_with_its_seed() -> None:
    torch.manual_seed(3)
    a = torch.randperm(1000, device="npu")
    torch.manual_seed(3)
    b = torch.randperm(1000, device="npu")
    assert torch.equal(a.cpu(), b.cpu()) and not torch.equal(a.cpu(), torch.arange(1000))
    assert torch.equal(a.sort().values.cpu(), torch.arange(1000))


def test_empty_strided_and_memory_format() -> None:
    assert torch.empty_strided((2, 3), (1, 2), device="npu").stride() == (1, 2)
    x = torch.empty(2, 3, 4, 5, device="npu", memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(RuntimeError, match="99"):
        torch.empty(2, device="npu:99")


def test_default_dtype_is_honoured() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.empty(1, device="npu").dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
