"""Types that CANN's functions compute and PyTorch's kernels refuse are refused at the call, in the CPU's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as nn

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)

places = torch.tensor([[[0, 2], [5, 7]]])

# A call of a tensor of ones, [2, 2], and the types that it refuses.
CALLS = {
    "abs": (torch.abs, [torch.bool]),
    "abs_": (torch.Tensor.abs_, [torch.bool]),
    "sub": (lambda x: x - x, [torch.bool]),
    "sub_": (lambda x: x.sub_(True), [torch.bool]),
    "div_": (lambda x: x.div_(2), [*INTEGERS, torch.bool]),
    "trunc of a quotient": (lambda x: torch.div(x, x, rounding_mode="trunc"), [torch.bool, *COMPLEX]),
    "floor of a quotient": (lambda x: torch.div(x, x, rounding_mode="floor"), [torch.bool, *COMPLEX]),
    "floor_divide_": (lambda x: x.floor_divide_(True), [torch.bool]),
    "addcdiv": (lambda x: torch.addcdiv(x, x, x), [torch.int64]),
    "addmv": (lambda x: torch.addmv(x[0], x, x[0]), [torch.bool]),
    "atan2_": (lambda x: x.atan2_(x), [*INTEGERS, torch.bool]),
    "xlogy_": (lambda x: x.xlogy_(x), [*INTEGERS, torch.bool]),
    "mean": (torch.mean, [*INTEGERS, torch.bool]),
    "round": (lambda x: torch.round(x, decimals=-1), [torch.int32, torch.int64]),
    "hardsigmoid": (nn.hardsigmoid, [torch.int32]),
    "hardtanh": (nn.hardtanh, [torch.bool]),
    "logaddexp": (lambda x: torch.logaddexp(x, x, out=torch.empty(2, 2, device=x.device)), [torch.int8, *UNSIGNED]),
    "logaddexp2": (lambda x: torch.logaddexp2(x, x, out=torch.empty(2, 2, device=x.device)), [torch.bool, *UNSIGNED]),
    "left shift": (lambda x: x << 1, UNSIGNED),
    "right shift": (lambda x: torch.bitwise_right_shift(x, x), UNSIGNED),
    "cumprod_": (lambda x: x.cumprod_(0), UNSIGNED),
    "trace": (torch.trace, [torch.bool]),
    "max_unpool2d": (lambda x: nn.max_unpool2d(x[None], places.to(x.device), 2), INTEGERS),
    "max_unpool3d": (lambda x: nn.max_unpool3d(x[None, None], places[None].to(x.device), 2), INTEGERS),
    "isin of a tensor": (lambda x: torch.isin(x, 1), [torch.bool, *COMPLEX]),
    "isin of a number": (lambda x: torch.isin(1, x), [torch.bool, *COMPLEX, *UNSIGNED]),
    "random_": (lambda x: x.random_(0, 2), COMPLEX),
    "unique_consecutive": (torch.unique_consecutive, COMPLEX),
}  # fmt: skip


def refusal(call: Callable, x: torch.Tensor) -> Exception:
    with pytest.raises((RuntimeError, TypeError)) as error:
        call(x)
    return error.value


@pytest.mark.parametrize("name", CALLS)
def test_the_call_is_refused(name):
    call, types = CALLS[name]
    for dtype in types:
        x = torch.ones(2, 2).to(dtype)
        wanted, found = refusal(call, x.clone()), refusal(call, x.npu())
        torch.npu.synchronize()
        assert not isinstance(found, torch.AcceleratorError), found
        if name not in ("addmv", "random_", "hardtanh"):  # whose words are other ones
            assert (type(found), str(found)) == (type(wanted), str(wanted)), dtype
