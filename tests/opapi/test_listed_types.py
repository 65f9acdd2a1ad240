"""Types that CANN's documentation lists and PyTorch's CPU library refuses: values by the formulas of its pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.opapi.cases import compare
from tests.opapi.client import AclError

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
F32, C64, C128 = torch.float32, torch.complex64, torch.complex128
YES, NO = True, False


def of(dtype: torch.dtype, *numbers: complex) -> torch.Tensor:
    return torch.tensor(numbers).to(dtype)


def bits(*values: bool) -> torch.Tensor:
    return torch.tensor(values)


A, B = bits(YES, YES, NO, NO), bits(YES, NO, YES, NO)
X = bits(YES, NO, YES)
ONES = torch.ones(3, dtype=torch.bool)

# Booleans are the numbers 0 and 1.
BOOLEANS = {
    "Sub": ({"self": A, "other": B, "alpha": 1}, {"out": A ^ B}),
    "Sub of a number that is true": ({"self": A, "other": B, "alpha": True}, {"out": A ^ B}),
    "Sub of one": ({"self": A, "other": of(torch.int32, 5, 6, 7, 8), "alpha": 2},
                   {"out": of(torch.int32, -9, -11, -14, -16)}),
    "Sub from": ({"self": of(F32, 5, 6, 7, 8), "other": A, "alpha": 2}, {"out": of(F32, 3, 4, 7, 8)}),
    "Subs": ({"self": X, "other": 3, "alpha": 1}, {"out": of(torch.int64, -2, -3, -2)}),
    "Subs of true": ({"self": X, "other": True, "alpha": 1}, {"out": ~X}),
    "InplaceSub": ({"selfRef": A, "other": B, "alpha": 1}, {"selfRef": A ^ B}),
    "InplaceSubs": ({"selfRef": X, "other": True, "alpha": 1}, {"selfRef": ~X}),
    "Abs": ({"self": X}, {"out": X}),
    "Abs as numbers": ({"self": X}, {"out": of(torch.int16, 1, 0, 1)}),
    "Addmv": ({"self": bits(YES, NO), "mat": bits(YES, YES, NO, NO).view(2, 2), "vec": bits(YES, YES), "beta": 3,
               "alpha": 2}, {"out": of(torch.int32, 7, 0)}),
    "Addmv of floats": ({"self": of(F32, 0.5, 1.5), "mat": bits(YES, YES, NO, NO).view(2, 2), "vec": bits(YES, YES),
                         "beta": 2, "alpha": 0.5}, {"out": of(F32, 2, 3)}),
    "DivMod": ({"self": X, "other": ONES, "mode": 1}, {"out": X}),
    "DivMods": ({"self": X, "other": True, "mode": 2}, {"out": X}),
    "InplaceDivMod": ({"selfRef": X, "other": ONES, "mode": 2}, {"selfRef": X}),
    "InplaceDivMods": ({"selfRef": X, "other": True, "mode": 1}, {"selfRef": X}),
    "FloorDivide": ({"self": X, "other": ONES}, {"out": of(torch.int8, 1, 0, 1)}),
    "FloorDivides": ({"self": X, "other": True}, {"out": X}),
    "InplaceFloorDivide": ({"selfRef": X, "other": ONES}, {"selfRef": X}),
    "InplaceFloorDivides": ({"selfRef": X, "other": True}, {"selfRef": X}),
    "Div": ({"self": X, "other": ONES}, {"out": X}),
    "Divs": ({"self": X, "other": True}, {"out": X}),
    "InplaceDiv": ({"selfRef": X, "other": ONES}, {"selfRef": X}),
    "InplaceDivs": ({"selfRef": X, "other": True}, {"selfRef": X}),
    "InplaceHardtanh": ({"selfRef": X, "clipValueMin": -1, "clipValueMax": 1}, {"selfRef": X}),
    "InplaceHardtanh to zero": ({"selfRef": X, "clipValueMin": -1, "clipValueMax": 0}, {"selfRef": ~ONES}),
    "InplaceAtan2": ({"selfRef": X, "other": ONES}, {"selfRef": X}),  # an angle of 45 degrees or of none
    "XLogYTensor": ({"self": X, "other": X}, {"out": ~ONES}),  # 1·log(1) and 0·log(0) are nothing
    "InplaceXLogYTensor": ({"selfRef": X, "other": ONES}, {"selfRef": ~ONES}),
    "Trace": ({"self": torch.ones(3, 2, dtype=torch.bool)}, {"out": torch.tensor(2)}),
    "IsInTensorScalar": ({"element": X, "testElement": True}, {"out": X}),
    "IsInTensorScalar inverted": ({"element": X, "testElement": 1, "invert": True}, {"out": ~X}),
    "IsInScalarTensor": ({"element": False, "testElements": X}, {"out": ~X}),
    "IsInScalarTensor as one": ({"element": True, "testElements": X, "invert": True}, {"out": torch.tensor(False)}),
}  # fmt: skip


@pytest.mark.parametrize("case", BOOLEANS)
def test_booleans(npu, case):
    compare(npu, "aclnn" + case.split()[0], *BOOLEANS[case])


def test_what_is_no_boolean_has_no_room_in_one(npu):
    for op, more in (("InplaceSubs", {"alpha": 1}), ("InplaceFloorDivides", {}), ("InplaceDivMods", {"mode": 1})):
        with pytest.raises(AclError, match="can't be cast to the desired output type Bool"):
            npu.call("aclnn" + op, selfRef=X, other=2, **more)


def whole_results(dtype: torch.dtype) -> Iterator[tuple[str, dict, dict]]:
    """Results with a fraction, which a whole number lacks."""
    x, y, one = of(dtype, 7, 100, 12), of(dtype, 2, 3, 4), of(dtype, 0, 0, 1)
    quotient = of(dtype, 3, 33, 3)
    yield "Div", {"self": x, "other": y}, {"out": quotient}
    yield "Divs", {"self": x, "other": 2}, {"out": of(dtype, 3, 50, 6)}
    yield "InplaceDiv", {"selfRef": x, "other": y}, {"selfRef": quotient}
    yield "InplaceDivs", {"selfRef": x, "other": 8}, {"selfRef": of(dtype, 0, 12, 1)}
    yield "DivMod", {"self": x, "other": y, "mode": 0}, {"out": quotient}
    yield "InplaceAtan2", {"selfRef": x, "other": y}, {"selfRef": of(dtype, 1, 1, 1)}
    yield "InplaceAtan2", {"selfRef": one, "other": y}, {"selfRef": of(dtype, 0, 0, 0)}
    yield "XLogYTensor", {"self": x, "other": y}, {"out": of(dtype, 4, 109, 16)}
    yield "InplaceXLogYTensor", {"selfRef": x, "other": y}, {"selfRef": of(dtype, 4, 109, 16)}
    rows = torch.stack([x, y, y])
    for op, more in (("Mean", {"dtype": dtype}), ("MeanV2", {"noopWithEmptyAxes": False})):
        yield op, {"self": rows, "dim": [0], "keepDim": False} | more, {"out": of(dtype, 3, 35, 6)}
    image, places = of(dtype, 5, 6, 7, 100).view(1, 2, 2), torch.tensor([9, 0, 3, 5]).view(1, 2, 2)
    spread = torch.zeros(12, dtype=dtype).index_put((places.flatten(),), image.flatten())
    plane = {"self": image, "indices": places, "outputSize": [3, 4]}
    yield "MaxUnpool2d", plane, {"out": spread.view(1, 3, 4)}
    space = {"self": image[None], "indices": places[None].int(), "outputSize": [1, 3, 4], "stride": [1, 1, 1]}
    yield "MaxUnpool3d", space | {"padding": [0, 0, 0]}, {"outRef": spread.view(1, 1, 3, 4)}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_results_of_whole_numbers(npu, dtype):
    for op, inputs, outputs in whole_results(dtype):
        compare(npu, "aclnn" + op, inputs, outputs)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_quotients_into_whole_numbers_are_exact(npu, dtype):
    least, large = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x, y = of(dtype, 2**24 + 1, large, least, -7, least), of(dtype, 1, 1, 1, 2, -1)
    quotient = of(dtype, 2**24 + 1, large, least, -3, least)
    compare(npu, "aclnnDiv", {"self": x, "other": y}, {"out": quotient})
    compare(npu, "aclnnDivMod", {"self": x, "other": y, "mode": 0}, {"out": quotient})
    compare(npu, "aclnnInplaceDivs", {"selfRef": x, "other": 1}, {"selfRef": x.clone()})


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
def test_logarithms_of_sums_of_powers_of_whole_numbers(npu, dtype):
    x, y = of(dtype, 0, 3, 1), of(dtype, 1, 2, 0)
    for op, form in (("LogAddExp", torch.logaddexp), ("LogAddExp2", torch.logaddexp2)):
        compare(npu, "aclnn" + op, {"self": x, "other": y}, {"out": form(x.double(), y.double()).float()})


def test_means_lose_the_fraction_towards_zero(npu):
    x = of(torch.int64, -7, 2**60, 0, 2**60 + 3).view(2, 2)
    inputs = {"self": x, "dim": [0], "keepDim": True, "dtype": torch.int64}
    compare(npu, "aclnnMean", inputs, {"out": of(torch.int64, -3, 2**60 + 1).view(1, 2)})
    inputs = {"self": torch.full((300,), 100, dtype=torch.int8), "dim": [0], "keepDim": False, "dtype": torch.int8}
    compare(npu, "aclnnMean", inputs, {"out": torch.tensor(100, dtype=torch.int8)})  # the sum has more bits
    inputs = {"self": of(C64, 1 + 2j, 3 - 1j), "dim": [0], "keepDim": False, "dtype": F32}
    compare(npu, "aclnnMean", inputs, {"out": torch.tensor(2.0)})  # as PyTorch: of a real type, the real part
    for dtype in (F32, C64):  # CANN's conversions have none of numbers with a fraction into whole ones
        inputs = {"self": of(dtype, 1, 2), "dim": [0], "keepDim": False, "dtype": dtype}
        with pytest.raises(AclError, match=r"result type \w+ can't be cast to the desired output type Long"):
            npu.prepare("aclnnMean", **inputs, out=torch.tensor(1))
    inputs = {"self": of(F32, 1, 2), "dim": [0], "keepDim": False, "noopWithEmptyAxes": False}
    with pytest.raises(AclError, match="result type Float can't be cast to the desired output type Int"):
        npu.prepare("aclnnMeanV2", **inputs, out=torch.tensor(1, dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.uint8], ids=str)
def test_powers_of_whole_numbers(npu, dtype):
    x = [of(dtype, 0, 1, 2, 4), of(dtype, 3)]
    compare(npu, "aclnnForeachExp", {"x": x}, {"out": [of(dtype, 1, 2, 7, 54), of(dtype, 20)]})
    compare(npu, "aclnnForeachExpm1", {"x": x}, {"out": [of(dtype, 0, 1, 6, 53), of(dtype, 19)]})


def test_quotients_that_are_added_to_whole_numbers(npu):
    """The sum's fraction is cut off, not the quotient's; numbers of 64 bits stay exact."""
    self, a, b = of(torch.int64, 1, -1, 2**62 + 1, 5), of(torch.int64, 1, 1, 9, -7), of(torch.int64, 2, 2, 3, 2)
    want = of(torch.int64, 2, 0, 2**62 + 10, -5)  # 1 + 3·½ and so on
    operands = {"tensor1": a, "tensor2": b, "value": 3}
    compare(npu, "aclnnAddcdiv", {"self": self} | operands, {"out": want})
    compare(npu, "aclnnInplaceAddcdiv", {"selfRef": self} | operands, {"selfRef": want})
    floats = {"self": of(F32, 1, 1, 1, 1)} | operands
    compare(npu, "aclnnAddcdiv", floats, {"out": of(F32, 2.5, 2.5, 10, -9.5)})


def test_places_before_the_point(npu):
    x = of(torch.int64, 14, 15, 25, -15, -26, 10**15 + 5)
    for dtype in (torch.int32, torch.int64):
        numbers = x.to(dtype) if dtype is torch.int64 else x[:5].to(dtype)
        tens = of(torch.int64, 10, 20, 20, -20, -30, 10**15)[: len(numbers)].to(dtype)
        for decimals, want in ((-1, tens), (0, numbers), (3, numbers), (-40, torch.zeros_like(numbers))):
            compare(npu, "aclnnRoundDecimals", {"self": numbers, "decimals": decimals}, {"out": want})
            compare(npu, "aclnnInplaceRoundDecimals", {"selfRef": numbers, "decimals": decimals}, {"selfRef": want})


def test_a_hard_sigmoid_of_whole_numbers_is_cut_off(npu):
    x, want = of(torch.int32, -4, -3, 0, 2, 3, 2**31 - 1), of(torch.int32, 0, 0, 0, 0, 1, 1)
    compare(npu, "aclnnHardsigmoid", {"self": x}, {"out": want})
    compare(npu, "aclnnInplaceHardsigmoid", {"self": x}, {"self": want})


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_wide_unsigned_numbers(npu, dtype):
    width = 8 * dtype.itemsize
    top = 2**width - 1
    x, by = [top, top, 2 ** (width - 1), 5], [1, width - 1, 1, 0]

    def numbers(values: list[int]) -> torch.Tensor:
        """Through signed numbers of 64 bits: torch makes no tensor of larger ones."""
        return torch.tensor([v - 2**64 if v >= 2**63 else v for v in values]).to(dtype)

    left = numbers([(v << b) % 2**width for v, b in zip(x, by, strict=True)])
    right = numbers([v >> b for v, b in zip(x, by, strict=True)])
    compare(npu, "aclnnLeftShift", {"self": numbers(x), "shiftBits": numbers(by)}, {"out": left})
    compare(npu, "aclnnRightShift", {"input": numbers(x), "shiftBits": numbers(by)}, {"out": right})
    compare(
        npu, "aclnnLeftShifts", {"self": numbers(x), "shiftBits": 2}, {"out": numbers([v * 4 % 2**width for v in x])}
    )
    products = numbers([(top * 3**i) % 2**width for i in range(4)])
    inputs = {"input": numbers([top, 3, 3, 3]), "dim": 0, "dtype": dtype}
    compare(npu, "aclnnCumprod", inputs, {"out": products})
    few = {"self": of(dtype, 3, 0, 100), "other": of(dtype, 3, 5, 1)}
    for op, form in (("LogAddExp", torch.logaddexp), ("LogAddExp2", torch.logaddexp2)):
        want = form(few["self"].double(), few["other"].double()).float()
        compare(npu, "aclnn" + op, few, {"out": want})
        compare(npu, "aclnn" + op, few | {"other": of(torch.bool, 1, 0, 1)},
                {"out": form(few["self"].double(), of(torch.float64, 1, 0, 1)).half()})  # fmt: skip
    signed = of(torch.int32, -12, 18, 7)
    compare(npu, "aclnnGcd", {"self": signed, "other": of(torch.int32, 8, 27, 3)}, {"out": of(dtype, 4, 9, 1)})
    compare(
        npu, "aclnnPowScalarTensor", {"self": 3, "exponent": of(torch.int32, 0, 2, 9)}, {"out": of(dtype, 1, 9, 19683)}
    )
    compare(npu, "aclnnPowTensorTensor", {"self": of(torch.int64, 2, 3), "exponent": of(torch.int32, 5, 4)},
            {"out": of(dtype, 32, 81)})  # fmt: skip


def test_unsigned_and_signed_numbers_are_not_shifted_together(npu):
    x = of(torch.uint16, 1, 2)
    with pytest.raises(AclError, match="int64 and uint16 have no common data type"):
        npu.prepare("aclnnLeftShift", self=x, shiftBits=x.long(), out=x.clone())


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_complex_numbers(npu, dtype):
    x, y = of(dtype, 1 + 2j, 3j, -4), of(dtype, 1 - 1j, 3, 2j)
    real = {"mode": 0}
    compare(npu, "aclnnDivMod", {"self": x, "other": y} | real, {"out": x / y})
    compare(npu, "aclnnDivMods", {"self": x, "other": 2.0} | real, {"out": x / 2})
    compare(npu, "aclnnInplaceDivMod", {"selfRef": x, "other": y.real.contiguous() + 1} | real,
            {"selfRef": x / (y.real + 1)})  # fmt: skip
    compare(npu, "aclnnInplaceDivMods", {"selfRef": x, "other": 2.0} | real, {"selfRef": x / 2})
    for op, operands in (("DivMod", {"self": x, "other": y, "out": x}), ("InplaceDivMods", {"selfRef": x, "other": 2})):
        with pytest.raises(AclError, match="a quotient of complex numbers is not rounded") as error:
            npu.prepare("aclnn" + op, **operands, mode=2)
        assert error.value.status == 161002
    compare(npu, "aclnnIsInTensorScalar", {"element": x, "testElement": 3j}, {"out": bits(NO, YES, NO)})
    compare(npu, "aclnnIsInScalarTensor", {"element": -4, "testElements": x}, {"out": bits(NO, NO, YES)})
    small = of(torch.uint16, 3, 65535)
    compare(npu, "aclnnIsInScalarTensor", {"element": 65535, "testElements": small}, {"out": torch.tensor(True)})


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_distinct_complex_numbers(npu, dtype):
    x = of(dtype, 1j, 1j, 1 + 1j, 1j).view(2, 2)
    inputs = {"self": x, "returnInverse": True, "returnCounts": True}
    flat = {"valueOut": of(dtype, 1j, 1 + 1j, 1j), "inverseOut": torch.tensor([[0, 0], [1, 2]]),
            "countsOut": torch.tensor([2, 1, 1])}  # fmt: skip
    want = npu.call("aclnnUniqueConsecutive", dim=1000, **inputs, valueOut=x.flatten().clone(),
                    inverseOut=torch.zeros(2, 2).long(), countsOut=torch.zeros(4).long())  # fmt: skip
    assert torch.equal(want["inverseOut"], flat["inverseOut"])
    assert torch.equal(want["valueOut"][:3], flat["valueOut"]) and torch.equal(want["countsOut"][:3], flat["countsOut"])
    rows = torch.stack([x[0], x[0], x[1]])
    found = npu.call("aclnnUniqueConsecutive", **inputs | {"self": rows}, dim=-2, valueOut=rows.clone(),
                     inverseOut=torch.zeros(3).long(), countsOut=torch.zeros(3).long())  # fmt: skip
    assert torch.equal(found["valueOut"].flatten()[:4], x.flatten())
    assert found["inverseOut"].tolist() == [0, 0, 1] and found["countsOut"][:2].tolist() == [2, 1]


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_whole_numbers_at_random_have_no_imaginary_part(npu, dtype):
    parts = {C64: F32, C128: torch.float64}[dtype]
    bounds = {"from": -3, "to": 9, "seed": 5, "offset": 8}
    complex_, real = (
        npu.call("aclnnInplaceRandom", selfRef=torch.full((1000,), 77, dtype=t), **bounds)["selfRef"]
        for t in (dtype, parts)
    )
    assert torch.equal(complex_.real, real) and not complex_.imag.any()
    assert set(real.tolist()) == set(range(-3, 9))
    seeds = {"seedTensor": torch.tensor([5]), "offsetTensor": torch.tensor([8]), "offset": 0, "from": -3, "to": 9}
    again = npu.call("aclnnInplaceRandomTensor", selfRef=torch.full((1000,), 77, dtype=dtype), **seeds)["selfRef"]
    assert torch.equal(again, complex_)


def test_magnitudes_of_half_precision_complex_numbers(npu):
    x = torch.tensor([3 + 4j, -1, 300 + 400j]).to(torch.complex32)
    for dtype in (torch.float16, F32):
        compare(npu, "aclnnAbs", {"self": x}, {"out": of(dtype, 5, 1, 500)})


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
@pytest.mark.parametrize("normalized", [False, True])
def test_spectra_of_complex_signals(npu, dtype, normalized):
    n, generator = 8, torch.Generator().manual_seed(1)
    x, window = (torch.randn(size, dtype=dtype, generator=generator) for size in (20, n))
    k = torch.arange(n)
    turns = torch.polar(torch.ones(1).double(), -2 * torch.pi * (k[:, None] * k / n).double()).to(
        dtype
    )  # the page's formula, [frequency, place]
    want = turns @ (x.unfold(0, n, 4) * window).T / (n**0.5 if normalized else 1)
    inputs = {"self": x, "windowOptional": window, "nFft": n, "hopLength": 4, "winLength": n,
              "normalized": normalized, "onesided": False}  # fmt: skip
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype is C64 else {"rtol": 1e-12, "atol": 1e-13}
    compare(npu, "aclStft", inputs | {"returnComplex": True}, {"out": want}, **near)
    compare(npu, "aclStft", inputs | {"returnComplex": False}, {"out": torch.view_as_real(want)}, **near)
    for change, words in (({"returnComplex": False}, "returnComplex is"), ({"onesided": True}, "onesided goes with")):
        with pytest.raises(AclError, match=words) as error:
            npu.prepare("aclStft", **inputs | {"returnComplex": True} | change, out=want)
        assert error.value.status == 161002


def test_transposed_convolutions_of_8_bit_floats(npu):
    x, weight = (torch.randn(*size, generator=torch.Generator().manual_seed(2)).to(torch.float8_e4m3fn)
                 for size in ((2, 3, 5), (3, 4, 2)))  # fmt: skip
    want = torch.nn.functional.conv_transpose1d(x.float(), weight.float(), stride=2).to(torch.float8_e4m3fn)
    inputs = {"input": x, "weight": weight, "bias": None, "stride": [2], "padding": [0], "dilation": [1],
              "transposed": True, "outputPadding": [0], "groups": 1}  # fmt: skip
    got = npu.call("aclnnConvolution", **inputs, output=torch.zeros_like(want), cubeMathType=0)["output"]
    assert torch.equal(got.float(), want.float()) and want.float().abs().max() > 2
    with pytest.raises(AclError, match="8-bit floats are convolved transposed and without bias alone"):
        npu.prepare("aclnnConvolution", **inputs | {"transposed": False}, output=torch.zeros_like(want), cubeMathType=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_ends_of_groups_in_16_bit_floats(npu, dtype):
    x, smooth = torch.randn(5, 8, generator=torch.Generator().manual_seed(3)).half(), torch.ones(2, 8).half()
    smooth[1] = 3
    outputs = {"yOut": torch.zeros(5, 8, dtype=torch.int8), "scaleOut": torch.zeros(5), "offsetOut": None}
    got = npu.call("aclnnDynamicQuantV2", x=x, smoothScalesOptional=smooth, groupIndexOptional=of(dtype, 2, 5),
                   dstType=2, **outputs)  # fmt: skip
    of_rows = torch.tensor([1.0, 1, 3, 3, 3])
    torch.testing.assert_close(got["scaleOut"], x.float().abs().amax(-1) * of_rows / 127)
