"""What the C++ generator makes of npu graphs: values, dtypes and strides as eager on the CPU gives them."""

from __future__ import annotations

import operator
import re

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.scheduler import Scheduler
from torch._inductor.utils import run_and_get_code
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.core.tools import run
from tests.inductor import compiler
from torch_npu._inductor import launch, scheduling

F = nn.functional


def pitfalls(x, t, i, b):
    """Each line is an operator that Inductor lowers or fuses in another way for a device that is not "cpu"."""
    return {
        "argmax": x.t().argmax(),
        "argmin": x.t().argmin(keepdim=True),
        "argmax of a permuted view": t.permute(2, 0, 1).argmax(),
        "argmax of a slice": x[1:, 2:].argmin(),
        "argmax of int8": b.t().argmax(),
        "argmax, one dim": x.t().argmax(1, keepdim=True),
        "max": x.t().max(0),
        "indirect": x.exp()[i] * 2,
        "reindexed": (x.sin() * x.sum(1, keepdim=True)).t().contiguous().sum(0),
        "transposed write": (x.t().contiguous() + 1) * x.t(),
        "var": x.var(1, correction=0),
        "var of much": t.reshape(2, -1).var(1),
        "constant": x / 3,
        "remainder": i // 7 + i % 3,
        "cat": torch.cat([b, b + 1], 1),
        "pool": F.max_pool2d(t[None], 2),
        "softmax": x.softmax(-1) + x.log_softmax(0),
        "norm": F.layer_norm(x, x.shape[1:]),
        "where": torch.where(x > 0, x, -x.abs().sqrt()),
        "cumsum": x.cumsum(1),
    }


def inputs():
    torch.manual_seed(0)
    return (
        torch.randn(24, 36),
        torch.randn(8, 12, 1100),
        torch.randint(0, 24, (17,)),
        torch.randint(-100, 100, (4, 40), dtype=torch.int8),
    )


def test_each_pitfall_of_a_device_that_is_not_the_cpu():
    compiler.same_as_cpu(pitfalls, *inputs(), rtol=1e-5, atol=1e-5)


def test_fusions_that_are_not_made_for_this_generator_are_not_tried(monkeypatch):
    tried = []
    for name in ("_try_reorder_loops_for_candidates", "_try_reindex_pointwise_for_reduction"):
        monkeypatch.setattr(Scheduler, name, lambda *_, name=name: tried.append(name) or -1)
    invert = "shared_data_after_inverting_indexing"
    monkeypatch.setattr(Scheduler, invert, lambda *_: tried.append(invert) or -1)
    monkeypatch.setattr(launch, "compile_kernel", lambda *_: lambda *_: None)
    x = torch.randn(64, 96, device="npu")
    with config.patch(force_disable_caches=True):
        torch.compile(lambda x: (x.t().contiguous() + 1, x.sum(1), (x[:, ::2] * 2).contiguous()))(x)
    assert tried == []


@pytest.mark.parametrize("setting", ["combo_kernels", "benchmark_fusion"])
def test_a_setting_of_fusion_that_this_generator_lacks_is_as_on_the_cpu(setting, monkeypatch):
    monkeypatch.setattr(launch, "compile_kernel", lambda *_: lambda *_: None)
    x, y = torch.randn(64, 96, device="npu"), torch.randn(7, 9, device="npu")
    with config.patch({setting: True, "force_disable_caches": True}):
        _, code = run_and_get_code(torch.compile(lambda x, y: (x + 1, (y * 2).sum(1) + 1)), x, y)
    assert "compile_npu_kernel(async_compile" in code[0]


def test_a_result_in_a_half_type_that_is_stored_twice():
    compiler.same_as_cpu(lambda x: (x.amax(0), x.max(0), x.sum(1), x.sum(1).float()), torch.randn(37, 53).half())


@pytest.mark.full
def test_flex_attention_and_its_gradients():
    bias = torch.randn(4, device="npu")

    def function(q, k, v, mask):
        return flex_attention(
            q, k, v, lambda s, b, h, i, j: s + bias[h] * (i - j), block_mask=mask, enable_gqa=True, return_lse=True
        )

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 48, 48, device="npu")
    parts = [torch.randn(2, heads, 48, 16, device="npu") for heads in (4, 2, 2)]
    results = []
    for step in (function, torch.compile(function, fullgraph=True)):
        leaves = [part.clone().requires_grad_() for part in parts]
        out, lse = step(*leaves, mask)
        (out.square().sum() + lse.sum()).backward()
        results.append([out, lse, *(leaf.grad for leaf in leaves)])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-4)
        assert compiled.stride() == eager.stride()


@pytest.mark.full
def test_half_types():
    def function(x):
        return (x * 2 + x.sin()).sum(0) + F.gelu(x).amax(0)

    x = torch.randn(32, 48).bfloat16()
    for dtype, tolerance in ((torch.float16, 2e-3), (torch.bfloat16, 1e-2)):
        found = torch.compile(function, fullgraph=True)(x.to("npu", dtype))
        assert found.dtype == dtype
        # Inside a kernel the numbers are float32's: one rounding, at the end.
        torch.testing.assert_close(found.cpu().float(), function(x.float()), rtol=tolerance, atol=tolerance)


def test_dynamic_shapes():
    def function(x, y):
        return (x * y).relu().sum(-1), torch.cat([x, y], -1) / x.shape[0]

    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for shape in ((3, 5), (40, 70), (7, 1), (300, 500)):
        compiler.same_as_cpu(function, torch.randn(shape), torch.randn(shape), compiled=compiled, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("forced", [False, True])
def test_convolutions_take_images_and_weights_as_they_are(forced):
    """By their sizes Inductor gives a GPU's convolutions channels-last tensors. Forced, a kernel turns them round."""
    weights = [torch.randn(96, 80, 3, 3), torch.randn(80, 96, 3, 3)]

    def function(x, first, second):
        return F.conv2d(F.conv2d(x, first, padding=1), second)

    args = compiler.on("npu", [torch.randn(2, 80, 6, 6), *weights])
    with config.patch(force_layout_optimization=forced):
        found, (code,) = run_and_get_code(torch.compile(function, fullgraph=True), *args)
    assert code.count("extern_kernels.convolution(") == 2
    assert ("compile_npu_kernel(" in code) == forced
    torch.testing.assert_close(found, function(*args), rtol=1e-4, atol=1e-2)
    assert found.stride() == function(*args).stride()


@pytest.mark.full
@pytest.mark.parametrize("optimize", [True, False])
def test_convolution_in_channels_last(optimize):
    weight, bias = torch.randn(96, 70, 3, 3), torch.randn(96)

    def function(x, w, b):
        return F.conv2d(x, w, b, padding=1).relu() * 2

    x = torch.randn(2, 70, 9, 8)
    with config.patch(layout_optimization=optimize):
        for layout in (torch.contiguous_format, torch.channels_last):
            args = (x.to(memory_format=layout), weight, bias)
            on_npu = compiler.on("npu", args)
            found = torch.compile(function, fullgraph=True)(*on_npu)
            torch.testing.assert_close(found.cpu(), function(*args), rtol=1e-4, atol=1e-3)
            assert found.stride() == function(*on_npu).stride()
            torch._dynamo.reset()


@pytest.mark.parametrize(("count", "chunk", "shared"), [(8000, 512, False), (40_000, 512, True), (8000, 500, True)])
def test_a_small_loop_is_not_shared_by_threads(count, chunk, shared):
    with config.patch({"cpp.min_chunk_size": chunk, "cpp.threads": 2}):
        x = torch.randn(count)
        found, (code,) = run_and_get_code(torch.compile(lambda x: x.sin() + 1), x.npu())
    assert ("#pragma omp parallel" in code) == shared
    torch.testing.assert_close(found.cpu(), x.sin() + 1)


@pytest.mark.parametrize(
    ("function", "rows", "columns", "vectors"),
    [
        (lambda x: (x.sum(0), (x * x).amax(0)), (300,), 32, 4),
        (lambda x: (x * 2).sum((0, 1)), (70, 70), 128, 4),  # so many that sums are summed in steps
        (lambda x: x.sum(0), (2000,), 16, 2),  # with 4, threads would share the rows
        (lambda x: x.sum(1), (3, 300), 32, 4),
        (lambda x: x.sum(0), (300,), 31, 1),  # would leave a rest
        (lambda x: x.sum(0), (300,), 2, 1),  # too few parts for several threads
        (lambda x: x.sum(1), (300,), 32, 1),
        (lambda x: x.var(0), (2000,), 32, 1),
        (lambda x: x.double().sum(0), (300,), 32, 1),
    ],
)
def test_sums_of_columns_read_several_vectors_of_a_row(function, rows, columns, vectors):
    torch.manual_seed(0)
    x = torch.randn(*rows, columns * pick_vec_isa().nelements(), device="npu")
    with config.patch({"cpp.threads": 2}):
        found, (code,) = run_and_get_code(torch.compile(function, fullgraph=True), x)
    assert set(re.findall(r"VectorizedN<float,(\d)>", code)) == ({str(vectors)} if vectors > 1 else set())
    torch.testing.assert_close(found, function(x), rtol=1e-5, atol=1e-3)


def test_settings_are_those_of_before():
    names = [*scheduling.cures()]

    def settings():
        return [operator.attrgetter(name)(config) for name in names]

    before = settings()
    seen = []

    def spy(nodes):
        seen.append(settings())
        return nodes

    with config.patch(_post_fusion_custom_pass=spy):
        torch.compile(lambda x: x.sin() + 1)(torch.randn(9, device="npu"))
        torch.compile(lambda x: x.cos() + 1)(torch.randn(9))
    assert seen[-1] == before == settings()


def test_pooling_is_an_operator_also_where_the_table_was_copied_before():
    code = """
import torch
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.utils import run_and_get_code
select_decomp_table()
pool = torch.compile(lambda x: torch.nn.functional.max_pool2d(x, 2))
print("npu._max_pool2d.default(" in run_and_get_code(pool, torch.ones(1, 1, 4, 4, device="npu"))[1][0])
"""
    assert run(code).stdout == "True\n"
