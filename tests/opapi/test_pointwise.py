"""Elementwise operators against CPU PyTorch: every row of the unary, binary, comparison and activation families."""

from __future__ import annotations

import pytest
import torch

UNARY = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Erfc": torch.erfc,
    "Erfinv": torch.erfinv,
    "Exp": torch.exp,
    "Exp2": torch.exp2,
    "Expm1": torch.expm1,
    "Floor": torch.floor,
    "Frac": torch.frac,
    "Log": torch.log,
    "Log10": torch.log10,
    "Log1p": torch.log1p,
    "Log2": torch.log2,
    "Neg": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Round": torch.round,
    "Rsqrt": torch.rsqrt,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinc": torch.sinc,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "Trunc": torch.trunc,
    "Relu": torch.relu,
    "Silu": torch.nn.functional.silu,
    "Mish": torch.nn.functional.mish,
    "Hardswish": torch.nn.functional.hardswish,
    "Hardsigmoid": torch.nn.functional.hardsigmoid,
    "Gelu": torch.nn.functional.gelu,
}
BINARY = {
    "Mul": torch.mul,
    "Div": torch.div,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Atan2": torch.atan2,
    "PowTensorTensor": torch.pow,
    "FmodTensor": torch.fmod,
    "RemainderTensorTensor": torch.remainder,
    "FloorDivide": torch.floor_divide,
    "LogAddExp": torch.logaddexp,
    "XLogYTensor": torch.xlogy,
}
COMPARE = {"Eq": torch.eq, "Ne": torch.ne, "Ge": torch.ge, "Gt": torch.gt, "Le": torch.le, "Lt": torch.lt}
BITS = {
    "BitwiseAndTensor": torch.bitwise_and,
    "BitwiseOrTensor": torch.bitwise_or,
    "BitwiseXorTensor": torch.bitwise_xor,
}


def names(npu, op: str) -> list[str]:
    return [p.name for p in npu.signatures[op]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", UNARY)
def test_unary(npu, name, dtype):
    x = torch.rand(3, 5, generator=torch.Generator().manual_seed(1)).to(dtype) + (1 if name == "Acosh" else 0)
    source, out = names(npu, "aclnn" + name)
    got = npu.call("aclnn" + name, **{source: x, out: torch.empty_like(x)}).get(out)
    torch.testing.assert_close(got, UNARY[name](x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_in_place(npu, name):
    op = "aclnnInplace" + name
    if op not in npu.signatures or not npu.has(op):
        pytest.skip(f"CANN has no {op}")
    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(2)) + (1 if name == "Acosh" else 0)
    (ref,) = names(npu, op)
    torch.testing.assert_close(npu.call(op, **{ref: x})[ref], UNARY[name](x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "broadcast", "scalar", "empty"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(npu, name, layout):
    g = torch.Generator().manual_seed(3)
    a, b = torch.rand(4, 6, generator=g) + 0.5, torch.rand(4, 6, generator=g) + 0.5
    if layout == "transposed":
        a, b = a.t(), b.t()
    elif layout == "strided":
        a, b = a[1:, ::2], b[1:, ::2]
    elif layout == "broadcast":
        b = b[:1]
    elif layout == "scalar":
        a, b = a[0, 0].clone(), b[0, 0].clone()
    elif layout == "empty":
        a, b = a[:0], b[:0]
    expected = BINARY[name](a, b)
    first, second, out = names(npu, "aclnn" + name)
    got = npu.call("aclnn" + name, **{first: a, second: b, out: torch.empty_like(expected)})[out]
    assert torch.equal(got, expected)


@pytest.mark.parametrize("kind", ["Tensor", "Scalar"])
@pytest.mark.parametrize("name", COMPARE)
def test_compare(npu, name, kind):
    a = torch.arange(12).view(3, 4)
    other = torch.full((3, 4), 5) if kind == "Tensor" else 5
    op = f"aclnn{name}{kind}"
    got = npu.call(op, self=a, other=other, out=torch.empty(3, 4, dtype=torch.bool))["out"]
    assert torch.equal(got, COMPARE[name](a, other))


@pytest.mark.parametrize("name", BITS)
def test_bits(npu, name):
    a, b = torch.arange(8, dtype=torch.int32), torch.arange(8, dtype=torch.int32).flip(0).contiguous()
    first, second, out = names(npu, "aclnn" + name)
    assert torch.equal(
        npu.call("aclnn" + name, **{first: a, second: b, out: torch.empty_like(a)})[out], BITS[name](a, b)
    )


@pytest.mark.parametrize("mode, rounding", [(0, None), (1, "trunc"), (2, "floor")])
def test_div_mode(npu, mode, rounding):
    a, b = torch.tensor([7.0, -7.0, 5.5]), torch.tensor([2.0, 2.0, -2.0])
    got = npu.call("aclnnDivMod", self=a, other=b, mode=mode, out=torch.empty(3))["out"]
    assert torch.equal(got, torch.div(a, b, rounding_mode=rounding))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.float16, torch.bfloat16]
)
@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 16, 1000, 50000])
def test_add(npu, dtype, alpha, n):
    a, b = torch.arange(n).to(dtype), torch.arange(n).flip(0).to(dtype)
    for name, function in (("Add", torch.add), ("Sub", torch.sub)):
        got = npu.call("aclnn" + name, self=a, other=b, alpha=alpha, out=torch.empty_like(a))["out"]
        assert torch.equal(got, function(a, b, alpha=alpha))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
@pytest.mark.parametrize("name", ["Adds", "Subs", "Muls", "Divs"])
def test_with_scalar(npu, name, dtype):
    a = torch.arange(1, 20).to(dtype)
    function = {"Adds": torch.add, "Subs": torch.sub, "Muls": torch.mul, "Divs": torch.div}[name]
    for other in (3, 2.5):
        expected = function(a, other)
        arguments = {"self": a, "other": other, "out": torch.empty_like(expected)}
        if name in ("Adds", "Subs"):
            arguments["alpha"] = 1
        assert torch.equal(npu.call("aclnn" + name, **arguments)["out"], expected)


def test_relu_keeps_nan_and_its_gradient_follows(npu):
    x = torch.tensor([float("nan"), -1.0, 0.0, 2.0, float("inf")])
    assert torch.equal(
        npu.call("aclnnRelu", self=x, out=torch.empty(5))["out"].nan_to_num(7), torch.relu(x).nan_to_num(7)
    )
    g = torch.arange(1.0, 6)
    got = npu.call("aclnnThresholdBackward", gradOutput=g, self=x, threshold=0, out=torch.empty(5))["out"]
    assert torch.equal(got, torch.ops.aten.threshold_backward(g, x, 0))


@pytest.mark.parametrize("value", [0, 1, -2.5, float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool])
def test_fill(npu, value, dtype):
    if dtype in (torch.int64, torch.bool) and value != value:
        pytest.skip("an integer holds no NaN")
    x = torch.ones(7).to(dtype)
    got = npu.call("aclnnInplaceFillScalar", selfRef=x, value=value)["selfRef"]
    assert torch.equal(got.double().nan_to_num(9), x.clone().fill_(value).double().nan_to_num(9))


def test_copy_between_types_and_layouts(npu):
    x = torch.randn(4, 6)
    for to in (torch.float16, torch.int32, torch.float32, torch.bool):
        got = npu.call("aclnnInplaceCopy", selfRef=torch.empty(6, 4, dtype=to).t(), src=x)["selfRef"]
        assert torch.equal(got, x.to(to))
