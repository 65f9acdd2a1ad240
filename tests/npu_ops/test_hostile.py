"""Arguments that would have a kernel read past a list or a table, divide by zero or ask for any amount of memory."""

from __future__ import annotations

import contextlib

import pytest
import torch

import torch_npu


def rope_into_caches(columns: int) -> None:
    x, angles = torch.rand(2, 3, 64).npu(), torch.rand(2, 3, 1, columns).npu()
    caches = [torch.zeros(2, 8, 1, 16, dtype=torch.int8, device="npu") for _ in range(2)]
    index, scale = torch.tensor([0, 5], dtype=torch.int32).npu(), torch.rand(1, 16).npu()
    torch_npu.npu_rope_quant_kvcache(x, angles, angles, *caches, index, scale, scale, [32, 16, 16])


@pytest.mark.parametrize("shape", [[], [4]])
@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_shape_to_restore_has_two_members(shape: list[int], device: str) -> None:
    rows, index = torch.rand(8, 6, device=device), torch.arange(8, dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match=r"restore_shape is \[tokens, columns\], not"):
        torch.ops.npu.npu_moe_token_unpermute_with_routing_map(rows, index, shape)


@pytest.mark.parametrize(("size", "stride"), [([], []), ([10], [2]), ([10, 10], [0, 2])])
def test_sizes_of_a_map_of_anchors(size: list[int], stride: list[int]) -> None:
    with pytest.raises(RuntimeError, match="npu_anchor_response_flags: .*stride"):
        torch_npu.npu_anchor_response_flags(torch.rand(3, 4).npu(), size, stride, 3)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_tokens_without_places(device: str) -> None:
    rows, places = torch.rand(4, 8, device=device), torch.arange(4, dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match="a token has 0 places"):
        torch.ops.npu.npu_moe_finalize_routing(rows, None, None, None, torch.rand(4, 0, device=device), places, None)
    with pytest.raises(RuntimeError, match="a token has 0 places"):
        torch.ops.npu.npu_moe_finalize_routing(rows, None, None, None, None, places, None, k=0)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_products_of_empty_lists(device: str) -> None:
    weight = torch.rand(4, 4, device=device)
    for x, weights in (([], [weight]), ([weight], [])):
        with pytest.raises(RuntimeError, match="both lists hold one tensor or more"):
            torch.ops.npu.npu_grouped_matmul.List(x, weights, group_list=[1, 2])


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_an_axis_to_quantize_along_exists_and_has_the_scales(device: str) -> None:
    x, scales = torch.rand(8, device=device), torch.rand(8, device=device)
    with pytest.raises(IndexError):
        torch_npu.npu_quantize(x, scales, None, 1, 1)
    with pytest.raises(RuntimeError, match="npu_quantize: scales must have"):
        torch_npu.npu_quantize(x, scales[:3], None, 1, 0)
    assert torch_npu.npu_quantize(x, scales, None, 1, -1).shape == (8,)


def test_a_product_of_operands_without_columns() -> None:
    a, b = torch.zeros(3, 0, dtype=torch.int8).npu(), torch.zeros(0, 4, dtype=torch.int8).npu()
    with pytest.raises(RuntimeError, match="x1_scale must have"):
        torch.ops.npu.npu_quant_matmul_gelu(a, b, torch.ones(3).npu(), torch.ones(4).npu())


def test_angles_without_columns() -> None:
    with pytest.raises(RuntimeError, match="cos has no columns"):
        rope_into_caches(0)


def test_lengths_beyond_the_result_are_refused_before_memory_is_asked_for() -> None:
    key = value = torch.zeros(6, 1, 4, device="npu")
    cache, tables = torch.rand(4, 2, 1, 4).npu(), torch.tensor([[0, 1]], dtype=torch.int32).npu()
    lengths = torch.tensor([2**31 - 1], dtype=torch.int32).npu()
    with pytest.raises(torch.AcceleratorError, match="do not fit 6 rows"):
        torch_npu.npu_gather_pa_kv_cache(cache, cache, tables, lengths, key, value)
        torch.npu.synchronize()


@pytest.mark.parametrize("counts", [[3, 2**31 - 1], [-1, 5], [2**62, 2**62]])
def test_counts_of_tokens_are_refused_before_memory_is_asked_for(counts: list[int]) -> None:
    number = torch.tensor([counts], dtype=torch.int32 if max(counts) < 2**31 else torch.int64).npu()
    with pytest.raises(torch.AcceleratorError, match="negative or above 4"):
        torch_npu.npu_moe_re_routing(torch.rand(4, 3).npu(), number)
        torch.npu.synchronize()


def test_repeats_are_refused_before_memory_is_asked_for() -> None:
    repeats = torch.tensor([2, 2**40]).npu()
    with pytest.raises(torch.AcceleratorError, match="size"):
        with contextlib.suppress(torch.AcceleratorError):  # a later part of the call may have met the error
            torch.ops.npu.repeat_interleave_backward_tensor(torch.ones(4).npu(), torch.ones(2).npu(), repeats)
        torch.npu.synchronize()


def test_statistics_of_a_layer_norm_with_gaps() -> None:
    x, grad = torch.rand(4, 8), torch.rand(4, 8)
    mean, rstd = torch.rand(4, 2), torch.rand(4, 2) + 1
    want = torch.ops.aten.native_layer_norm_backward(
        grad, x, [8], mean[:, :1].contiguous(), rstd[:, :1].contiguous(), None, None, [True, False, False]
    )[0]
    got = torch.ops.aten.native_layer_norm_backward(
        grad.npu(), x.npu(), [8], mean.npu()[:, :1], rstd.npu()[:, :1], None, None, [True, False, False]
    )[0]
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("device", ["npu", "cpu"])
@pytest.mark.parametrize(("perm", "shape"), [([0, 3], [2, 2]), ([0, -3], [4, 2]), ([0, 0], [4, 2]), ([0, 1], [8])])
def test_a_permutation_of_other_dimensions(perm: list[int], shape: list[int], device: str, first: bool) -> None:
    grad = torch.ones(4, 2, device=device)
    if perm == [0, 1] and not first:
        assert torch.ops.npu.npu_confusion_transpose_backward(grad, perm, shape, first).shape == (8,)
        return
    with pytest.raises((IndexError, RuntimeError), match="perm|range"):
        torch.ops.npu.npu_confusion_transpose_backward(grad, perm, shape, first)


HOSTILE = {
    "one_hot: dimension": lambda: torch_npu.npu_one_hot(torch.zeros(3).int().npu(), 5, 2),
    "one_hot: depth": lambda: torch_npu.npu_one_hot(torch.zeros(3).int().npu(), -1, -2),
    "repeats": lambda: torch.ops.npu.repeat_interleave_backward_int(torch.ones(4).npu(), torch.ones(2).npu(), 0),
    "fft: dimensions": lambda: torch.ops.npu.fft_c2r_backward(torch.ones(4).npu(), [], 0),
    "convolution": lambda: torch_npu.npu_convolution(
        torch.ones(4).npu(), torch.ones(1, 1, 1).npu(), None, [1], [0], [1], 1
    ),
    "attention: columns": lambda: torch_npu.npu_fusion_attention(*[torch.ones(1, 2, 0).npu()] * 3, 2, "BSH"),
    "anti_quant: a number": lambda: torch_npu.npu_anti_quant(torch.ones(()).int().npu(), torch.ones(1).npu()),
    "quantize: a number": lambda: torch.ops.npu._quantize_per_tensor_impl.out(
        torch.ones(()).npu(), torch.ones(4).npu(), torch.ones(3, 4).npu(), torch.qint8, result=torch.ones(4).npu()
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_index_that_does_not_exist(name: str) -> None:
    with pytest.raises((IndexError, RuntimeError, ValueError)) as error:
        HOSTILE[name]()
    assert not isinstance(error.value, torch.AcceleratorError)
    assert not any(word in str(error.value) for word in ("vector::", "bad_alloc", "length_error"))
    torch.npu.synchronize()
