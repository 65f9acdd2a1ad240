"""F.cross_entropy: one operator of the device for [N, C] and class indices, else the composition."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from tests.ops.test_scaled_dot_product import Called

FUSED = "npu::npu_cross_entropy_loss"
TYPES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
TARGET = [3, 0, -100, 6, 2]


def logits(dtype=torch.float32, rows=5, classes=7):
    return (3 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(1))).to(dtype)


def run(device, x, target, weight=None, **options):
    x = x.to(device).detach().requires_grad_()
    weight = None if weight is None else weight.to(device)
    with Called() as called:
        loss = F.cross_entropy(x, target.to(device), weight, **options)
        (grad,) = torch.autograd.grad((loss * torch.arange(1, loss.numel() + 1, device=device).view_as(loss)).sum(), x)
    return [loss, grad], FUSED in called.names


def check(fused, x, target, weight=None, tolerance=1e-5, **options):
    got, was_fused = run("npu", x, target, weight, **options)
    assert was_fused == fused
    assert got[0].dtype == got[1].dtype == x.dtype
    wanted, _ = run("cpu", x.double(), target, None if weight is None else weight.double(), **options)
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.cpu().double(), b, rtol=tolerance, atol=tolerance, equal_nan=True)


OPTIONS = list(itertools.product(("mean", "sum", "none"), (False, True), (0.0, 0.15, 1.0), (-100, 2, 0)))


@pytest.mark.parametrize("dtype", TYPES)
def test_every_option(dtype):
    weight = torch.tensor([0.5, 1, 2, 0, 1.5, 3, 0.25]).to(dtype)
    for reduction, weighted, smoothing, ignored in OPTIONS:
        target = torch.tensor(TARGET).where(torch.tensor(TARGET) >= 0, ignored)
        options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": ignored}
        check(True, logits(dtype), target, weight if weighted else None, TYPES[dtype], **options)


def test_many_rows_and_classes():
    x, target = logits(rows=300, classes=1031), torch.randint(1031, (300,))
    for smoothing in (0.0, 0.1):
        check(True, x, target, label_smoothing=smoothing)
    check(True, x.t().contiguous().t(), torch.stack([target, target], 1)[:, 0])


def test_nothing_counted():
    ignored = torch.full((5,), -100)
    for reduction in ("mean", "sum", "none"):
        got, fused = run("npu", logits(), ignored, reduction=reduction)
        wanted, _ = run("cpu", logits(), ignored, reduction=reduction)
        assert fused
        torch.testing.assert_close([t.cpu() for t in got], wanted, equal_nan=True)


def test_a_nan_of_a_row_that_is_ignored_is_told():
    """As by the composition: whoever looks at gradients for a fault finds it, and nothing of the other rows."""
    x, weight = torch.tensor([[0, torch.nan, 1], [torch.inf, 1, 2], [1, 2, 3.0]]), torch.tensor([1.0, 2, 3])
    ways = itertools.product(("mean", "sum", "none"), (0.0, 0.1), ([-100, -100, 0], [-100] * 3), (None, weight), TYPES)
    for reduction, smoothing, target, given, dtype in ways:
        made = []
        for device in ("cpu", "npu"):
            logits = x.to(device, dtype).requires_grad_()
            each = None if given is None else given.to(device, dtype)
            options = {"reduction": reduction, "label_smoothing": smoothing}
            loss = F.cross_entropy(logits, torch.tensor(target, device=device), each, **options)
            plain = torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0]
            first = torch.autograd.grad(loss.sum(), logits, create_graph=True)[0]
            second = torch.autograd.grad(first.square().sum(), logits)[0]
            made.append([t.detach().cpu() for t in (loss, plain, first, second)])
        torch.testing.assert_close(made[1], made[0], equal_nan=True, rtol=2e-2, atol=2e-2)


def test_hidden_classes():
    x = logits()
    x[:, 5] = float("-inf")
    check(True, x, torch.tensor(TARGET))


def test_what_is_composed():
    x, target = logits(), torch.tensor(TARGET)
    check(False, x.double(), target)
    check(False, torch.randn(2, 7, 5), torch.stack([target, target]))
    check(False, x, torch.softmax(torch.randn(5, 7), 1))
    check(False, x[0], target[0])
    check(False, x[:0], target[:0])
    with Called() as called:
        F.cross_entropy(x.npu(), target.int().npu())
    assert FUSED not in called.names


@pytest.mark.parametrize("wrong", [7, -1, 1 << 40])
def test_a_class_that_there_is_not(wrong):
    target = torch.tensor([0, wrong, 2, 3, 4])
    said = []
    for form in (F.cross_entropy, lambda x, t: F.nll_loss(F.log_softmax(x, 1), t)):
        with pytest.raises((IndexError, RuntimeError)) as caught:
            form(logits().npu(), target.npu()).item()
        said.append((caught.type, f"Target {wrong} is out of bounds" in str(caught.value)))
    assert said[0] == said[1] and said[0][1]


@pytest.mark.parametrize(
    "arguments",
    [((5, 7), (4,)), ((5, 7), (5, 7)), ((), ()), ((5, 7), (5,), {"weight": torch.ones(6)}),
     ((5, 7), (5,), {"label_smoothing": 1.5})],
    ids=str,
)  # fmt: skip
def test_mistakes_are_told_as_ever(arguments):
    x, target, options = torch.randn(arguments[0]), torch.zeros(arguments[1], dtype=torch.long), dict(*arguments[2:])
    with pytest.raises((RuntimeError, ValueError, IndexError)) as expected:
        F.cross_entropy(x, target, **options)
    if "weight" in options:
        options["weight"] = options["weight"].npu()
    with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
        F.cross_entropy(x.npu(), target.npu(), **options)
    assert issubclass(caught.type, expected.type) or "weight" in options


def test_second_derivatives():
    x, none = logits().npu().requires_grad_(), [-100] * len(TARGET)
    forms = ({}, {"reduction": "none", "label_smoothing": 0.2}, {"weight": torch.rand(7), "reduction": "sum"})
    for options, classes in [*((form, TARGET) for form in forms), ({}, none), ({"label_smoothing": 0.2}, none)]:
        target = torch.tensor(classes)
        seen = []
        for leaf, device in ((x, "npu"), (logits().double().requires_grad_(), "cpu")):
            given = {k: v.to(leaf) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
            loss = F.cross_entropy(leaf, target.to(device), **given)
            factor = (
                torch.linspace(0.5, 1, loss.numel(), device=device, dtype=leaf.dtype).view_as(loss).requires_grad_()
            )
            (grad,) = torch.autograd.grad((loss * factor).sum(), leaf, create_graph=True)
            second = torch.autograd.grad(grad.pow(3).sum(), (leaf, factor), create_graph=True)
            (third,) = torch.autograd.grad(second[0].square().sum(), leaf)
            seen.append([t.cpu().double() for t in (grad, *second, third)])
        if classes is none:  # the CPU's is NaN for the factor, by which nothing is multiplied
            del seen[0][2], seen[1][2]
        torch.testing.assert_close(*seen, rtol=1e-4, atol=1e-5)


def test_under_autocast_it_is_in_float32():
    target = torch.tensor(TARGET).npu()
    for dtype in (torch.float16, torch.bfloat16):
        x = logits(dtype).npu().requires_grad_()
        with torch.autocast("npu", dtype), Called() as called:
            loss = F.cross_entropy(x, target)
        assert FUSED in called.names and loss.dtype == torch.float32
        loss.backward()
        assert x.grad.dtype == dtype
        torch.testing.assert_close(loss.cpu(), F.cross_entropy(x.detach().cpu().float(), target.cpu()))


def test_who_looks_into_it_finds_its_parts():
    x, target = logits(), torch.tensor([3, 0, 5, 6, 2])

    def loss(x, target):
        return F.cross_entropy(x, target)

    for form in (torch.func.vmap(torch.func.grad(loss)), torch.func.vmap(loss)):
        got = form(x.view(5, 1, 7).npu(), target.view(5, 1).npu())
        torch.testing.assert_close(got.cpu(), form(x.view(5, 1, 7), target.view(5, 1)), rtol=1e-5, atol=1e-6)
    _, tangent = torch.func.jvp(lambda x: loss(x, target.npu()), (x.npu(),), (torch.ones(5, 7).npu(),))
    torch.testing.assert_close(tangent.cpu(), torch.zeros(()), rtol=0, atol=1e-6)
    hessian = torch.func.hessian(lambda x: loss(x, target.npu()))(x.npu())
    torch.testing.assert_close(hessian.cpu(), torch.func.hessian(lambda x: loss(x, target))(x), rtol=1e-5, atol=1e-6)
    graphs = []

    def keep(graph, _):
        graphs.append({str(n.target) for n in graph.graph.nodes})
        return graph

    from torch._dynamo.backends.common import aot_autograd

    compiled = torch.compile(loss, backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    leaf = x.npu().requires_grad_()
    torch.testing.assert_close(compiled(leaf, target.npu()).cpu(), loss(x, target), rtol=1e-5, atol=1e-6)
    assert any("nll_loss_forward" in name for name in graphs[0]) and not any("npu" in name for name in graphs[0])
    two = F.cross_entropy(TwoTensor(x.npu(), x.npu()), target.npu())
    torch.testing.assert_close(two.a.cpu(), loss(x, target), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_checkpoint_keeps_the_same_whether_or_not_a_mode_looks(first, smoothing):
    grads = []
    for device in ("npu", "cpu"):
        x, target = logits().to(device).requires_grad_(), torch.tensor(TARGET).to(device)
        modes = [Called(), nullcontext()] if first else [nullcontext(), Called()]
        with modes[0]:
            loss = checkpoint(
                lambda x, target=target: F.cross_entropy(x.sin(), target, label_smoothing=smoothing).exp(),
                x,
                use_reentrant=False,
            )
        with modes[1]:
            loss.backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-6)


class Loss(torch.nn.Module):
    def forward(self, x, target):
        return F.cross_entropy(x, target, label_smoothing=0.1)


def test_what_it_leaves_to_pytorch():
    x, target = logits().npu().requires_grad_(), torch.tensor(TARGET).npu()
    wanted = F.cross_entropy(x.detach().cpu(), target.cpu())
    with torch._C._AutoDispatchBelowAutograd():
        below = F.cross_entropy(x, target)
    with torch.inference_mode():
        inferred = F.cross_entropy(x, target)
    assert not below.requires_grad and not inferred.requires_grad
    torch.testing.assert_close([below.cpu(), inferred.cpu()], [wanted] * 2)
    zeros = torch._efficientzerotensor((5, 7), device="npu")
    with Called() as called:
        loss = F.cross_entropy(zeros, target)
        weighted = F.cross_entropy(x, target, torch._efficientzerotensor((7,), device="npu"), reduction="sum")
    assert FUSED not in called.names
    torch.testing.assert_close(loss.cpu(), torch.tensor(7.0).log())
    assert weighted.item() == 0


def test_what_is_exported_has_the_same_numbers():
    """It stays whole in what an export decomposes, as it has a kernel below autograd."""
    given = logits().npu(), torch.tensor(TARGET).npu()
    exported = torch.export.export(Loss(), given)
    wanted = Loss()(logits(), torch.tensor(TARGET))
    for program in (exported, exported.run_decompositions()):
        torch.testing.assert_close(program.module()(*given).cpu(), wanted)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_inference_is_as_exact_as_training(dtype, autocast):
    x, target = logits(dtype, 64, 512), torch.arange(64) * 7
    found = []
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode(), torch.autocast("npu", dtype, enabled=autocast):
            found.append(F.cross_entropy(x.npu(), target.npu(), reduction="none"))
    assert found[0].equal(found[1]) and found[0].equal(found[2].clone())
    if autocast:
        torch.testing.assert_close(
            found[2].cpu().double(), F.cross_entropy(x.double(), target, reduction="none"), rtol=1e-6, atol=1e-6
        )


def test_in_a_graph_that_is_replayed():
    x, target = logits().npu().requires_grad_(), torch.tensor(TARGET).npu()
    F.cross_entropy(x, target).backward()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        loss = F.cross_entropy(x, target)
        (grad,) = torch.autograd.grad(loss, x)
    with torch.no_grad():
        x.neg_()
        target.copy_(torch.tensor([1, 2, 3, -100, 4]))
    graph.replay()
    wanted = F.cross_entropy(x, target)
    torch.testing.assert_close((loss, grad), (wanted, torch.autograd.grad(wanted, x)[0]))
