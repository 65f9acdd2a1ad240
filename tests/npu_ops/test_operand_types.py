"""Types that an operator of torch.ops.npu does not take are refused for "meta", too: calls of samples.yaml with one
operand of another type, on both. The device asks CANN, "meta" the rows of ops/types.yaml.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.npu_ops import samples
from tools.codegen import tables

# An operand of each is given the other types, one after the other.
TYPES = {
    torch.float32: (torch.int64, torch.float64, torch.float16),
    torch.float16: (torch.float32, torch.int64),
    torch.bfloat16: (torch.float32, torch.int64),
    torch.float64: (torch.float32, torch.int64),
    torch.int64: (torch.float32, torch.int32),
    torch.int32: (torch.float32, torch.int64),
    torch.int8: (torch.float32, torch.int64),
    torch.uint8: (torch.float32, torch.int64),
    torch.bool: (torch.float32,),
}

# What the device alone refuses, and why the rows do not say it.
DEVICE_ONLY = {
    (
        "npu_weight_quant_batchmatmul",
        "antiquant_scale",
        torch.int64,
    ): "such scales go with float16 x alone",
}


def calls_of_one_function() -> list[str]:
    """Operators whose row is a call of one function of CANN."""
    rows = {row["func"].partition("(")[0]: row for row in tables.load(samples.TABLE.parents[2] / "ops" / "npu.yaml")}
    return [name for name in samples.load() if "aclnn" in rows[name]]


def outcome(overload: Any, given: dict[str, Any], device: str) -> str | None:
    """The error of a call, or None."""
    try:
        overload(**samples.each(given, lambda t: t.to(device)))
        if device == "npu":
            torch.npu.synchronize()
    except torch.AcceleratorError:
        return None  # decided by values, on the stream
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def changed(name: str, key: str, dtype: torch.dtype) -> dict[str, Any]:
    """The first sample with another type of one operand, of a list its first tensor."""
    given = samples.operands(name, 0, samples.operator(name)._schema)
    value = given[key]
    given[key] = [value[0].to(dtype), *value[1:]] if isinstance(value, list) else value.to(dtype)
    return given


def changes(name: str) -> list[tuple[str, torch.dtype]]:
    found = []
    for key, value in samples.operands(name, 0, samples.operator(name)._schema).items():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, torch.Tensor):
            found += [(key, dtype) for dtype in TYPES.get(first.dtype, ())]
    return found


@pytest.mark.parametrize("name", calls_of_one_function())
def test_meta_refuses_the_types_that_the_device_refuses(name: str) -> None:
    overload, differ = samples.operator(name), []
    for key, dtype in changes(name):
        ours, sketched = (outcome(overload, changed(name, key, dtype), device) for device in ("npu", "meta"))
        known = (name, key, dtype) in DEVICE_ONLY
        if (ours is None) != (sketched is None) and not known:
            differ.append(f"{key} of {dtype}: on the device {ours}, for meta {sketched}")
        if known:
            assert ours is not None and sketched is None, "take it out of DEVICE_ONLY"
    assert differ == []


def test_what_meta_says_of_types() -> None:
    """The operator, the argument and what it takes; of two that have one type, both."""
    x, gamma = torch.ones(2, 4, device="meta"), torch.ones(4, device="meta")
    with pytest.raises(RuntimeError, match="^npu_rms_norm: input must be Float or Half or BFloat16 or Double, got Int"):
        torch.ops.npu.npu_rms_norm(x.int(), gamma)
    with pytest.raises(RuntimeError, match=r"^npu_rms_norm: input \(Float\) and gamma \(Half\) must have one type$"):
        torch.ops.npu.npu_rms_norm(x, gamma.half())
    with pytest.raises(RuntimeError, match=r"input \(Half\) and gamma \(Double\) must have one type, or the second Fl"):
        torch.ops.npu.npu_rms_norm(x.half(), gamma.double())
    assert torch.ops.npu.npu_rms_norm(x.half(), gamma)[0].dtype == torch.float16


def test_nothing_to_compute_is_of_any_type() -> None:
    """As on the device, which asks CANN nothing where no result has an element."""
    for device in ("npu", "meta"):
        assert torch.ops.npu.npu_swiglu(torch.ones(0, 4, dtype=torch.int32, device=device)).shape == (0, 2)
