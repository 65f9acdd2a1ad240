"""Which forms of quantization are refused at the call, on the device and where a call is traced: a row is a call and
the words of its error. What is computed: test_quant_forms.py."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.test_quant_forms import on

f, f16 = torch.ones, lambda *sizes: torch.ones(*sizes, dtype=torch.float16)
i8, i32 = lambda *sizes: torch.ones(*sizes, dtype=torch.int8), lambda *sizes: torch.ones(*sizes, dtype=torch.int32)
quantize = lambda x, scales, dtype, axis=-1, zero=None: (
    torch_npu.npu_quantize,
    [x, scales, zero, dtype, axis, False],
    {},
)
dynamic = lambda x, **o: (torch_npu.npu_dynamic_quant, [x], o)
product = lambda a, b, s, **o: (torch_npu.npu_quant_matmul, [a, b, s], {"output_dtype": torch.float16} | o)
ffn = lambda x, w1, w2, name="relu", **o: (torch_npu.npu_ffn, [x, w1, w2, name], o)
grouped = lambda x, w, **o: (
    torch_npu.npu_grouped_matmul, [[x], [w]],
    {"group_list": torch.tensor([1, 4]), "group_type": 0, "split_item": 3, "output_dtype": torch.float16} | o,
)  # fmt: skip
attend = lambda q, kv=None, **o: (
    torch_npu.npu_fused_infer_attention_score, [q, q if kv is None else kv, q if kv is None else kv],
    {"num_heads": 2, "input_layout": "BNSD"} | o,
)  # fmt: skip
FACTORS = {"dequant_scale1": f(1), "quant_scale1": f(1), "dequant_scale2": f(1)}
WHOLE = {"scale": f(1), "deq_scale1": f(8), "deq_scale2": f(4)}
FEWER = {"antiquant_scale1": f16(8), "antiquant_scale2": f16(4)}
BLOCKS = {"group_sizes": [1, 128, 128], "pertoken_scale": f(2, 1)}
SHIFTED = {"pertoken_scale": f(2, 1), "offset": f16(1, 8)}

REFUSED = {
    "an axis before the last two": (
        quantize(f(2, 3, 8), f(2), torch.qint8, -3),
        "axis is -3; with div_mode=False it is -2",
    ),
    "an axis of one dimension": (quantize(f(8), f(8), torch.qint8, -2), "Dimension out of range"),
    "an axis behind the last": (quantize(f(2, 8), f(8), torch.qint8, 2), "Dimension out of range"),
    "scales of another dimension": (
        quantize(f(2, 3, 8), f(3), torch.qint8, 1),
        "scales must have 1 or 8 elements, got 3",
    ),
    "scales of two dimensions": (
        quantize(f(2, 3, 8), f(1, 8), torch.qint8),
        "scales must have 0 or 1 or 3 dimensions, got 2",
    ),
    "scales along two": (quantize(f(2, 3, 8), f(1, 3, 8), torch.qint8), "one number in every dimension but 2"),
    "zeros of another number": (
        quantize(f(2, 8), f(1), torch.qint8, -1, f(8)),
        "zero_points must have 1 elements, got 8",
    ),
    "seven nibbles": (quantize(f(2, 7), f(1), torch.quint4x2), "packed in eights.* has 7; pad it"),
    "divided nibbles": (
        (torch_npu.npu_quantize, [f(2, 8), f(1), None, torch.quint4x2], {}),
        "made with div_mode=False",
    ),
    "no type of quantization": (quantize(f(2, 8), f(1), torch.int16), "npu_quantize: the dtype torch.int16 is not"),
    "a type of no dynamic quantization": (
        dynamic(f(2, 8), dst_type=torch.int16),
        "dst_type torch.int16 is not implemented; int8, quint4x2",
    ),
    "seven columns": (dynamic(f(2, 7), dst_type=torch.quint4x2), "input has 7 columns; pad them to a multiple of 8"),
    "a mode": (dynamic(f(2, 8), quant_mode="perrow"), 'quant_mode is one of "pertoken", "pertensor", "perchannel"'),
    "groups of a tensor": (
        dynamic(f(2, 8), quant_mode="pertensor", smooth_scales=f(1, 8), group_index=i32(1)),
        "group_index goes with quant_mode pertoken",
    ),
    "groups without factors": (dynamic(f(2, 8), group_index=i32(1)), "smooth_scales belong, which are not given"),
    "factors of columns": (
        dynamic(f(2, 8), quant_mode="perchannel", smooth_scales=f(8)),
        "smooth_scales must have 2 in dimension 0",
    ),
    "nothing": (dynamic(f(0, 8), quant_mode="pertensor"), r"input of \[0, 8\] has no largest number"),
    "one dimension": (dynamic(f(8), dst_type=torch.float8_e5m2), "input has 1 dimension; two or more"),
    "blocks without rows": (
        product(i8(2, 64), i8(64, 8), f(1, 1), group_sizes=[1, 128, 128]),
        "pertoken_scale is needed",
    ),
    "blocks of another number": (
        product(i8(2, 64), i8(64, 8), f(2, 1), **BLOCKS),
        "scale must have 1 in dimension 0, got 2",
    ),
    "blocks in bytes": (
        product(i8(2, 64), i8(64, 8), f(1, 1), **BLOCKS | {"output_dtype": None}),
        "output_dtype is float16 or bfloat16",
    ),
    "blocks of nibbles": (product(i32(2, 8), i32(64, 1), f(1, 1), **BLOCKS), "x1 must be torch.int8, got torch.int32"),
    "a bias of integers": (
        product(i8(2, 64), i8(64, 8), f(1, 1), **BLOCKS | {"bias": i32(8)}),
        "bias must be torch.float32, got torch.int32",
    ),
    "other blocks": (
        product(i8(2, 64), i8(64, 8), f(1), group_sizes=[1, 64, 64]),
        r"group_sizes \[1, 64, 64\] is not implemented",
    ),
    "groups of bytes": (
        product(i8(2, 64), i8(64, 8), f(8), group_sizes=[0, 0, 256]),
        "group_sizes .* is not implemented",
    ),
    "bytes by nibbles without an offset": (
        product(i8(2, 64), i32(64, 1), torch.ones(8, dtype=torch.int64), pertoken_scale=f(2)),
        "offset, which is the sum of 8",
    ),
    "bytes by nibbles of numbers": (
        product(i8(2, 64), i32(64, 1), f(8), pertoken_scale=f(2), offset=f(8)),
        "scale must be ",
    ),
    "squares of bytes": (
        product(i8(2, 64), i8(64, 8), f(1, 1), group_sizes=[128, 128, 128], pertoken_scale=f(1, 1)),
        "goes with 8-bit floats",
    ),
    "groups without an offset": (
        product(i32(2, 8), i32(64, 1), f(1, 8), pertoken_scale=f(2, 1)),
        "offset are needed",
    ),
    "an offset of float32": (
        product(i32(2, 8), i32(64, 1), f(1, 8), **SHIFTED | {"offset": f(1, 8)}),
        "offset must be torch.float16, got torch.float32",
    ),
    "groups of another number": (
        product(i32(2, 8), i32(64, 1), f(2, 8), **SHIFTED),
        "scale must have 1 in dimension 0, got 2",
    ),
    "half an offset": (
        product(i8(2, 8), i8(8, 4), f(4), offset=f16(4)),
        "offset must be torch.float32, got torch.float16",
    ),
    "integers without a scale": (ffn(i8(3, 8), i8(8, 8), i8(8, 4)), "scale is needed with x of int8"),
    "scales of two types": (
        ffn(i8(3, 8), i8(8, 8), i8(8, 4), **WHOLE | {"deq_scale2": f(4).bfloat16()}),
        "deq_scale1.*deq_scale2",
    ),
    "a short scale": (
        ffn(i8(3, 8), i8(8, 8), i8(8, 4), **WHOLE | {"deq_scale1": f(7)}),
        "deq_scale1 must have 8 in dimension 0, got 7",
    ),
    "a gate of integers": (
        ffn(i8(3, 8), i8(8, 16), i8(8, 4), "swiglu", **WHOLE),
        'activation of quantized operands is one of "relu"',
    ),
    "a floating bias": (
        ffn(i8(3, 8), i8(8, 8), i8(8, 4), **WHOLE, bias1=f(8)),
        "bias1 must be torch.int32, got torch.float32",
    ),
    "a result of integers": (
        ffn(i8(3, 8), i8(8, 8), i8(8, 4), **WHOLE, output_dtype=torch.int8),
        "output_dtype .* is not implemented",
    ),
    "weights without scales": (ffn(f16(3, 8), i8(8, 8), i8(8, 4)), "antiquant_scale1 is needed with weights of int8"),
    "weights with both": (
        ffn(f16(3, 8), i8(8, 8), i8(8, 4), **FEWER, scale=f(1)),
        "scale does not go with weights of int8",
    ),
    "plain with a scale": (
        ffn(f16(3, 8), f16(8, 8), f16(8, 4), scale=f(1)),
        "scale does not go with weights of the type of x; leave",
    ),
    "a wide weight": (
        grouped(f16(4, 8), f16(2, 8, 8), antiquant_scale=[f16(2, 8)]),
        "antiquant_scale does not go with x of torch.float16",
    ),
    "groups of weights of bytes": (
        grouped(f16(4, 8), i8(2, 8, 8), antiquant_scale=[f16(2, 2, 8)]),
        "antiquant_scale must have a number",
    ),
    "an offset alone": (
        grouped(f16(4, 8), f16(2, 8, 8), antiquant_offset=[f16(2, 8)]),
        "antiquant_offset does not go with",
    ),
    "another offset": (
        grouped(f16(4, 8), i32(2, 8, 1), antiquant_scale=[f16(2, 2, 8)], antiquant_offset=[f16(2, 8)]),
        "antiquant_offset must have",
    ),
    "integers without a factor": (attend(i8(1, 2, 4, 32)), "dequant_scale1 is needed with query of int8"),
    "floats with one": (
        attend(f16(1, 2, 4, 32), **FACTORS),
        "dequant_scale1 goes with query of int8, which is of torch.float16",
    ),
    "two factors": (
        attend(i8(1, 2, 4, 32), **FACTORS | {"quant_scale1": f(2)}),
        "quant_scale1 must have 1 elements, got 2",
    ),
    "one row of integers": (attend(i8(1, 2, 1, 32), **FACTORS), "query of int8 has one row a sequence"),
    "a floating cache": (
        attend(i8(1, 2, 4, 32), f16(1, 2, 4, 32), **FACTORS),
        "key must be torch.int8, got torch.float16",
    ),
    "turned columns of integers": (
        attend(i8(1, 2, 4, 32), **FACTORS, query_rope=i8(1, 2, 4, 8), key_rope=i8(1, 2, 4, 8)),
        "query_rope does not go with query of int8",
    ),
    "bytes by nibbles without a bias": (
        grouped(i8(4, 8), i32(2, 8, 1), scale=[f(2, 8)], per_token_scale=[f(4)]),
        "bias is needed with x of torch.int8 and weight of torch.int32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_the_call(name: str, device: str) -> None:
    (op, args, options), says = REFUSED[name]
    with pytest.raises((RuntimeError, ValueError, IndexError, NotImplementedError), match=says):
        op(*(on(device, a) for a in args), **on(device, options))
