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
    with pytest.raises(
        RuntimeError, match="^npu_rms_norm: input must be torch.float32 or torch.float16 or .*, got torch.int32"
    ):
        torch.ops.npu.npu_rms_norm(x.int(), gamma)
    with pytest.raises(
        RuntimeError, match=r"^npu_rms_norm: input \(torch.float32\) and gamma \(torch.float16\) must have one type$"
    ):
        torch.ops.npu.npu_rms_norm(x, gamma.half())
    with pytest.raises(
        RuntimeError,
        match=r"input \(torch.float16\) and gamma \(torch.float64\) must have one type, or the second to",
    ):
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

    with pytest.raises(RuntimeError, match="^npu_linear_backward: .*same dtype, but got: Float != Double"):
        torch.ops.npu.npu_linear_backward(ones(2, 3), ones(2, 4), ones(3, 4, dtype=torch.double))
    with pytest.raises(
        RuntimeError, match="^npu_mish_backward: grad must be torch.float32 or .*, got torch.complex64$"
    ):
        torch.ops.npu.npu_mish_backward(ones(3, dtype=torch.cfloat), ones(3))


def test_autocast_converts_the_operands_of_a_product() -> None:
    x, weight = torch.ones(2, 4, device="npu"), torch.ones(3, 4, device="npu", dtype=torch.bfloat16)
    with torch.autocast("npu", torch.bfloat16):
        assert torch.ops.npu.npu_linear(x, weight).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.ops.npu.npu_linear(x, weight)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_what_is_said_of_a_quantized_weight(device: str) -> None:
    """Sizes and types that go together, of products whose weight is quantized."""

    def of(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
        return torch.ones(sizes, device=device).to(dtype)

    f, i8, i32 = torch.float32, torch.int8, torch.int32
    product = torch.ops.npu.npu_weight_quant_batchmatmul
    with pytest.raises(RuntimeError, match=r"x of \[3, 8\] and weight of \[7, 16\] have no product: the inner sizes a"):
        product(of(f, 3, 8), of(i8, 7, 16), of(f, 1, 16))
    with pytest.raises(RuntimeError, match="antiquant_scale must have 32 or 16 or 1 elements, got 15$"):
        product(of(f, 3, 8), of(i8, 8, 16), of(f, 15), antiquant_group_size=4)
    with pytest.raises(
        RuntimeError, match=r"antiquant_scale of torch.int64 goes with x of float16.*; else give a floating one"
    ):
        product(of(f, 3, 8), of(i8, 8, 16), of(torch.int64, 16))
    assert product(of(torch.float16, 3, 8), of(i8, 8, 16), of(torch.int64, 16)).shape == (3, 16)
    assert product(of(f, 3, 8), of(i32, 8, 2), of(f, 1)).shape == (3, 16)

    gate = torch.ops.npu.npu_grouped_matmul_swiglu_quant_v2
    ends = of(torch.int64, 2)
    with pytest.raises(
        RuntimeError, match=r"swiglu_quant_v2: x \(torch.int32\) and weight \(torch.int8\) must have one type$"
    ):
        gate(of(i32, 6, 1), [of(i8, 2, 8, 12)], [of(f, 2, 12)], of(f, 6), ends)
    with pytest.raises(RuntimeError, match="swiglu_quant_v2: group_list must have 2 elements, got 1$"):
        gate(of(i8, 6, 8), [of(i8, 2, 8, 12)], [of(f, 2, 12)], of(f, 6), ends[:1])
    with pytest.raises(RuntimeError, match="the weight has 11 columns, which are no two halves$"):
        gate(of(i8, 6, 8), [of(i8, 2, 8, 11)], [of(f, 2, 11)], of(f, 6), ends)
    y, scale = gate(of(i32, 6, 1), [of(i32, 2, 8, 2)], [of(f, 2, 16)], of(f, 6), ends)
    assert (y.shape, scale.shape) == ((6, 8), (6,))

    routed = torch.ops.npu.npu_grouped_matmul_finalize_routing
    operands = of(i8, 6, 8), of(i8, 2, 8, 4), ends
    scales = {"scale": of(f, 2, 4), "pertoken_scale": of(f, 6)}
    with pytest.raises(
        RuntimeError, match="row_index is needed where output_bs, 3, is not the number of rows of x, 6$"
    ):
        routed(*operands, **scales, output_bs=3)
    with pytest.raises(
        RuntimeError, match=r"shared_input has 2 rows, which do not fit from row 5 \(shared_input_offset"
    ):
        routed(*operands, **scales, shared_input=of(torch.bfloat16, 2, 4), shared_input_offset=5)
    assert routed(*operands, **scales).shape == (6, 4)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_what_pytorch_asks_where_it_computes(device: str) -> None:
    """And not for "meta": rows that an empty tensor does not have, memory behind a tensor, types of parameters."""
    x, none = torch.ones(4, 6, device=device), torch.ones(0, 6, device=device)
    place = torch.zeros(2, dtype=torch.int64, device=device)
    with pytest.raises(
        IndexError, match=r"npu_gather_sparse_index: input has no rows in dimension 0, and index names 2"
    ):
        torch.ops.npu.npu_gather_sparse_index(none, place)
    assert torch.ops.npu.npu_gather_sparse_index(none, place[:0]).shape == (0, 6)
    with pytest.raises(IndexError, match="npu_min: input has no elements along dim 0, of which none is the first"):
        torch.ops.npu.npu_min(none, 0)
    with pytest.raises(RuntimeError, match="reach element 24 from storage_offset 1, and the memory of input has 24"):
        torch.ops.npu.npu_stride_copy(x, [2, 6], [18, 1], 1)
    assert torch.ops.npu.npu_stride_copy(x[1:], [2, 6], [18, 1], 0).shape == (2, 6)
    with pytest.raises(
        RuntimeError, match="npu_layer_norm_eval: input .torch.float32. and weight .torch.float64. must have one type"
    ):
        torch.ops.npu.npu_layer_norm_eval(x, [6], x[0].double())
    assert torch.ops.npu.npu_layer_norm_eval(x.half(), [6], x[0]).dtype == torch.float16
    with pytest.raises(
        RuntimeError, match="src, which is copied into input, has 3 dimensions, more than the 2 of input$"
    ):
        torch.ops.npu.npu_format_cast_(x.clone(), x.unsqueeze(0))


def test_unsigned_boxes_have_an_overlap() -> None:
    """PyTorch does not subtract them on the device."""
    boxes = torch.tensor([[0, 0, 4, 4], [1, 1, 3, 5]])
    wanted = torch.ops.npu.npu_iou(boxes.float().npu(), boxes.float().npu())
    assert torch.equal(torch.ops.npu.npu_iou(boxes.to(torch.uint16).npu(), boxes.float().npu()), wanted)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_numbers_that_no_call_has(device: str) -> None:
    """Formats, padding of a transposed convolution, whose gradient failed on the stream, kinds of group lists."""
    x, weight = torch.ones(2, 3, 4, 4, device=device), torch.ones(3, 4, 3, 3, device=device)
    one = [1, 1]
    with pytest.raises(ValueError, match="there is no acl_format 28; torch_npu.Format has UNDEFINED"):
        torch.ops.npu.npu_format_cast(x, 28)
    with pytest.raises(NotImplementedError, match="npu_format_cast_: customize_dtype is not implemented"):
        torch.ops.npu.npu_format_cast_(x, x, customize_dtype=1)
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        torch.ops.npu.npu_conv_transpose2d(x, weight, None, one, [0, 2], [2, 2], one, 1)
    grad = torch.ones(2, 4, 7, 9, device=device)
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        torch.ops.npu.npu_conv_transpose2d_backward(x, grad, weight, one, [0, 2], [2, 2], one, 1, [True] * 3)
    made = torch.ops.npu.npu_conv_transpose2d(x, weight, None, one, [0, 2], [2, 2], [1, 3], 1)
    assert made.shape == (2, 4, 7, 13)
    i8 = torch.ones(6, 8, device=device).to(torch.int8), torch.ones(2, 8, 12, device=device).to(torch.int8)
    scales = torch.ones(2, 12, device=device), torch.ones(6, device=device)
    ends = torch.ones(2, device=device, dtype=torch.int64)
    with pytest.raises((NotImplementedError, ValueError), match="group_list_type"):
        torch.ops.npu.npu_grouped_matmul_swiglu_quant_v2(
            i8[0], [i8[1]], [scales[0]], scales[1], ends, group_list_type=2
        )
