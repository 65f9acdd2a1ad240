"""No operator of PyTorch's database leaves the refusal of a data type to the stream."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.upstream import refusals
from tests.upstream.cases import database
from tests.upstream.compare import Mismatch

FEW = (torch.float32, torch.float16, torch.complex64, torch.int32, torch.float8_e4m3fn)


def late(types: tuple[torch.dtype, ...], count: int) -> tuple[int, list[str]]:
    refused, found = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in database("op").values():
            times, wrong = refusals.late(op, types, count, "npu")
            refused += times
            found += wrong
    return refused, found


def judge(types: tuple[torch.dtype, ...], count: int, least: int) -> None:
    # In a thread: the database asks inspect.stack() at each sample (pool.py says what that costs); pytest's is deep.
    with ThreadPoolExecutor(1) as thread:
        refused, found = thread.submit(late, types, count).result()
    assert found == []
    assert refused >= least, refused


def test_types_are_refused_at_the_call() -> None:
    judge(FEW, 1, 700)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_types_of_more_samples_are_refused_at_the_call() -> None:
    judge(refusals.TYPES, 4, 17_000)


def test_what_fails_in_the_stream_is_found() -> None:
    def fails_late(x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu":
            raise NotImplementedError
        return torch.bernoulli(x)

    with pytest.raises(Mismatch, match="fails after the call"):
        refusals.judge(fails_late, (torch.full((3,), 2.0), (), {}), "npu")
