"""Every argument of the NPU's own operators has effect or is refused by name: what the software NPU does not implement,
and what says how bytes are read where it is not the tensor's own type.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

import torch_npu

f, npu = torch_npu, torch.ops.npu
INT4 = 285  # torch_npu.int4: CANN's number and 256


def r(*size: int) -> torch.Tensor:
    return torch.rand(size).npu()


def q8(*size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.int8).npu()


def ffn(**options: object) -> torch.Tensor:
    return f.npu_ffn(r(3, 4), r(4, 6), r(6, 4), "relu", **options)


def product(**options: object) -> torch.Tensor:
    return f.npu_quant_matmul(q8(2, 4), q8(4, 3), torch.tensor([0.5, 1, 2]).npu(), **options)


def attend(**options: object) -> object:
    q = r(2, 4, 32)
    return f.npu_fused_infer_attention_score_v2(q, q, q, num_query_heads=4, **options)


def of_floats(**options: object) -> object:
    a, b = r(3, 4).to(torch.float8_e4m3fn), r(4, 6).to(torch.float8_e4m3fn)
    return f.npu_quant_matmul(a, b, r(6), output_dtype=torch.float16, **options)


def groups(**options: object) -> object:
    return f.npu_grouped_matmul([r(3, 4)], [r(4, 5)], **options)


def gated(**options: object) -> object:
    ends = torch.tensor([3]).npu()
    return f.npu_grouped_matmul_swiglu_quant_v2(q8(3, 4), [q8(1, 4, 6)], [r(1, 6)], r(3), ends, **options)


def routed(**options: object) -> object:
    given = {"scale": r(1, 4), "pertoken_scale": r(3), "logit": r(3), "row_index": torch.arange(3).npu()}
    return f.npu_grouped_matmul_finalize_routing(q8(3, 4), q8(1, 4, 4), torch.tensor([3]).npu(), **given, **options)


def weights(**options: object) -> torch.Tensor:
    return f.npu_weight_quant_batchmatmul(r(3, 8), q8(8, 16), r(1, 16), **options)


# Called with each argument alone, and the value that is refused.
REFUSED: dict[Callable[..., object], dict[str, object]] = {
    ffn: {"output_dtype": torch.float16},
    product: {name: INT4 for name in ("x1_dtype", "x2_dtype")}
    | {"scale_dtype": 293, "group_sizes": [1, 1, 4], "y_scale": torch.ones(1)},
    of_floats: {"x1_dtype": 290, "scale_dtype": torch.int32},
    attend: {f"{name}_dtype": 290 for name in ("query", "key", "value", "key_shared_prefix", "value_shared_prefix")}
    | {"out_dtype": torch.float16},
    groups: {name: [torch.ones(1)] for name in (
        "offset", "activation_input", "activation_quant_scale", "activation_quant_offset")}
    | {"x_dtype": torch.float16, "weight_dtype": INT4},
    gated: {"weight_assist_matrix": [torch.ones(1)], "dequant_dtype": 5, "x_dtype": INT4, "weight_dtype": INT4,
            "weight_scale_dtype": 293, "x_scale_dtype": 293},
    routed: {"x_dtype": INT4, "w_dtype": INT4, "scale_dtype": 293, "pertoken_scale_dtype": 293},
    weights: {"weight_dtype": INT4},
    lambda **o: f.npu_dynamic_quant(r(2, 4), **o): {"dst_type_max": 7.0},
    lambda **o: f.npu_dynamic_quant_asymmetric(r(2, 4), **o): {"dst_type_max": 7.0},
    lambda **o: f.npu_dynamic_block_quant(r(2, 4), **o): {"dst_type_max": 1000.0},
    lambda **o: f.npu_anti_quant(q8(3, 4), r(4), **o): {"src_dtype": torch.quint4x2},
    lambda **o: f.npu_dtype_cast(q8(2, 8), torch.float32, **o): {"input_dtype": 290},
    lambda **o: npu.npu_dtype_cast_backward(r(2, 8), torch.float16, **o): {"grad_dtype": 290, "input_dtype": 290},
    lambda **o: npu.npu_gather_backward(r(2, 1), [2, 3], 1, torch.zeros(2, 1).long().npu(), **o): {"sparse_grad": True},
}  # fmt: skip
CASES = [(call, name, value) for call, refused in REFUSED.items() for name, value in refused.items()]


def on_npu(value: object) -> object:
    if isinstance(value, list):
        return [on_npu(v) for v in value]
    return value.npu() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(("call", "name", "value"), CASES, ids=[f"{n}-{i}" for i, (_, n, _) in enumerate(CASES)])
def test_an_argument_alone_is_refused_by_name(call: Callable[..., object], name: str, value: object) -> None:
    with pytest.raises(NotImplementedError, match=rf"\b{name}\b.* is not implemented") as error:
        call(**{name: on_npu(value)})
    told = str(error.value)
    says = ("leave it out", " are", "give False")
    assert any(remedy in told for remedy in says) or re.search(r"; (-?\d+|torch\.\w+) is\b", told)


@pytest.mark.parametrize(
    ("call", "name"),
    [(product, "pertoken_scale_dtype"), (groups, "scale_dtype"), (groups, "per_token_scale_dtype")]
    + [(attend, f"{name}_dtype") for name in (
        "query_rope", "key_rope", "dequant_scale_query", "dequant_scale_key", "dequant_scale_value",
        "dequant_scale_key_rope")],
)  # fmt: skip
def test_a_type_of_a_tensor_that_is_not_given(call: Callable[..., object], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} says how a tensor is read that is not given; leave it out"):
        call(**{name: torch.float32})


def test_the_type_that_a_tensor_has_may_be_named() -> None:
    plain = product()
    for number in (torch.int8, 258):  # PyTorch's and the vendor's
        assert torch.equal(product(x1_dtype=number, x2_dtype=number, scale_dtype=torch.float32), plain)
    x, scale = torch.randint(-8, 8, (3, 16), dtype=torch.int32).npu(), r(16)
    packed = f.npu_convert_weight_to_int4pack(x)
    expected = (x.cpu() * scale.cpu()).half()
    for number in (torch.int32, torch.quint4x2, INT4):
        torch.testing.assert_close(f.npu_anti_quant(packed, scale, src_dtype=number).cpu(), expected)
    assert attend(query_dtype=torch.float32, key_dtype=torch.float32, out_dtype=torch.float32)[0].shape == (2, 4, 32)
    assert ffn(output_dtype=torch.float32).dtype == torch.float32
    assert groups(x_dtype=torch.float32, weight_dtype=256)[0].shape == (3, 5)


def test_a_product_of_quantized_operands_in_float32() -> None:
    a, b = torch.randint(-9, 9, (2, 4), dtype=torch.int8), torch.randint(-9, 9, (4, 3), dtype=torch.int8)
    got = f.npu_quant_matmul(a.npu(), b.npu(), torch.tensor([0.3]).npu(), output_dtype=torch.float32)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.cpu(), (a.int() @ b.int()) * torch.tensor([0.3]))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_sizes": [1, 1, 4]}, r"group_sizes \[1, 1, 4\] is not implemented"),
        ({"y_scale": torch.ones(1, device="meta")}, "y_scale is not implemented"),
        ({"x2_dtype": INT4}, "x2_dtype 285 is not implemented"),
        ({}, "operands of torch.int16 and torch.int8: int8 ones are implemented"),
    ],
)
def test_traced_products_are_refused_as_the_device_refuses(options: dict, error: str) -> None:
    a = torch.ones(2, 4, dtype=torch.int8 if options else torch.int16, device="meta")
    b, scale = torch.ones(4, 3, dtype=torch.int8, device="meta"), torch.ones(3, device="meta")
    with pytest.raises((NotImplementedError, RuntimeError), match=error):
        f.npu_quant_matmul(a, b, scale, **options)


def test_traced_groups_are_refused_as_the_device_refuses() -> None:
    x, w = [torch.ones(3, 4, device="meta")], [torch.ones(4, 5, device="meta")]
    with pytest.raises(NotImplementedError, match="activation_quant_scale is not implemented"):
        f.npu_grouped_matmul(x, w, activation_quant_scale=[x[0]])
    with pytest.raises(NotImplementedError, match="x_dtype 285 is not implemented for a tensor of torch.float32"):
        f.npu_grouped_matmul(x, w, x_dtype=INT4)


def test_a_kernel_size_that_is_not_the_weight_s() -> None:
    x, w = r(2, 3, 8, 8), r(4, 3, 3, 3)
    with pytest.raises(RuntimeError, match=r"kernel_size is \[5, 3\], the weight's \[3, 3\]"):
        f.slow_conv_dilated2d_backward(r(2, 4, 6, 6), x, w, [5, 3], [1, 1], [1, 1], [2, 2], [True] * 3)


def test_a_docstring_tells_arguments_without_effect() -> None:
    told = " ".join(f.npu_weight_quant_batchmatmul.__doc__.split())
    assert "Without effect: inner_precise (it chooses between speed and precision of the hardware" in told
    x, w, scale = r(3, 8), q8(8, 16), r(1, 16)
    plain = f.npu_weight_quant_batchmatmul(x, w, scale)
    assert torch.equal(f.npu_weight_quant_batchmatmul(x, w, scale, inner_precise=1), plain)
