"""Pointwise operators: values, dtypes, promotion, numbers, strides, in-place and out variants."""

from __future__ import annotations

import pytest
import torch

from tests.ops.compare import check, check_grad

UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp exp2 expm1 floor frac log1p neg reciprocal round rsqrt sgn sigmoid "
    "sign sin sinc sinh sqrt tan tanh trunc asinh signbit isposinf isneginf isnan"
).split()
BINARY = "add sub mul div maximum minimum atan2 pow fmod remainder logaddexp logaddexp2 xlogy floor_divide".split()
COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor".split()
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def unit(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values in (0.05, 0.95): inside every function's domain."""
    return (torch.rand(*shape) * 0.9 + 0.05).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    check(getattr(torch, name), unit(4, 5, dtype=dtype))


@pytest.mark.parametrize("name", [n for n in UNARY if hasattr(torch.Tensor, n + "_")])
def test_unary_in_place(name: str) -> None:
    check(getattr(torch.Tensor, name + "_"), unit(4, 5))


@pytest.mark.parametrize("name", ["abs", "exp", "sqrt", "neg", "sigmoid"])
def test_unary_keeps_strides_of_a_transposed_tensor(name: str) -> None:
    x = unit(4, 5).t()
    y = check(getattr(torch, name), x)
    assert y.stride() == getattr(torch, name)(x).stride()


@pytest.mark.parametrize("name", ["cos", "exp", "sigmoid", "sqrt", "reciprocal"])
def test_integers_become_floats(name: str) -> None:
    check(getattr(torch, name), torch.arange(1, 7).reshape(2, 3))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    check(getattr(torch, name), unit(3, 4, dtype=dtype), unit(3, 4, dtype=dtype))


@pytest.mark.parametrize("name", BINARY + COMPARE)
def test_binary_broadcasts(name: str) -> None:
    check(getattr(torch, name), unit(3, 1, 4), unit(2, 1))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "remainder", "floor_divide", "eq", "lt", "pow"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_binary_of_integers(name: str, dtype: torch.dtype) -> None:
    check(getattr(torch, name), torch.arange(1, 7, dtype=dtype), torch.tensor([1, 2, 3, 1, 2, 3], dtype=dtype))


@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd"]
)
def test_bits(name: str) -> None:
    check(getattr(torch, name), torch.arange(1, 7), torch.tensor([1, 2, 3, 1, 2, 3]))


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "pow", "eq", "gt", "rsub"]
)
@pytest.mark.parametrize("number", [2, 0.5, -3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_tensor_and_number(name: str, number: float, dtype: torch.dtype) -> None:
    x = torch.arange(1, 7).to(dtype)
    if name == "pow" and dtype == torch.int64 and number < 0:
        pytest.skip("negative integer powers of integers are an error")
    check(getattr(torch, name), x, number)


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: 1 - x,
        lambda x: 2 / x,
        lambda x: 3**x,
        lambda x: 5 % x,
        lambda x: 1 + x,
        lambda x: 7 // x,
        lambda x: -x,
        lambda x: x > 0.5,
        lambda x: True * x,
    ],
)
def test_number_on_the_left(expression: object) -> None:
    check(expression, unit(5) + 0.5)


def test_promotion_of_mixed_dtypes() -> None:
    check(torch.add, torch.arange(4), unit(4))
    check(torch.mul, unit(4, dtype=torch.float16), unit(4))
    check(torch.add, torch.tensor([True, False]), torch.tensor([1, 2], dtype=torch.uint8))


def test_a_zero_dim_cpu_tensor_may_meet_an_npu_tensor() -> None:
    x, number = unit(4), torch.tensor(2.5, dtype=torch.float64)
    assert torch.equal((x.npu() * number).cpu(), x * number)
    assert torch.equal((number - x.npu()).cpu(), number - x)
    zero_dim = torch.tensor(1.5).npu() + number
    assert zero_dim.dtype == torch.float64 and zero_dim.item() == 4.0


def test_the_weight_of_a_lerp_may_be_a_number_of_another_type() -> None:
    numbers = [torch.tensor(0.25), torch.tensor(0.25, dtype=torch.float64)]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        wide = [torch.tensor(0.25 + 1j)] if dtype in (torch.float32, torch.float64) else []
        for shape in ((4,), ()):
            x, y = torch.rand(shape, dtype=dtype), torch.rand(shape, dtype=dtype)
            for weight in numbers + wide:
                wanted = torch.lerp(x, y, weight)
                for given in (weight, weight.npu()):
                    torch.testing.assert_close(torch.lerp(x.npu(), y.npu(), given).cpu(), wanted)


def test_alpha() -> None:
    check(torch.add, unit(4), unit(4), alpha=3)
    check(torch.sub, torch.arange(4), torch.arange(4), alpha=2)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_div_modes(mode: str | None) -> None:
    check(torch.div, torch.tensor([7.0, -7.0]), torch.tensor([2.0, 2.0]), rounding_mode=mode)
    check(torch.div, torch.tensor([7, -7]), 2, rounding_mode=mode)


def test_in_place_and_out() -> None:
    check(torch.Tensor.add_, unit(3, 4), unit(4))
    check(torch.Tensor.mul_, unit(3, 4), 2)
    check(lambda a, b, out: torch.add(a, b, out=out), unit(3), unit(3), torch.empty(3))
    check(lambda a, b, out: torch.add(a, b, out=out), unit(3), unit(3), torch.empty(0))
    check(lambda a, b, out: torch.add(a, b, out=out), unit(3), unit(3), torch.empty(3, dtype=torch.float64))
    check(lambda a, b, out: torch.lt(a, b, out=out), unit(3), unit(3), torch.empty(3))


def test_out_of_a_smaller_dtype_is_refused() -> None:
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(unit(3).npu(), unit(3).npu(), out=torch.empty(3, dtype=torch.int64, device="npu"))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.arange(3).npu().add_(0.5)


def test_a_partial_overlap_is_refused() -> None:
    x = unit(5).npu()
    with pytest.raises(
        RuntimeError,
        match="some elements of the input tensor and the written-to tensor refer to a single memory location",
    ):
        x[1:].add_(x[:-1])


def test_two_devices_are_refused() -> None:
    a, b = torch.ones(2, device="npu:0"), torch.ones(2, device="npu:1")
    for function in (torch.add, torch.mul, torch.maximum):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            function(a, b)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.add(a, torch.ones(2))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.mm(torch.ones(2, 2, device="npu:0"), torch.ones(2, 2, device="npu:1"))


def test_empty_and_zero_dim() -> None:
    check(torch.add, torch.empty(0, 3), torch.empty(0, 3))
    check(torch.add, torch.tensor(1.0), torch.tensor(2.0))
    check(torch.exp, torch.empty(0))


def test_channels_last_stays() -> None:
    x = unit(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    y = check(lambda a: torch.relu(a) + a, x)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_ternary() -> None:
    a, b, c = unit(3, 4), unit(3, 4), unit(4)
    check(torch.addcmul, a, b, c, value=0.5)
    check(torch.addcdiv, a, b, c, value=2)
    check(torch.lerp, a, b, 0.3)
    check(torch.lerp, a, b, unit(3, 4))
    check(torch.where, a > 0.5, a, b)
    check(torch.where, a > 0.5, a, 0.0)
    check(torch.clamp, a, 0.2, 0.6)
    check(torch.clamp, a, min=0.4)
    check(torch.clamp, a, max=b)
    check(torch.Tensor.clamp_, a, 0.2, 0.6)


ACTIVATIONS = {
    "relu": {},
    "gelu": {},
    "silu": {},
    "mish": {},
    "elu": {},
    "leaky_relu": {"negative_slope": 0.2},
    "hardswish": {},
    "hardsigmoid": {},
    "hardtanh": {},
    "softplus": {},
    "hardshrink": {},
    "softshrink": {},
    "logsigmoid": {},
    "threshold": {"threshold": 0.1, "value": 5.0},
    "tanh": {},
    "sigmoid": {},
    "celu": {},
    "selu": {},
    "relu6": {},
    "softsign": {},
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_and_gradient(name: str) -> None:
    x = (torch.randn(4, 6) * 2).requires_grad_()
    check_grad(getattr(torch.nn.functional, name), x, **ACTIVATIONS[name])


def test_gelu_tanh_glu_prelu() -> None:
    check_grad(torch.nn.functional.gelu, torch.randn(4, 6, requires_grad=True), approximate="tanh")
    check_grad(torch.nn.functional.glu, torch.randn(4, 6, requires_grad=True))
    check_grad(torch.nn.functional.prelu, torch.randn(2, 3, 4, requires_grad=True), torch.rand(3, requires_grad=True))


def test_nan_to_num_and_logit() -> None:
    check(torch.nan_to_num, torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0]))
    check(torch.nan_to_num, torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0]), 1.0, 2.0, 3.0)
    check(torch.logit, unit(5))
    check(torch.logit, unit(5), 0.2)


def test_unsupported_layout_is_an_error_of_its_own() -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.empty(2, 2, device="npu", layout=torch._mkldnn)


def test_values_of_expanded_operands() -> None:
    check(torch.add, unit(1, 4).expand(3, 4), unit(3, 1).expand(3, 4))
    check(torch.mul, unit(6)[::2], unit(3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_ldexp_of_numbers_keeps_the_type(dtype: torch.dtype) -> None:
    x = torch.tensor(-0.3, dtype=dtype)
    for n in (torch.tensor(2), torch.tensor([2, -1])):
        assert torch.equal(torch.ldexp(x.npu(), n.npu()).cpu(), (x.double() * 2.0 ** n.double()).to(dtype))
