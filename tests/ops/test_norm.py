"""Normalization in 16-bit and mixed types: every layer, its gradients and its statistics against fp64 on the CPU."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.ops.compare import check

HALF, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
TOLERANCE = {HALF: 4e-3, BF16: 3e-2, F32: 2e-5}
# Input and parameters: of one type, or parameters in float32 beside a 16-bit input.
MIXES = [(HALF, HALF), (BF16, BF16), (HALF, F32), (BF16, F32), (F32, F32)]

LAYERS = {
    "layer": (lambda: nn.LayerNorm(6), (4, 5, 6)),
    "layer of two dimensions": (lambda: nn.LayerNorm((5, 6)), (4, 5, 6)),
    "layer without bias": (lambda: nn.LayerNorm(6, bias=False), (4, 6)),
    "layer without weight": (lambda: nn.LayerNorm(6, elementwise_affine=False), (4, 6)),
    "group": (lambda: nn.GroupNorm(2, 4), (3, 4, 5, 5)),
    "group without weight": (lambda: nn.GroupNorm(2, 4, affine=False), (3, 4, 7)),
    "batch": (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "batch of vectors": (lambda: nn.BatchNorm1d(4), (6, 4)),
    "batch without weight": (lambda: nn.BatchNorm2d(4, affine=False), (3, 4, 5, 5)),
    "batch without statistics": (lambda: nn.BatchNorm2d(4, track_running_stats=False), (3, 4, 5, 5)),
    "batch without either": (lambda: nn.BatchNorm1d(4, affine=False, track_running_stats=False), (6, 4)),
    "instance": (lambda: nn.InstanceNorm2d(4), (3, 4, 5, 5)),
    "instance with weight": (lambda: nn.InstanceNorm2d(4, affine=True), (3, 4, 5, 5)),
    "instance with statistics": (lambda: nn.InstanceNorm1d(4, track_running_stats=True), (3, 4, 9)),
    "instance with both": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (3, 4, 5, 5)),
    "root mean square": (lambda: nn.RMSNorm(6), (4, 6)),
}


def close(actual: torch.Tensor | None, expected: torch.Tensor | None, dtype: torch.dtype, what: str) -> None:
    """Relative to the largest value: a gradient's small elements are differences of large ones."""
    if expected is None:
        assert actual is None, what
        return
    difference = (actual.detach().cpu().double() - expected.detach().double()).abs().max().item()
    assert difference <= TOLERANCE[dtype] * max(1.0, expected.detach().abs().max().item()), f"{what}: {difference}"


def agree(module: nn.Module, x: torch.Tensor, dtype: torch.dtype, parameters: torch.dtype, what: str) -> None:
    reference = copy.deepcopy(module).to(parameters).double()
    module = copy.deepcopy(module).to(parameters).npu()
    format = torch.channels_last if x.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format
    a = x.to(dtype).npu().detach().requires_grad_()
    b = x.to(dtype).double().requires_grad_()
    got, wanted = module(a), reference(b)
    assert got.dtype == dtype and (x.dim() != 4 or got.is_contiguous(memory_format=format)), what
    seed = torch.randn(got.shape).to(dtype)
    got.backward(seed.npu())
    wanted.backward(seed.double())
    close(got, wanted, dtype, f"{what}: result")
    close(a.grad, b.grad, dtype, f"{what}: gradient")
    named = zip(module.named_parameters(), reference.named_parameters(), strict=True)
    for (name, p), (_, q) in named:
        assert p.grad.dtype == parameters
        close(p.grad, q.grad, dtype, f"{what}: gradient of {name}")
    for (name, p), (_, q) in zip(module.named_buffers(), reference.named_buffers(), strict=True):
        close(p, q, max(parameters, dtype, key=TOLERANCE.get), f"{what}: {name}")


@pytest.mark.parametrize("name", LAYERS)
def test_layers_in_every_mix_of_types(name: str) -> None:
    make, shape = LAYERS[name]
    x = torch.randn(shape) * 2 + 0.5
    inputs = [x, x.contiguous(memory_format=torch.channels_last)] if x.dim() == 4 and "instance" not in name else [x]
    for (dtype, parameters), training, value in itertools.product(MIXES, (True, False), inputs):
        if name == "root mean square" and dtype != parameters:
            continue  # torch promotes the result there
        module = make().train(training)
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(torch.rand_like(p) + 0.5)
            for p in module.buffers():
                if p.is_floating_point():
                    p.copy_(torch.rand_like(p) + 0.5)
        agree(module, value, dtype, parameters, f"{name}, {dtype}, {parameters}, training={training}, {value.stride()}")


def test_statistics_of_16_bit_inputs_are_float32() -> None:
    x, w = (torch.randn(64, 256) + 10).to(BF16), torch.ones(256, dtype=BF16)
    for weight in (w.npu(), None):
        _, mean, rstd = torch.ops.aten.native_layer_norm(x.npu(), [256], weight, None, 1e-5)
        torch.testing.assert_close(mean.cpu(), x.float().mean(1, keepdim=True), rtol=1e-6, atol=0)
        torch.testing.assert_close(rstd.cpu(), x.float().var(1, False, keepdim=True).rsqrt(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", [HALF, BF16], ids=str)
def test_a_model_of_norms_trains(dtype: torch.dtype) -> None:
    """`model.half()` and bfloat16: the loss of a model made of all norms falls, as fp32's does on the CPU."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8)
            )
            self.back = nn.Sequential(nn.Linear(8 * 36, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.back(self.front(x).flatten(1))

    torch.manual_seed(1)
    model, x, y = Model(), torch.randn(16, 3, 6, 6), torch.randint(4, (16,))

    def losses(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[float]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        found = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).float(), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    got = losses(copy.deepcopy(model).to(dtype).npu(), x.to(dtype).npu(), y.npu())
    wanted = losses(model, x, y)
    assert all(abs(a - b) < 0.1 * wanted[0] for a, b in zip(got, wanted, strict=True)), (got, wanted)
    assert got[-1] < 0.7 * got[0]


@pytest.mark.parametrize("dtype,parameters", MIXES, ids=str)
def test_parts_of_sync_batch_norm(dtype: torch.dtype, parameters: torch.dtype) -> None:
    """Two ranks' halves of a batch, put together by the five operators, are BatchNorm of the whole."""
    x, seed = (torch.randn(8, 3, 5) * 2 + 1).to(dtype), torch.randn(8, 3, 5).to(dtype)
    w, b = (torch.rand(3) + 0.5).to(parameters), torch.rand(3).to(parameters)
    mean, var = torch.rand(3).to(parameters), (torch.rand(3) + 0.5).to(parameters)
    reference = [t.double().requires_grad_() for t in (x, w, b)]
    m, v = mean.double(), var.double()
    wanted = F.batch_norm(reference[0], m, v, reference[1], reference[2], True, 0.1, 1e-5)
    wanted.backward(seed.double())

    a = torch.ops.aten
    parts, seeds = [t.npu() for t in (x[:3], x[3:])], [t.npu() for t in (seed[:3], seed[3:])]
    w, b, mean, var = w.npu(), b.npu(), mean.npu(), var.npu()
    stats = [torch.batch_norm_stats(t, 1e-5) for t in parts]
    counts = torch.tensor([15.0, 25.0]).npu()
    means, invstds = torch.stack([s[0] for s in stats]), torch.stack([s[1] for s in stats])
    all_mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], means, invstds, mean, var, 0.1, 1e-5, counts.to(means.dtype)
    )
    y = [torch.batch_norm_elemt(t, w, b, all_mean, invstd, 1e-5) for t in parts]
    close(torch.cat(y), wanted, dtype, "result")
    close(mean, m, dtype, "running mean")
    close(var, v, dtype, "running variance")
    sums = [
        a.batch_norm_backward_reduce(g, t, all_mean, invstd, w, True, True, True)
        for g, t in zip(seeds, parts, strict=True)
    ]
    dy, dy_xmu = sum(s[0] for s in sums), sum(s[1] for s in sums)
    count = counts.int()
    grads = [
        a.batch_norm_backward_elemt(g, t, all_mean, invstd, w, dy, dy_xmu, count)
        for g, t in zip(seeds, parts, strict=True)
    ]
    close(torch.cat(grads), reference[0].grad, dtype, "gradient")
    close(sum(s[2] for s in sums), reference[1].grad, dtype, "gradient of weight")
    close(sum(s[3] for s in sums), reference[2].grad, dtype, "gradient of bias")


def test_sync_batch_norm_in_fp64() -> None:
    x = torch.randn(64, 2, 3, dtype=torch.float64) + 1e4
    mean, invstd = torch.batch_norm_stats(x.npu(), 0.0)
    torch.testing.assert_close(mean.cpu(), x.mean((0, 2)), rtol=1e-13, atol=0)
    torch.testing.assert_close(invstd.cpu(), x.var((0, 2), False).rsqrt(), rtol=1e-9, atol=0)


def test_statistics_that_are_only_read_may_repeat_or_be_a_part_of_the_input() -> None:
    def results(device: str) -> list[torch.Tensor]:
        x = torch.arange(1.0, 65.0).reshape(8, 8).to(device)
        one = torch.tensor([2.0], device=device).expand(8)
        return [F.batch_norm(x, *given).cpu() for given in ((one, one), (x[0], x[1]))]

    for found, expected in zip(results("npu"), results("cpu"), strict=True):
        torch.testing.assert_close(found, expected)


def test_mixes_that_the_cpu_refuses_are_refused() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="mixed dtype|expected scalar type"):
        F.batch_norm(x.npu(), None, None, torch.ones(4).half().npu(), None, True)
    with pytest.raises(RuntimeError):
        F.layer_norm(x.npu(), (4,), torch.ones(4).half().npu())


def test_rms_norm_leaves_its_input() -> None:
    check(F.rms_norm, torch.randn(3, 4), (4,), torch.rand(4))


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
def test_rms_norm_and_its_gradients(dtype: torch.dtype, weighted: bool, eps: float | None) -> None:
    torch.manual_seed(0)
    x, w = (torch.randn(5, 3, 4, 6) * 1e-2).to(dtype), torch.randn(4, 6).to(dtype)
    dy = torch.randn(5, 3, 4, 6).to(dtype)
    results = []
    for device in ("npu", "cpu"):
        leaves = [t.to(device).detach().requires_grad_() for t in ((x, w) if weighted else (x,))]
        out = F.rms_norm(leaves[0], (4, 6), leaves[1] if weighted else None, eps)
        results.append([out, *torch.autograd.grad(out, leaves, dy.to(device))])
    half = dtype in (torch.float16, torch.bfloat16)
    for got, wanted in zip(*results, strict=True):
        assert got.dtype == wanted.dtype
        limit = 4 * torch.finfo(dtype).eps if half else 1e-5
        torch.testing.assert_close(got.cpu(), wanted, rtol=limit, atol=limit * wanted.abs().max().item())


def test_rms_norm_is_one_kernel_each_way_and_has_second_derivatives() -> None:
    x, w = torch.randn(3, 8).npu().requires_grad_(), torch.rand(8).npu().requires_grad_()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        F.rms_norm(x, (8,), w, 1e-6).sum().backward()
    names = {event.key for event in seen.key_averages()}
    assert {"aten::_fused_rms_norm", "aten::_fused_rms_norm_backward"} <= names and "aten::rsqrt" not in names
    x, w = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda a, b: F.rms_norm(a, (8,), b, 1e-6), (x, w))


@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm_of_sizes_that_a_trace_leaves_open(weighted: bool) -> None:
    def step(x: torch.Tensor, w: torch.Tensor | None) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), w)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (4, 6, 8):
        x = torch.randn(2, n).npu().requires_grad_()
        w = torch.rand(n).npu() if weighted else None
        got, wanted = compiled(x, w), step(x, w)
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), x) for y in (got, wanted)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_tangent_of_rms_norm_has_the_type_of_its_result(weighted: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(3, 8).to(dtype), torch.rand(8).to(dtype)
    results = []
    for device in ("cpu", "npu"):
        with torch.autograd.forward_ad.dual_level():
            duals = [torch.autograd.forward_ad.make_dual(t.to(device), torch.ones_like(t).to(device)) for t in (x, w)]
            result = F.rms_norm(duals[0], (8,), duals[1] if weighted else None)
            results.append(torch.autograd.forward_ad.unpack_dual(result))
    assert results[1].primal.dtype == results[1].tangent.dtype == dtype
    torch.testing.assert_close(results[1].primal.cpu(), results[0].primal)
    limit = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(results[1].tangent.cpu(), results[0].tangent, rtol=limit, atol=limit)


def test_rms_norm_of_two_types_is_the_composition() -> None:
    x, w, always = torch.randn(3, 8).half(), torch.rand(8), torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # PyTorch says it once in a process, and another test may have been told
    try:
        with pytest.warns(UserWarning, match="Mismatch dtype"):
            got = F.rms_norm(x.npu(), (8,), w.npu())
    finally:
        torch.set_warn_always(always)
    torch.testing.assert_close(got.cpu(), F.rms_norm(x, (8,), w))
