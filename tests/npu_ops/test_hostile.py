"""Arguments and operands that would have a kernel read or write behind a tensor, divide by zero or ask for any memory
at all: an error that names one, at the call, or, where values decide, on the stream.
"""

from __future__ import annotations

import contextlib

import pytest
import torch

import torch_npu


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device="npu")


def deformed(kernel: list[int]):
    x, weight, offset = ones(1, 2, 4, 4), ones(2, 2, 3, 3), ones(1, 27, 2, 2)
    return torch_npu.npu_deformable_conv2d(x, weight, offset, None, kernel, [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1])


def layernorm_grad(grad=(4, 8), mean=(4, 1), rstd=(4, 1), shape=(8,)):
    return torch_npu.npu_layernorm_grad(ones(*grad), ones(4, 8), list(shape), ones(*mean), ones(*rstd), ones(8), None)


def cached(cos=(4, 32), sin=(4, 32), gamma=32, index=4):
    half = torch.float16
    return torch_npu.npu_qkv_rms_norm_rope_cache_functional(
        ones(4, 3 * 32, dtype=half),
        ones(32, dtype=half),
        ones(gamma, dtype=half),
        ones(*cos, dtype=half),
        ones(*sin, dtype=half),
        torch.arange(index, device="npu"),
        ones(4, 32, dtype=half),
        ones(2, 2, 4, 16, dtype=half),
        ones(2, 2, 4, 16, dtype=half),
        [1, 4, 3, 32],
        [1, 1, 1],
        cache_mode="PA_NZ",
    )


def index(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device="npu")


def rope_into_caches(columns: int):
    x, angles = ones(2, 3, 64), ones(2, 3, 1, columns)
    caches = [torch.zeros(2, 8, 1, 16, dtype=torch.int8, device="npu") for _ in range(2)]
    scale = ones(1, 16)
    torch_npu.npu_rope_quant_kvcache(x, angles, angles, *caches, index(0, 5), scale, scale, [32, 16, 16])


def anchors(size: list[int], stride: list[int]):
    return torch_npu.npu_anchor_response_flags(ones(3, 4), size, stride, 3)


def product_without_columns():
    a, b = ones(3, 0, dtype=torch.int8), ones(0, 4, dtype=torch.int8)
    return torch.ops.npu.npu_quant_matmul_gelu(a, b, ones(3), ones(4))


def loss_gradient(targets: int):
    scores = torch.zeros(5, 3, device="npu")
    torch_npu.npu_cross_entropy_loss_backward(ones(1), scores, index(*[0] * targets, dtype=torch.int64))


AT_THE_CALL = {
    "a gelu of no name": (lambda: torch_npu.npu_gelu_mul(ones(2, 8), approximate="x"), "approximate is none or tanh"),
    "a geglu of no number": (lambda: torch_npu.npu_geglu(ones(2, 8), approximate=5), "npu_geglu.*approximate.*5"),
    "an overlap of no number": (lambda: torch_npu.npu_iou(ones(2, 4), ones(2, 4), mode=2), "npu_iou.*mode.*2"),
    "lists of no kind": (
        lambda: torch_npu.npu_grouped_matmul([ones(2, 4)], [ones(4, 3)], group_list_type=9),
        "npu_grouped_matmul.*group_list_type.*9",
    ),
    "too few targets": (lambda: loss_gradient(4), "5 rows and 4 targets"),
    "fractions of places": (
        lambda: torch_npu.npu_scatter_nd_update_(ones(2, 3), ones(1, 1), ones(1, 3)),
        "npu_scatter_nd_update_.*indices",
    ),
    "fractions of classes": (lambda: torch_npu.npu_one_hot(ones(2), depth=3), "npu_one_hot.*input"),
    "no kernel_size": (lambda: deformed([]), "kernel_size must be two positive numbers, got \\[\\]"),
    "an empty kernel": (lambda: deformed([3, 0]), "kernel_size must be two positive numbers"),
    "cosines of three dimensions": (lambda: cached(cos=(4, 32, 1)), "cos .*dimensions"),
    "an odd cosine": (lambda: cached((4, 3), (4, 3)), "cos must have an even number of columns.*got 3"),
    "another sine": (lambda: cached(sin=(4, 16)), "sin .*dimension 1"),
    "another gamma": (lambda: cached(gamma=16), "k_gamma .*dimension 0"),
    "a short index": (lambda: cached(index=3), "index .*elements"),
    "rows without columns": (
        lambda: torch_npu.npu_dynamic_quant(
            ones(6, 0), smooth_scales=ones(2, 0), group_index=torch.tensor([3, 6], dtype=torch.int32).npu()
        ),
        "input must have columns, got sizes \\[6, 0\\]",
    ),
    "a sum without columns": (
        lambda: torch_npu.npu_add_rms_norm_dynamic_quant(ones(3, 0), ones(3, 0), ones(0)),
        "npu_add_rms_norm_dynamic_quant: x1 must have columns, got sizes \\[3, 0\\]",
    ),
    "a gradient without rows": (lambda: layernorm_grad(grad=(0, 8)), "must have the same sizes"),
    "a short mean": (lambda: layernorm_grad(mean=(1, 1)), "mean .*elements"),
    "a short rstd": (lambda: layernorm_grad(rstd=(3, 1)), "rstd .*elements"),
    "another shape": (
        lambda: layernorm_grad(shape=(4,)),
        "normalized_shape .* is not that of the last dimensions of input",
    ),
    "a rotation without elements": (
        lambda: torch_npu.npu_rotate_quant(ones(3, 2, dtype=torch.half), ones(0, 0, dtype=torch.half)),
        "npu_rotate_quant: rotation must have elements",
    ),
    "a long shape": (lambda: layernorm_grad(shape=(2, 4, 8)), "normalized_shape .* is longer than the sizes of input"),
    "a map of anchors without sizes": (lambda: anchors([], []), "npu_anchor_response_flags: .*stride"),
    "a map of anchors of one size": (lambda: anchors([10], [2]), "npu_anchor_response_flags: .*stride"),
    "a stride of zero": (lambda: anchors([10, 10], [0, 2]), "npu_anchor_response_flags: .*stride"),
    "a product without columns": (product_without_columns, "x1_scale must have"),
    "angles without columns": (lambda: rope_into_caches(0), "cos has no columns"),
    "a dimension of one_hot": (lambda: torch_npu.npu_one_hot(index(0, 0, 0), 5, 2), "Dimension out of range"),
    "a depth of one_hot": (lambda: torch_npu.npu_one_hot(index(0, 0, 0), -1, -2), "depth is -2"),
    "no repeats": (
        lambda: torch.ops.npu.repeat_interleave_backward_int(ones(4), ones(2), 0),
        "the gradient of 0 repeats",
    ),
    "no dimensions of a transform": (
        lambda: torch.ops.npu.fft_c2r_backward(ones(4), [], 0),
        "fft_c2r_backward: dim is empty",
    ),
    "a convolution of a row": (
        lambda: torch_npu.npu_convolution(ones(4), ones(1, 1, 1), None, [1], [0], [1], 1),
        "at least one more dimension, not",
    ),
    "attention without columns": (
        lambda: torch_npu.npu_fusion_attention(*[ones(1, 2, 0)] * 3, 2, "BSH"),
        "a head of the query has no columns",
    ),
    "a number to dequantize": (
        lambda: torch_npu.npu_anti_quant(ones(dtype=torch.int32), ones(1)),
        "tensor has no dimensions",
    ),
    "a number to quantize": (
        lambda: torch.ops.npu._quantize_per_tensor_impl.out(ones(), ones(4), ones(3, 4), torch.qint8, result=ones(4)),
        "tensor has no dimensions",
    ),
}


@pytest.mark.parametrize("case", AT_THE_CALL)
def test_the_call_refuses(case):
    call, message = AT_THE_CALL[case]
    with pytest.raises((IndexError, RuntimeError, ValueError), match=message) as error:
        call()
    assert not isinstance(error.value, torch.AcceleratorError)
    assert not any(word in str(error.value) for word in ("vector::", "bad_alloc", "length_error"))
    assert ones(3).sum().item() == 3


def test_a_gradient_of_rows_without_columns():
    x, gamma, rstd = ones(3, 0), ones(0), ones(3)
    dx, dgamma = torch.ops.npu._npu_rms_norm_backward_quant(x, x, rstd, gamma, ones(1))
    assert dx.shape == (3, 0) and dgamma.shape == (0,)
    with pytest.raises(RuntimeError, match="_npu_rms_norm_backward_quant: rstd must have"):
        torch.ops.npu._npu_rms_norm_backward_quant(x, x, ones(2), gamma, ones(1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_a_gradient_of_what_is_not_given_is_none(weighted: bool, biased: bool) -> None:
    def call(device: str) -> list:
        to = lambda *sizes: torch.ones(sizes, device=device)
        weight, bias = to(8) if weighted else None, to(8) if biased else None
        return list(torch_npu.npu_layernorm_grad(to(4, 8), to(4, 8), [8], to(4, 1), to(4, 1), weight, bias))

    for device in ("npu", "meta"):
        assert [g is not None for g in call(device)] == [True, weighted, biased]


@pytest.mark.parametrize("version", ["npu_fusion_attention", "npu_fusion_attention_v2"])
@pytest.mark.parametrize("layout", ["BNSD", "BSND"])
def test_statistics_of_values_without_columns(version: str, layout: str) -> None:
    """The result is empty, its statistics are not."""
    q, k = (torch.randn(1, 2, 2, 4).npu() for _ in range(2))
    call = getattr(torch_npu, version)
    full, most, total, *_ = call(q, k, k, 2, layout, scale=0.5)
    out, *statistics = call(q, k, k[..., :0], 2, layout, scale=0.5)[:3]
    assert out.shape == (1, 2, 2, 0) and full.numel() > 0
    assert torch.equal(statistics[0], most) and torch.equal(statistics[1], total)


def test_statistics_of_rows_of_nothing() -> None:
    """The mean of no squares is no number."""
    _, rstd = torch.ops.aten._fused_rms_norm(ones(3, 0), [0], None, None)
    assert rstd.shape == (3, 1) and rstd.isnan().all().item()


def test_gradients_of_no_attention_at_all() -> None:
    """Of a batch of none the sink's is zero, and not what its memory held."""
    q = torch.randn(0, 2, 3, 4).npu().requires_grad_()
    sink = torch.randn(2).npu().requires_grad_()
    torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", sink=sink)[0].sum().backward()
    assert sink.grad.shape == (2,) and not sink.grad.any().item()


def test_gradients_of_groups_of_no_samples() -> None:
    x, weight, bias = (t.requires_grad_() for t in (ones(0, 6, 5), ones(6), ones(6)))
    torch_npu.npu_group_norm_swish(x, 3, weight, bias)[0].sum().backward()
    assert x.grad.shape == x.shape
    for leaf in (weight, bias):
        assert torch.equal(leaf.grad.cpu(), torch.zeros(6))


@pytest.mark.parametrize("quant_mode", [-1, 1])
def test_places_of_no_tokens(quant_mode: int) -> None:
    """Of experts with a capacity, which have places with and without tokens."""
    found = torch_npu.npu_moe_init_routing_v2(
        ones(0, 2), index().reshape(0, 2), expert_capacity=2, expert_num=3, drop_pad_mode=1, quant_mode=quant_mode
    )
    assert found[0].shape == (3, 2, 2) and not found[0].any().item()
    assert found[1].numel() == 0


def test_a_place_that_is_nan_is_outside() -> None:
    x, weight, offset = ones(1, 2, 4, 4), ones(2, 2, 3, 3), torch.zeros(1, 27, 2, 2, device="npu")
    offset[:, 18:] = 1  # the factors of the samples
    args = [3, 3], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]
    offset[0, 0] = float("nan")
    out = torch_npu.npu_deformable_conv2d(x, weight, offset, None, *args)[0]
    assert torch.equal(out.cpu(), torch.full((1, 2, 2, 2), 16.0))  # one of the 9 samples of each channel


@pytest.mark.parametrize("shape", [[], [4]])
@pytest.mark.parametrize("device", ["npu", "meta"])
def test_a_shape_to_restore_has_two_members(shape: list[int], device: str) -> None:
    rows, index = torch.rand(8, 6, device=device), torch.arange(8, dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match=r"restore_shape is \[tokens, columns\], not"):
        torch.ops.npu.npu_moe_token_unpermute_with_routing_map(rows, index, shape)


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


def norm_backward(training: bool = True, **other: torch.Tensor):
    given = {"gradient": ones(2, 3, 4), "mean": ones(3), "var": ones(3), "save_mean": ones(3), "save_invstd": ones(3)}
    g = given | other
    statistics = (g["mean"], g["var"], g["save_mean"], g["save_invstd"])
    x, wanted = ones(2, 3, 4), [True, True, True]
    return torch.ops.aten.native_batch_norm_backward(g["gradient"], x, ones(3), *statistics, training, 1e-5, wanted)


def of_rows(mean: int, gradient: tuple[int, int] = (4, 8)):
    wanted = [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(
        ones(*gradient), ones(4, 8), [8], ones(mean, 1), ones(4, 1), ones(8), ones(8), wanted
    )


def init_routing(rows: list[int]):
    numbers = torch.tensor(rows, dtype=torch.int32).view(2, 2).npu()
    return torch_npu.npu_moe_init_routing(ones(2, 8), numbers, torch.zeros(2, 2, dtype=torch.int32).npu(), 2)


def group_quant(ends: list[int]):
    groups = torch.tensor(ends, dtype=torch.int32).npu()
    return torch_npu.npu_dynamic_quant(ones(6, 4), smooth_scales=ones(2, 4), group_index=groups)


def gathered(length: int):
    rows, cache = ones(6, 1, 4), ones(4, 2, 1, 4)
    return torch_npu.npu_gather_pa_kv_cache(cache, cache, index(0, 1).view(1, 2), index(length), rows, rows)


def re_routed(*counts: int):
    dtype = torch.int32 if max(counts) < 2**31 else torch.int64
    return torch_npu.npu_moe_re_routing(ones(4, 3), index(*counts, dtype=dtype).view(1, -1))


def repeated(*repeats: int):
    return torch.ops.npu.repeat_interleave_backward_tensor(ones(4), ones(2), index(*repeats, dtype=torch.int64))


ON_THE_STREAM = {
    "mean of too few rows": (lambda: of_rows(1), "mean must have 4 elements, got 1"),
    "a gradient of fewer rows": (lambda: of_rows(4, (3, 8)), "gradOut must have sizes \\[4, 8\\], got \\[3, 8\\]"),
    "running statistics": (lambda: norm_backward(False, mean=ones(2)), "runningMean must have 3 elements, got 2"),
    "saved statistics": (lambda: norm_backward(save_invstd=ones(1)), "saveInvstd must have 3 elements, got 1"),
    "a gradient of fewer channels": (lambda: norm_backward(gradient=ones(2, 2, 4)), "gradOut must have sizes"),
    "statistics to write": (
        lambda: torch.native_batch_norm(ones(2, 3, 4), None, None, ones(2), ones(2), True, 0.1, 1e-5),
        "runningMean must have 3 elements, got 2",
    ),
    "a negative row": (lambda: init_routing([-1, 0, 1, 2]), "rowIdx must be numbers from 0 to 3"),
    "a row twice": (lambda: init_routing([0, 0, 1, 2]), "rowIdx must name each row once"),
    "an end past the rows": (lambda: group_quant([3, 100]), "ends must ascend from 0 to 6"),
    "a descending end": (lambda: group_quant([6, 3]), "ends must ascend from 0 to 6"),
    # Before memory is asked for.
    "a length beyond the result": (lambda: gathered(2**31 - 1), "do not fit 6 rows"),
    "a count of tokens": (lambda: re_routed(3, 2**31 - 1), "negative or above 4"),
    "a negative count of tokens": (lambda: re_routed(-1, 5), "negative or above 4"),
    "counts whose sum overflows": (lambda: re_routed(2**62, 2**62), "negative or above 4"),
    "as many repeats as no memory holds": (lambda: repeated(2, 2**40), "size"),
}


@pytest.mark.parametrize("case", ON_THE_STREAM)
def test_the_kernel_refuses(case):
    call, message = ON_THE_STREAM[case]
    with pytest.raises(torch.AcceleratorError, match=message):
        call()
        torch.npu.synchronize()
    with contextlib.suppress(torch.AcceleratorError):  # a later part of the call may have met the error, too
        torch.npu.synchronize()
    assert ones(3).sum().item() == 3
