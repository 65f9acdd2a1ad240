"""What is said of types that an operator of torch.ops.npu does not take: the device asks CANN, "meta" the rows of
ops/types.yaml, and both say it in the same words. That either both refuse a call or neither is test_both.py.
"""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_what_is_said_of_types(device: str) -> None:
    """The operator, the argument and what it takes; of two that have one type, both."""
    x, gamma = torch.ones(2, 4, device=device), torch.ones(4, device=device)
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


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_what_is_said_of_a_composition(device: str) -> None:
    def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.ones(sizes, dtype=dtype, device=device)

    with pytest.raises(RuntimeError, match=r"same dtype, but got: Float != Double \(npu_linear_backward\)$"):
        torch.ops.npu.npu_linear_backward(ones(2, 3), ones(2, 4), ones(3, 4, dtype=torch.double))
    with pytest.raises(RuntimeError, match="^npu_mish_backward: grad must be Float or .*, got ComplexFloat$"):
        torch.ops.npu.npu_mish_backward(ones(3, dtype=torch.cfloat), ones(3))


def test_autocast_converts_the_operands_of_a_product() -> None:
    x, weight = torch.ones(2, 4, device="npu"), torch.ones(3, 4, device="npu", dtype=torch.bfloat16)
    with torch.autocast("npu", torch.bfloat16):
        assert torch.ops.npu.npu_linear(x, weight).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.ops.npu.npu_linear(x, weight)
