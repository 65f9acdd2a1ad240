"""What npu_grouped_matmul refuses whatever values its operands have: the device and "meta" say the same of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from torch_npu import npu_grouped_matmul

E4M3, E5M2, POWERS = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
PAIRS = torch.float4_e2m1fn_x2
ROWS = {"group_list": [2, 4, 8], "group_type": 0, "split_item": 3}
INNER = {"group_list": [4, 8], "group_type": 2, "split_item": 3}
FLOATS = {"output_dtype": torch.float32}


def t(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    if dtype.itemsize > 1:
        return torch.zeros(sizes, dtype=dtype)
    return torch.zeros(sizes, dtype=torch.uint8).view(dtype)


def i8(*sizes: int) -> torch.Tensor:
    return t(*sizes, dtype=torch.int8)


def f8(*sizes: int) -> torch.Tensor:
    return t(*sizes, dtype=E4M3)


def powers(*sizes: int) -> torch.Tensor:
    return t(*sizes, dtype=POWERS)


# What is wrong: x, weight, what else is given, and what the error says.
REFUSED: dict[str, tuple[list[torch.Tensor], list[torch.Tensor], dict[str, Any], str]] = {
    "x of int64": ([t(8, 4, dtype=torch.int64)], [t(3, 4, 6)], ROWS, "x must be torch.float32 or .*, got torch.int64"),
    "x of bool": ([t(8, 4, dtype=torch.bool)], [t(3, 4, 6)], ROWS, "x must be torch.float32 or .*, got torch.bool"),
    "wider weight": ([t(8, 4)], [t(3, 4, 6).double()], ROWS, "weight must be torch.float32, got torch.float64"),
    "half weight": ([t(8, 4)], [t(3, 4, 6).half()], ROWS, "weight must be torch.float32, got torch.float16"),
    "weight of integers": ([t(8, 4)], [i8(3, 4, 6)], ROWS, "weight must be torch.float32, got torch.int8"),
    "int32 weight": (
        [i8(8, 4)], [i8(3, 4, 6).int()], ROWS | FLOATS,
        "scale is needed with x of torch.int8 and weight of torch.i",
    ),
    "float8 weight": ([t(8, 4)], [f8(3, 4, 6)], ROWS, "weight must be torch.float32, got torch.float8_e4m3fn"),
    "weights of two types": (
        [t(8, 4)], [t(4, 6), t(4, 6), t(4, 6).half()], ROWS,
        "weight must be torch.float32, got torch.float16",
    ),
    "x of two types": (
        [t(8, 4), t(8, 4).half()], [t(4, 6)] * 2, {},
        "the tensors of x are torch.float32 and torch.float16",
    ),
    "inner size of a later weight": ([t(8, 4)], [t(4, 6), t(5, 6), t(4, 6)], ROWS, "of pair 1 are 4 and 5"),
    "width of a later weight": ([t(8, 4)], [t(4, 6), t(4, 6), t(4, 7)], ROWS, "weight has 6 and 7 columns"),
    "width of joined pairs": ([t(2, 4)] * 2, [t(4, 6), t(4, 5)], {"split_item": 2}, "weight has 6 and 5 columns"),
    "joined x of three dimensions": ([t(2, 2, 4)] * 2, [t(4, 6)] * 2, {"split_item": 2}, "x must have 2 dimensions"),
    "bias of int64": ([t(8, 4)], [t(3, 4, 6)], ROWS | {"bias": [t(3, 6).long()]}, "bias must be .*, got torch.int64"),
    "bias of inner groups": ([t(6, 8)], [t(8, 7)], INNER | {"bias": [t(7)]}, "bias with group_type 2 does not go with"),
    "bias of float8": (
        [f8(8, 4)], [f8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 6)], "bias": [t(3, 6)]}, "bias does not go with x",
    ),
    "scale of floats": (
        [t(8, 4)], [t(3, 4, 6)], ROWS | {"scale": [t(3, 6)]},
        "scale does not go with x of torch.float32",
    ),
    "rows' scale of floats": (
        [t(8, 4)], [t(3, 4, 6)], ROWS | {"per_token_scale": [t(8)]},
        "per_token_scale does not go with x of torch.float32",
    ),
    "no scale of integers": ([i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS, "scale is needed with x of torch.int8"),
    "no scale of float8": ([f8(8, 4)], [f8(3, 4, 6)], ROWS | FLOATS, "scale is needed with x of torch.float8_e4m3fn"),
    "scale of int32": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 6).int()]}, "scale must be .*, got torch.int32",
    ),
    "columns of scale": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 5)]}, "a number for each of 6 columns",
    ),
    "blocks of scale": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 3, 6)]}, "a number for each of 6 columns",
    ),
    "blocks of a float8 scale": (
        [f8(8, 4)], [f8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 2, 6)]}, "a number for each of 6 columns",
    ),
    "rows' scale of int64": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 6)], "per_token_scale": [t(8).long()]},
        "per_token_scale must be .*, got torch.int64",
    ),
    "count of rows' scale": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 6)], "per_token_scale": [t(7)]},
        "per_token_scale must have 8 elements, got 7",
    ),
    "rows' scale of pairs": (
        [i8(8, 4)] * 2, [i8(4, 6)] * 2, FLOATS | {"scale": [t(6)] * 2, "per_token_scale": [t(8), t(7)]},
        r"per_token_scale of \[7\] does not broadcast to \[8\]",
    ),
    "columns of antiquant_scale": (
        [t(8, 4)], [i8(3, 4, 6)], ROWS | {"antiquant_scale": [t(3, 5)]}, "antiquant_scale must have a number for",
    ),
    "antiquant_offset": (
        [t(8, 4)], [t(3, 4, 6)], ROWS | {"antiquant_offset": [t(3, 6)]},
        "antiquant_offset does not go with x of torch.float32",
    ),
    "offset": ([t(8, 4)], [t(3, 4, 6)], ROWS | {"offset": [t(3, 6)]}, "offset is not implemented"),
    "no type of a result": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | {"scale": [t(3, 6)]}, "output_dtype is needed for .* torch.int8",
    ),
    "no type of a float8 result": (
        [f8(8, 4)], [f8(3, 4, 6)], ROWS | {"scale": [t(3, 6)]}, "output_dtype is needed for .* torch.float8_e4m3fn",
    ),
    "result of int8": (
        [t(8, 4)], [t(3, 4, 6)], ROWS | {"output_dtype": torch.int8},
        "output_dtype torch.int8 is not impl",
    ),
    "result of int16": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | {"output_dtype": torch.int16}, "output_dtype torch.int16 is not implemented",
    ),
    "int8 result without scale": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | {"output_dtype": torch.int8}, "scale is needed with x of torch.int8",
    ),
    "int32 result with scale": (
        [i8(8, 4)], [i8(3, 4, 6)], ROWS | {"output_dtype": torch.int32, "scale": [t(3, 6)]}, "int32 sums have no scale",
    ),
    "integers in inner groups": (
        [i8(6, 8)], [i8(8, 7)], INNER | FLOATS | {"scale": [t(2, 7)]},
        "group_type 2 with x of torch.int8 and weight of",
    ),
    "scales of inner groups": (
        [f8(6, 8)], [f8(8, 7)], INNER | FLOATS | {"scale": [t(3, 7)]}, "scale must have 2 rows",
    ),
    "powers of one side": (
        [f8(8, 64)], [f8(3, 64, 6)], ROWS | FLOATS | {"scale": [powers(3, 6, 1, 2)]},
        "per_token_scale of float8_e8m0fnu is needed",
    ),
    "powers of floats": (
        [t(8, 64)], [t(3, 64, 6)], ROWS | {"scale": [powers(3, 6, 1, 2)], "per_token_scale": [powers(8, 1, 2)]},
        "x must be torch.float8_e5m2 or torch.float8_e4m3fn or .*, got torch.float32",
    ),
    "rows of powers": (
        [f8(8, 64)], [f8(3, 64, 6)],
        ROWS | FLOATS | {"scale": [powers(3, 6, 1, 2)], "per_token_scale": [powers(8, 2, 2)]},
        "per_token_scale must have 1 in dimension 1, got 2",
    ),
    "columns of powers": (
        [f8(8, 64)], [f8(3, 64, 6)],
        ROWS | FLOATS | {"scale": [powers(3, 7, 1, 2)], "per_token_scale": [powers(8, 1, 2)]},
        r"scale must have the sizes \[6, 1, 2\] or \[1, 6, 2\]",
    ),
    "pairs beside bytes": (
        [t(8, 32, dtype=PAIRS)], [f8(3, 32, 6)],
        ROWS | FLOATS | {"scale": [powers(3, 6, 1, 2)], "per_token_scale": [powers(8, 1, 2)]}, "are 64 and 32",
    ),
}  # fmt: skip


def said(call: Any, x: list[torch.Tensor], weight: list[torch.Tensor], given: dict[str, Any], device: str) -> str:
    to = lambda value: [m.to(device) for m in value] if isinstance(value, list) else value
    options = {name: to(value) for name, value in given.items() if name != "group_list"}
    with pytest.raises((RuntimeError, NotImplementedError, ValueError)) as error:
        call(to(x), to(weight), **options)
    assert not isinstance(error.value, torch.AcceleratorError), "not at the call"
    return f"{type(error.value).__name__}: {error.value}"


def with_list(ends: list[int] | None, device: str, dtype: torch.dtype = torch.int64) -> Any:
    """The overload whose group_list is a tensor."""

    def call(x: Any, weight: Any, **options: Any) -> Any:
        options = {k: v if k != "output_dtype" else NUMBERS[v] for k, v in options.items()}
        groups = None if ends is None else torch.tensor(ends, dtype=dtype).to(device)
        return npu_grouped_matmul(x, weight, group_list=groups, **options)

    return call


def with_numbers(ends: list[int] | None) -> Any:
    return lambda x, weight, **options: npu_grouped_matmul(x, weight, group_list=ends, **options)


# PyTorch's numbers of types, as the first overload takes them.
NUMBERS = {torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.float32: 6}


@pytest.mark.parametrize("case", REFUSED)
def test_meta_refuses_a_grouped_product_as_the_device_does(case: str) -> None:
    x, weight, given, words = REFUSED[case]
    ends = given.get("group_list")
    for on_device, on_meta in ((with_list(ends, "npu"), with_list(ends, "meta")), (with_numbers(ends),) * 2):
        ours, sketched = (said(c, x, weight, given, d) for c, d in ((on_device, "npu"), (on_meta, "meta")))
        assert ours == sketched
        assert re.search(f"npu_grouped_matmul: .*{words}", ours), ours


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.bool])
def test_a_group_list_of_no_integers(dtype: torch.dtype) -> None:
    given = {"group_type": 0, "split_item": 3}
    ours, sketched = (
        said(with_list([1, 1, 1], device, dtype), [t(8, 4)], [t(3, 4, 6)], given, device) for device in ("npu", "meta")
    )
    assert ours == sketched and "group_list must be torch.int32 or torch.int64, got" in ours


def test_numbers_of_a_list_are_checked_for_meta_too() -> None:
    for ends, words in (([4, 2, 8], "which decreases"), ([2, 4, 9], "but x has 8 rows")):
        given = {"group_type": 0, "split_item": 3}
        ours, sketched = (said(with_numbers(ends), [t(8, 4)], [t(3, 4, 6)], given, d) for d in ("npu", "meta"))
        assert ours == sketched and words in ours


TAKEN: dict[str, tuple[list[torch.Tensor], list[torch.Tensor], dict[str, Any]]] = {
    "a list of weights": ([t(8, 4)], [t(4, 6)] * 3, ROWS | {"bias": [t(6)] * 3}),
    "pairs of several widths": ([t(2, 4), t(3, 5)], [t(4, 6), t(5, 7)], {}),
    "x of three dimensions": ([t(2, 3, 4)], [t(4, 6)], {}),
    "one number for all columns": ([i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(1)]}),
    "one number a group": ([i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3)]}),
    "blocks of rows": ([i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 2, 6)]}),
    "64 bits that hold a float": ([i8(8, 4)], [i8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 6).long()]}),
    "sums": ([i8(8, 4)], [i8(3, 4, 6)], ROWS | {"output_dtype": torch.int32}),
    "an empty scale is none": ([t(8, 4)], [t(3, 4, 6)], ROWS | {"scale": [t(0)]}),
    "float8": ([f8(8, 4)], [f8(3, 4, 6)], ROWS | FLOATS | {"scale": [t(3, 6)], "per_token_scale": [t(3)]}),
    "float8 in inner groups": (
        [f8(6, 8)], [f8(8, 7)], INNER | FLOATS | {"scale": [t(2, 7)], "per_token_scale": [t(2, 6)]},
    ),
    "powers": (
        [f8(8, 64)], [f8(3, 64, 6)],
        ROWS | FLOATS | {"scale": [powers(3, 6, 1, 2)], "per_token_scale": [powers(8, 1, 2)]},
    ),
    "powers in inner groups": (
        [f8(6, 8)], [f8(8, 7)], INNER | FLOATS | {"scale": [powers(2, 7, 2)], "per_token_scale": [powers(2, 6, 2)]},
    ),
    "pairs": (
        [t(8, 32, dtype=PAIRS)], [t(3, 64, 3, dtype=PAIRS)],
        ROWS | FLOATS | {"scale": [powers(3, 6, 1, 2)], "per_token_scale": [powers(8, 1, 2)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_what_the_device_takes_has_the_results_that_meta_promises(case: str) -> None:
    x, weight, given = TAKEN[case]
    ends = given.get("group_list")
    results = []
    for device in ("npu", "meta"):
        to = lambda value, device=device: [m.to(device) for m in value] if isinstance(value, list) else value
        options = {name: to(value) for name, value in given.items() if name != "group_list"}
        results.append(with_list(ends, device)(to(x), to(weight), **options))
    torch.npu.synchronize()
    ours, sketched = ([(r.shape, r.dtype, r.stride()) for r in found] for found in results)
    assert ours == sketched
