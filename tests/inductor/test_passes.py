"""Graphs on the npu before they are lowered, and what becomes of them where no library runs kernels."""

from __future__ import annotations

import copy
from unittest import mock

import pytest
import torch
from torch import nn
from torch._inductor import config, lowering
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.utils import run_and_get_code
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree

from tests.dynamo.counting import counted
from tests.inductor import compiler
from torch_npu._inductor import choices, passes

aten = torch.ops.aten


def test_a_cached_kernel_is_for_as_many_threads():
    before, npu = torch.get_num_threads(), passes.NpuGraphPass()
    try:
        keys = []
        for threads in (1, 3, 1):
            torch.set_num_threads(threads)
            keys.append(npu.uuid())
    finally:
        torch.set_num_threads(before)
    assert keys[0] == keys[2] != keys[1]


def test_arg_reductions_of_all_dimensions_are_of_one():
    x = torch.randn(4, 6, device="npu").t()
    graph = make_fx(lambda x: (x.argmax(), x.argmin(None, True), x.argmax(1)), tracing_mode="fake")(x)
    passes.NpuGraphPass()(graph)
    calls = graph.graph.find_nodes(op="call_function", target=aten.argmax.default)
    assert [node.args[1] for node in calls] == [0, 1]
    for ours, theirs in zip(graph(x), (x.argmax(), x.argmin(None, True), x.argmax(1)), strict=True):
        assert ours.equal(theirs)


def codes(function, *args, **how):
    """What is generated for the npu, and for the CPU, which of its own is not compiled."""
    with mock.patch.object(AsyncCompile, "cpp_pybinding", lambda *_: lambda *_: None):
        codes = [
            run_and_get_code(torch.compile(function, **how), *given)[1] for given in (compiler.on("npu", args), args)
        ]
    assert all(len(code) == 1 for code in codes)
    return [code for (code,) in codes]


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x, w: ((s := torch.sigmoid(x)).sum(0), s.sum(1)), "exp("),
        (lambda x, w: ((s := F.silu(x)).sum(0), s.sum(1)), "exp("),
        (lambda x, w: ((s := F.softplus(x)).sum(0), s.sum(1)), "log1p("),
        (lambda x, w: ((s := F.gelu(x, approximate="tanh")).sum(0), s.sum(1)), "tanh("),
        (lambda x, w: ((s := F.silu(x.half()).t()) * 2, (s + 1).sum(1)), "exp("),
        (lambda x, w: ((s := torch.sigmoid(x).chunk(2))[0] * 2, s[0] + 1, s[1] * s[0]), "exp("),
        (lambda x, w: x * torch.sigmoid(w), "exp("),
        (lambda x, w: x * torch.sigmoid(w).unsqueeze(0), "exp("),
        (lambda x, w: ((s := torch.sigmoid(x).flip(1)).sum(0), s.sum(1)), "exp("),
        (lambda x, w: ((s := F.pad(torch.sigmoid(x), (1, 2))).sum(0), s.sum(1)), "exp("),
        (lambda x, w: ((s := torch.sigmoid(x)[:, w.argsort()]).sum(0), s.sum(1)), "exp("),
        (lambda x, w: torch.sigmoid(w).unfold(0, 16, 2) + 1, "exp("),
        (lambda x, w: x / torch.exp(w.sum()), "exp("),
    ],
)
def test_what_is_heavy_is_computed_as_often_as_for_the_cpu(function, word):
    torch.manual_seed(0)
    given = torch.randn(32, 64), torch.randn(64)
    ours, cpus = ([code.count(text) for text in (word, "out_ptr")] for code in codes(function, *given))
    assert ours == cpus and cpus[0] > 0
    # Compiled for either device a half is rounded once, by eager operators after each: a unit in the last place.
    halves = any(t.dtype == torch.half for t in pytree.tree_leaves(function(*given)))
    compiler.same_as_cpu(function, *given, **({"rtol": 2**-9, "atol": 2**-9} if halves else {}))


def test_what_is_heavy_and_used_once_is_not_kept():
    def function(x):
        return (torch.sigmoid(x) + 1).sum(1)

    graph = make_fx(function, tracing_mode="fake")(torch.randn(4, 6, device="npu"))
    passes.NpuGraphPass()(graph)
    assert not graph.graph.find_nodes(op="call_function", target=choices.kept)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_convolution_adds_its_bias_itself(layout):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 3, 8, 8).to(memory_format=layout), torch.randn(4, 3, 3, 3), torch.randn(4)

    def function(x, weight, bias):
        return F.max_pool2d(F.conv2d(x, weight, bias, padding=1), 2), F.conv2d(x, weight, None, stride=2)

    code, _ = codes(function, x, weight, bias)
    assert code.count("bias=None") == 1
    given = compiler.on("npu", (x, weight, bias))
    for found, eager in zip(torch.compile(function)(*given), function(*given), strict=True):
        torch.testing.assert_close(found, eager, rtol=1e-4, atol=1e-4)
        assert found.stride() == eager.stride()


def long_chain(x):
    """More operations than a device that is not the CPU fuses into one expression, and not too many for the CPU."""
    for _ in range(13):
        x = (x + 1).abs() * 0.5
    return x.sum(0), x.sum(1)


def much_read(*tensors):
    return sum(tensors).flip(0) + 1


@pytest.mark.parametrize(("function", "count"), [(long_chain, 1), (much_read, 10)])
def test_as_much_is_fused_as_for_the_cpu(function, count):
    torch.manual_seed(0)
    given = [torch.randn(32, 48) for _ in range(count)]
    ours, cpus = (code.count("out_ptr") for code in codes(function, *given))
    assert ours == cpus
    compiler.same_as_cpu(function, *given, rtol=1e-5, atol=1e-5)
    with config.patch(realize_opcount_threshold=8, realize_acc_reads_threshold=4):  # what the user sets stays
        torch._dynamo.reset()
        ours, cpus = (code.count("out_ptr") for code in codes(function, *given))
    assert ours == cpus


def test_thresholds_are_those_of_before_also_when_lowering_fails(monkeypatch):
    seen = []

    def fails(*_):
        seen.append((config.realize_opcount_threshold, config.realize_acc_reads_threshold))
        raise RuntimeError("not lowered")

    monkeypatch.setitem(lowering.lowerings, aten.asinh.default, fails)
    with pytest.raises(Exception, match="not lowered"):
        torch.compile(torch.asinh)(torch.ones(3, device="npu"))
    with pytest.raises(Exception, match="not lowered"):
        torch.compile(torch.asinh)(torch.ones(3))
    assert seen == [(50, 12), (None, None)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_variance_of_few_numbers_takes_two_passes(dynamic):
    def function(x, w):
        return F.layer_norm(x, (64,), w), x.var(-1), x.std(-1), torch.var_mean(x, 1, correction=0, keepdim=True)

    x, w = torch.randn(32, 64), torch.randn(64)
    ours, cpus = codes(function, x, w, dynamic=dynamic)
    assert "welford" not in ours and "welford" not in cpus
    for rows in (32, 5) if dynamic else (32,):
        compiler.same_as_cpu(function, torch.randn(rows, 64), w, compiled=torch.compile(function, dynamic=dynamic))


def test_variance_of_many_numbers_stays_welfords():
    ours, cpus = codes(lambda x: (x.var(1), x.std()), torch.randn(32, 1025))
    assert ours.count("welford_combine(") == cpus.count("welford_combine(") > 0


def scattering(adds):
    """Whether each of them is an operator, where threads are several."""
    x, index = torch.zeros(4, device="npu"), torch.zeros(4, device="npu", dtype=torch.int64)
    graph = make_fx(lambda x, index: [add(x, index) for add in adds], tracing_mode="fake")(x, index)
    with config.patch({"cpp.dynamic_threads": True}):
        passes.NpuGraphPass()(graph)
    nodes = [node for node in graph.graph.nodes if "scatter" in node.name]
    return [node.target is choices.added for node in nodes]


def test_additions_that_scatter_are_operators_where_threads_are_several():
    assert (
        scattering(
            [
                lambda x, index: x.scatter_reduce(0, index, x, "sum"),
                lambda x, index: x.scatter_add(0, index, x),
                lambda x, index: x.scatter(0, index, x, reduce="add"),
            ]
        )
        == [True] * 3
    )
    assert (
        scattering(
            [
                lambda x, index: x.scatter_reduce(0, index, x, "amax"),
                lambda x, index: x.scatter(0, index, x, reduce="multiply"),
                lambda x, index: x.scatter(0, index, 2.0, reduce="add"),
                lambda x, index: x.scatter(0, index, x),
            ]
        )
        == [False] * 4
    )


def test_additions_that_scatter_are_rounded_once():
    given = torch.zeros(2, dtype=torch.half), torch.zeros(4096, dtype=torch.int64), torch.ones(4096, dtype=torch.half)
    with config.patch({"cpp.threads": 1}):
        found = torch.compile(lambda x, index, source: x.scatter_add(0, index, source))(*compiler.on("npu", given))
    assert found.tolist() == [4096, 0]  # 2048, one at a time: there, 2048 + 1 is 2048


def test_what_inductor_leaves_to_operators_is_left_to_them():
    """Complex numbers, which its loops do not have."""

    def function(x, index):
        y = (x * 2).exp()
        return y.var(1), x.scatter_add(0, index, y), y * 2, y.sum(0)

    x, index = torch.randn(3, 4, dtype=torch.complex64, device="npu"), torch.zeros(3, 4, dtype=torch.int64).npu()
    with config.patch({"cpp.dynamic_threads": True}):
        found = torch.compile(function, fullgraph=True)(x, index)
    for ours, theirs in zip(found, function(x, index), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("include_self", [True, False])
def test_additions_that_scatter_are_the_cpus(include_self):
    def function(x, index, source):
        reduced = x.scatter_reduce(0, index, source, "sum", include_self=include_self)
        return reduced * 2, x.scatter_add(0, index, source), x.clone().scatter_add_(0, index, source)

    x, index, source = torch.randn(5, 8), torch.randint(3, (40, 8)), torch.randn(40, 8)
    with config.patch({"cpp.dynamic_threads": True}):
        compiler.same_as_cpu(function, x, index, source)


def test_without_generated_code_a_graph_is_operators():
    x = torch.randn(4, 6, device="npu")
    with config.patch(disable_cpp_codegen=True, force_disable_caches=True):
        found, (code,) = run_and_get_code(torch.compile(lambda x: (x * 2).exp().sum(1)), x)
    assert "cpp_fused" not in code and found.equal((x * 2).exp().sum(1))


def test_without_generated_code_random_numbers_are_drawn():
    x = torch.ones(1000, device="npu")
    with config.patch(disable_cpp_codegen=True, force_disable_caches=True):
        compiled = torch.compile(lambda x: (F.dropout(x), torch.rand_like(x), torch.randint_like(x, 5)))
        torch.manual_seed(1)
        first = compiled(x)
        again = compiled(x)
        torch.manual_seed(1)
        assert all(a.equal(b) for a, b in zip(first, compiled(x), strict=True))
    assert set(first[0].tolist()) == {0.0, 2.0} and not first[0].equal(again[0])
    assert 0 <= first[1].min() and first[1].max() < 1 and set(first[2].tolist()) == {0, 1, 2, 3, 4}


def test_graphs_on_the_cpu_stay(monkeypatch):
    graph = make_fx(lambda x: x.argmax(), tracing_mode="fake")(torch.randn(4, 6))
    before = str(graph.graph)
    passes.NpuGraphPass()(graph)
    assert str(graph.graph) == before


@pytest.fixture
def cann(monkeypatch):
    """A library that runs no kernels of the processor, as CANN's on an Ascend server."""
    monkeypatch.setattr(passes._C, "_runs_host_kernels", lambda: False)
    with config.patch(force_disable_caches=True):
        yield


def test_on_cann_a_graph_is_operators(cann):
    def step(x, index, total):
        total.add_(x)
        y = x.t().contiguous().softmax(0) + x.new_ones(3)[index].sum()
        return y, x.t().argmax(), torch.cat([x, x.half().float()])[1:], torch.ops.npu.npu_rms_norm(x, x[0], 1e-6)[0]

    compiled = torch.compile(step, fullgraph=True, dynamic=True)
    for rows in (4, 7):
        given = torch.randn(rows, 6).npu(), torch.tensor([2, 0]).npu()
        totals = [torch.ones(rows, 6).npu() for _ in range(2)]
        found, code = run_and_get_code(compiled, *given, totals[0])
        expected = step(*given, totals[1])
        assert all("cpp_fused" not in text and "compile_npu_kernel" not in text for text in code)
        for ours, theirs in zip((*found, totals[0]), (*expected, totals[1]), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
            assert ours.stride() == theirs.stride()


def test_on_cann_short_constants_stay_what_they_are(cann):
    def step(x):
        vector = torch.tensor([1.0, 2.0, 3.0], device="npu")
        order, host = torch.tensor([2, 0], device="npu"), torch.tensor([5, 6])
        return x * vector, x[:, order], x[:, torch.tensor([1, 1])], order, host, torch.tensor(2.0) * x, order[:0] + 1

    compiled, x = torch.compile(step, fullgraph=True), torch.randn(4, 3).npu()
    for _ in range(2):
        found, code = run_and_get_code(compiled, x)
        assert all("cpp_fused" not in text for text in code)
        for ours, theirs in zip(found, step(x), strict=True):
            assert ours.equal(theirs) and ours.device == theirs.device and ours.dtype == theirs.dtype
        found[3].zero_()  # the caller's own


def test_on_cann_weights_that_are_constants_are_not_copied(cann):
    model, x = nn.Linear(32, 16).npu().eval(), torch.randn(4, 32).npu()
    with torch.no_grad(), config.patch(freezing=True):
        found, code = run_and_get_code(torch.compile(model, fullgraph=True), x)
        torch.testing.assert_close(found, model(x), rtol=1e-5, atol=1e-5)
    assert code and all("lift_fresh_copy" not in text and "clone" not in text for text in code)


def test_on_cann_flex_attention_is_operators(cann):
    bias = torch.tensor([0.5, -0.25]).npu()
    q, k, v = (torch.randn(1, 2, 16, 8).npu().requires_grad_() for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="npu")

    def attend(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h] * (i - j), block_mask=mask)

    def plain(q, k, v):
        i = torch.arange(16)
        scores = q @ k.transpose(-1, -2) / 8**0.5 + bias.cpu().view(2, 1, 1) * (i[:, None] - i)
        return scores.masked_fill(i[:, None] < i, -torch.inf).softmax(-1) @ v

    def trained(function, tensors):
        result = function(*tensors)
        return result, *torch.autograd.grad(result.sin().sum(), tensors)

    found, code = run_and_get_code(trained, torch.compile(attend, fullgraph=True), (q, k, v))
    assert code and all("cpp_fused" not in text for text in code)
    expected = trained(plain, tuple(t.detach().cpu().requires_grad_() for t in (q, k, v)))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_on_cann_training_is_replayed(cann):
    layers = nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.Dropout(0.5), nn.Linear(6, 8)
    model = nn.Sequential(*layers).npu()
    plain = copy.deepcopy(model)
    step = torch.compile(model, mode="reduce-overhead")
    with config.patch(fallback_random=True), counted() as counts:
        for seed in range(4):
            x = torch.randn(3, 4, 8).npu()
            for function in (step, plain):
                function.zero_grad()
                torch.manual_seed(seed)
                function(x).square().mean().backward()
            for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    assert (counts.captures, counts.replays) == (2, 6)


@pytest.mark.parametrize(
    ("function", "settings", "said"),
    [
        (F.dropout, {}, r"CANN: random numbers .*fallback_random = True"),
        (torch.sin, {"cpp_wrapper": True}, "CANN: cpp_wrapper and AOTInductor"),
    ],
)
def test_on_cann_what_is_refused_is_named(cann, function, settings, said):
    with config.patch(settings), pytest.raises(Exception, match=said):
        torch.compile(lambda x: function(x))(torch.ones(8, device="npu"))


def test_on_cann_a_kernel_is_refused(cann):
    with pytest.raises(NotImplementedError, match=r'kernel for the processor.*backend="npugraphs"'):
        passes.refuse_without_host_kernels()
