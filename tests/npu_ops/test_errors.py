"""Errors of the NPU's own operators name operator and argument as the caller wrote them, whoever found the mistake."""

from __future__ import annotations

import pytest
import torch

import torch_npu

npu = torch.ops.npu


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_type_that_cann_refuses_is_told_as_the_caller_wrote_it(device: str) -> None:
    x, gamma = torch.ones(2, 8, device=device), torch.ones(8, device=device)
    takes = "torch.float32 or torch.float16 or torch.bfloat16 or torch.float64, got torch.bool"
    with pytest.raises(RuntimeError, match=f"^npu_rms_norm: input must be {takes}$"):
        torch_npu.npu_rms_norm(x.bool(), gamma)
    with pytest.raises(RuntimeError, match=f"^npu_rms_norm: gamma must be {takes}$"):
        torch_npu.npu_rms_norm(x, gamma.bool())


def test_a_composition_names_itself_when_an_operator_of_pytorchs_fails() -> None:
    with pytest.raises(RuntimeError, match="^npu_linear: .*shapes cannot be multiplied"):
        torch_npu.npu_linear(torch.rand(4, 3, device="npu"), torch.rand(2, 5, device="npu"))


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_check_without_the_name_gets_it(device: str) -> None:
    with pytest.raises(
        RuntimeError, match="^npu_swiglu: the input has the size 3 in dimension -1, which must be even$"
    ):
        torch_npu.npu_swiglu(torch.rand(2, 3, device=device))


@pytest.mark.parametrize(
    ("name", "lists"), [("npu_grouped_matmul", "x and weight"), ("npu_attention_update", "lse and local_out")]
)
def test_lists_without_a_tensor_are_named(name: str, lists: str) -> None:
    more = (0,) if name == "npu_attention_update" else ()
    with pytest.raises(ValueError, match=f"^torch.ops.npu.{name}: no tensor in {lists}; give at least one$"):
        getattr(npu, name)([], [], *more)


def test_a_message_with_the_name_is_left_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="^npu_rms_norm: gamma has sizes") as error:
        torch_npu.npu_rms_norm(torch.ones(2, 8, device="npu"), torch.ones(4, device="npu"))
    assert str(error.value).count("npu_rms_norm") == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda r: torch_npu.npu_giou(r(4, 3), r(3, 3)),
            r"npu_giou: gtboxes must be \[4, count\], it has the sizes \[3, 3\]",
        ),
        (lambda r: torch_npu.npu_iou(r(3, 4), r(3, 5)), r"npu_iou: bboxes and gtboxes must be \[count, 4\]"),
        (
            lambda r: npu.npu_lstm_cell(r(2, 3), r(3, 8), r(8), r(2, 2), r(2, 2)),
            "npu_lstm_cell: w_hh must have 2 dimensions",
        ),
        (
            lambda r: npu.npu_fast_gelu_backward(r(2), r(3)),
            r"grad and input must have the same sizes, they have \[2\] and \[3\]",
        ),
        (
            lambda r: torch_npu.npu_dynamic_block_quant(r(2, 8), row_block_size=-1),
            "npu_dynamic_block_quant: .*row_block_size -1",
        ),
        (
            lambda r: torch_npu.npu_giou(r(4, 5), r(4, 6)),
            "npu_giou: input has 5 boxes and gtboxes 6; without is_cross they must be as many",
        ),
        (lambda r: torch_npu.npu_ciou(r(4, 5), r(4, 6), is_cross=False), "npu_ciou: input has 5 boxes and gtboxes 6"),
        (lambda r: torch_npu.npu_diou(r(4, 5), r(4, 5), mode=1), "^npu_diou: mode 1 is not implemented; 0 is"),
        (
            lambda r: torch_npu.npu_moe_init_routing(r(2, 8), r(2, 2).int(), r(2, 2).int(), -1),
            "npu_moe_init_routing: active_num is -1, it must be at least 0",
        ),
        (lambda r: npu.npu_one_hot(r(2).int(), depth=-3), "npu_one_hot: depth is -3, it must be at least 0"),
        (
            lambda r: torch_npu.npu_dynamic_quant(r(2, 8), dst_type=torch.int64),
            "npu_dynamic_quant: dst_type torch.int64 is not implemented; int8, ",
        ),
        (
            lambda r: torch_npu.npu_dynamic_mx_quant(r(2, 64), dst_type=torch.int8),
            "npu_dynamic_mx_quant: the type torch.int8 is not implemented; float8_e5m2, ",
        ),
        (
            lambda r: torch_npu.npu_anti_quant(r(2, 8).char(), r(8), dst_dtype=torch.int64),
            "npu_anti_quant: dst_dtype is float16 or bfloat16, not torch.int64",
        ),
    ],
)
def test_arguments_have_their_names(call, says: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError), match=says):
        call(lambda *size: torch.rand(size, device="npu"))


CONVOLUTIONS = {
    "groups 0": (lambda x, w: torch_npu.npu_conv2d(x, w, None, [1, 1], [0, 0], [1, 1], 0), "non-positive groups"),
    "groups -1": (lambda x, w: torch_npu.npu_conv2d(x, w, None, [1, 1], [0, 0], [1, 1], -1), "non-positive groups"),
    "stride 0": (
        lambda x, w: npu.npu_conv2d_backward(x, x, w, [0, 0], [0, 0], [1, 1], 1, [True] * 3),
        "stride should be at least 1",
    ),
    "no output_padding": (
        lambda x, w: npu.npu_conv_transpose2d_backward(x, x, w, [0, 0], [], [1, 1], [1, 1], 1, [True] * 3),
        "expected output_padding to be one or 2 numbers",
    ),
    "a kernel larger than the image": (
        lambda x, w: npu.npu_conv2d_backward(x[..., :1, :1], x[..., :1, :1], w, [2, 2], [0, 0], [1, 1], 1, [True] * 3),
        "Kernel size can't be greater than actual input size",
    ),
}


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("mistake", CONVOLUTIONS)
def test_numbers_of_a_convolution_that_are_none(mistake: str, device: str) -> None:
    """A division by them would end the process."""
    call, says = CONVOLUTIONS[mistake]
    x, w = torch.rand(1, 2, 4, 4, device=device), torch.rand(2, 2, 3, 3, device=device)
    with pytest.raises(RuntimeError, match=says):
        call(x, w)


def test_an_operator_inside_another_adds_no_line() -> None:
    with pytest.raises(
        ValueError, match="^empty_with_format: there is no acl_format 77; torch_npu.Format has"
    ) as error:
        torch_npu.empty_with_format((2, 2), acl_format=77)
    assert "\n" not in str(error.value)


def test_a_familys_name_gives_way_to_the_operators() -> None:
    q = torch.ones(1, 2, 3, 8, device="npu")
    with pytest.raises(ValueError, match="^npu_fusion_attention: sparse_mode is 9, not 0 to 8"):
        torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", sparse_mode=9)
    with pytest.raises(RuntimeError, match="^npu_rotary_mul: cosine and sine .*the same$"):
        torch_npu.npu_rotary_mul(q, q[..., :4], q)


@pytest.mark.parametrize(("number", "type"), [(257, torch.float16), (283, torch.bfloat16)])
def test_a_type_by_the_vendors_number_is_that_type(number: int, type: torch.dtype) -> None:
    x, scale = torch.ones(2, 8, dtype=torch.int8, device="npu"), torch.ones(8, device="npu")
    assert torch_npu.npu_anti_quant(x, scale, dst_dtype=number).dtype == type
