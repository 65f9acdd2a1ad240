"""Operands that do not fit each other: an error that names one, where a kernel would read or write behind them."""

from __future__ import annotations

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


AT_THE_CALL = {
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
    "a gradient without rows": (lambda: layernorm_grad(grad=(0, 8)), "must have the same sizes"),
    "a short mean": (lambda: layernorm_grad(mean=(1, 1)), "mean .*elements"),
    "a short rstd": (lambda: layernorm_grad(rstd=(3, 1)), "rstd .*elements"),
    "a long shape": (lambda: layernorm_grad(shape=(2, 4, 8)), "normalized_shape .* is longer than the sizes of input"),
}


@pytest.mark.parametrize("case", AT_THE_CALL)
def test_the_call_refuses(case):
    call, message = AT_THE_CALL[case]
    with pytest.raises(RuntimeError, match=message):
        call()
    assert ones(3).sum().item() == 3


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
}


@pytest.mark.parametrize("case", ON_THE_STREAM)
def test_the_kernel_refuses(case):
    call, message = ON_THE_STREAM[case]
    with pytest.raises(RuntimeError, match=message):
        call()
        torch.npu.synchronize()
    assert ones(3).sum().item() == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", [0, 3])
def test_queries_without_keys_see_nothing(dtype, mode):
    q, k, v = (torch.randn(rows, 2, 8, device="npu").to(dtype).requires_grad_() for rows in (10, 11, 11))
    mask = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1) if mode else None
    ends = {"actual_seq_qlen": [3, 8, 10], "actual_seq_kvlen": [4, 4, 11]}
    out, most, total, *_ = torch_npu.npu_fusion_attention(
        q, k, v, 2, "TND", scale=0.3, sparse_mode=mode, atten_mask=mask, **ends
    )
    out.sum().backward()
    for nothing in (out[3:8], most[3:8], total[3:8], q.grad[3:8]):
        assert nothing.count_nonzero().item() == 0
    assert out[:3].count_nonzero().item() > 0 and torch.isfinite(k.grad).all().item()


@pytest.mark.parametrize("layout", ["BNSD", "BSH", "SBH", "BSND"])
def test_no_keys_at_all(layout):
    sizes = {"BNSD": (2, 2, -1, 8), "BSH": (2, -1, 16), "SBH": (-1, 2, 16), "BSND": (2, -1, 2, 8)}[layout]
    q, k, v = (torch.randn([rows if s < 0 else s for s in sizes]).npu().requires_grad_() for rows in (3, 0, 0))
    out = torch_npu.npu_fusion_attention(q, k, v, 2, layout)[0]
    out.sum().backward()
    assert out.shape == q.shape and out.count_nonzero().item() == q.grad.count_nonzero().item() == 0
    assert k.grad.shape == k.shape
