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
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied.*\(npu_linear\)$"):
        torch_npu.npu_linear(torch.rand(4, 3, device="npu"), torch.rand(2, 5, device="npu"))


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_check_without_the_name_gets_it(device: str) -> None:
    with pytest.raises(RuntimeError, match=r"expected two halves in dimension -1, but its size is 3 \(npu_swiglu\)$"):
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
            r"gtboxes must be \[4, count\], it has the sizes \[3, 3\] \(npu_giou\)",
        ),
        (lambda r: torch_npu.npu_iou(r(3, 4), r(3, 5)), r"bboxes and gtboxes must be \[count, 4\].*\(npu_iou\)"),
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
            r"row_block_size -1.*\(npu_dynamic_block_quant\)",
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
