"""The rewritings of npugraph_ex: what is removed, fused and computed in place, and what must not be."""

from __future__ import annotations

import pytest
import torch

DEVICE = "npu"
aten = torch.ops.aten
FLAGS = ("remove_noop_ops", "remove_cat_ops", "inplace_pass", "input_inplace_pass", "pattern_fusion_pass")


def operators(function, *arguments, dynamic=False, **options):
    """The operators that are left, after four calls whose results and changed arguments are eager's."""
    found = []

    def record(module, inputs, _):
        found[:] = [node.target.__name__ for node in module.graph.nodes if node.op == "call_function"]

    options["post_grad_custom_post_pass"] = record
    step = torch.compile(function, backend="npugraph_ex", options=options, dynamic=dynamic, fullgraph=True)
    for _ in range(4):
        ours, theirs = ([a.clone() for a in arguments] for _ in range(2))
        torch.testing.assert_close(step(*ours), function(*theirs))
        torch.testing.assert_close(ours, theirs)
    return found


def only(flag):
    return {name: name == flag for name in FLAGS}


def x(*shape):
    return torch.randn(*shape, device=DEVICE)


def test_all_passes_off_leave_the_graph():
    off = dict.fromkeys(FLAGS, False)
    assert operators(lambda a: a.clone().add(1).relu(), x(4), **off) == ["clone.default", "add.Tensor", "relu.default"]


def test_operators_that_do_nothing_go():
    def function(a):
        return (a.to(torch.float32)[0:] + 0).view(4).clone() * 2

    assert operators(function, x(4), **only("remove_noop_ops")) == ["add.Tensor", "mul.Tensor"]


CATS = [
    (lambda a, b: torch.cat([torch.cat([a, b]), a]), ["cat.default"]),
    (lambda a, b: torch.cat([torch.cat([a, b], 1), torch.cat([a, b], 1)], 0), ["cat.default"] * 3),
    (lambda a, b: torch.cat([a * 2]) + 1, ["mul.Tensor", "clone.default", "add.Tensor"]),
]


@pytest.mark.parametrize(("function", "left"), CATS, ids=["nested", "other dimension", "of one"])
def test_concatenations(function, left):
    assert operators(function, x(2, 3), x(2, 3), **only("remove_cat_ops")) == left


IN_PLACE = {
    "a chain": (
        lambda a: ((a + 1) * 2).relu().sigmoid(),
        ["add.Tensor", "mul_.Tensor", "relu_.default", "sigmoid_.default"],
    ),
    "used later": (lambda a: (b := a + 1).relu() + b, ["add.Tensor", "relu.default", "add_.Tensor"]),
    "returned": (lambda a: (b := a + 1, b.relu()), ["add.Tensor", "relu.default"]),
    "an argument": (lambda a: a.relu(), ["relu.default"]),
    "another type": (lambda a: (a + 1).gt(0), ["add.Tensor", "gt.Scalar"]),
    "broadcast": (lambda a: (a[0:1] + 1) * a, ["slice.Tensor", "add.Tensor", "mul.Tensor"]),
    "a view read later": (
        lambda a: (b := a + 1).relu() + b.t().contiguous(),
        ["add.Tensor", "relu.default", "t.default", "clone.default", "add_.Tensor"],
    ),
    "through a view": (lambda a: (a + 1).view(16).relu(), ["add.Tensor", "view.default", "relu_.default"]),
    "itself twice": (lambda a: (b := a + 1) * b, ["add.Tensor", "mul_.Tensor"]),
    "its transpose": (lambda a: (b := a + 1) * b.t(), ["add.Tensor", "t.default", "mul.Tensor"]),
    "a matrix product with itself": (lambda a: torch.addmm(b := a + 1, b, a), ["add.Tensor", "addmm.default"]),
    "a part": (lambda a: (a + 1)[1:].relu(), ["add.Tensor", "slice.Tensor", "relu.default"]),
    "masked": (
        lambda a: (a + 1).masked_fill(a > 0, 2.0),
        ["add.Tensor", "gt.Scalar", "masked_fill_.Scalar"],
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    function, left = IN_PLACE[name]
    assert operators(function, x(4, 4), **only("inplace_pass")) == left


def test_an_argument_in_place():
    def function(a, b):
        before = a * 2
        a.add_(b)
        return before

    assert operators(function, x(4), x(4), **only("input_inplace_pass")) == ["mul.Tensor", "add_.Tensor"]
    assert "copy_.default" in operators(function, x(4), x(4), **only("inplace_pass"))


def test_an_argument_whose_former_value_is_read_afterwards_is_copied_back():
    def function(a, b):
        before = a.clone()  # which is removed
        a.mul_(b)
        return before * 3

    assert operators(function, x(4), x(4)) == ["mul.Tensor", "mul.Tensor", "copy_.default"]


def test_an_argument_that_is_returned_too():
    found = operators(lambda a, b: (a.mul_(b), a + 1), x(4), x(4), **only("input_inplace_pass"))
    assert found == ["mul_.Tensor", "add.Tensor"]


def test_add_and_rms_norm_are_one_operator():
    def function(a, b, gamma):
        total = a + b
        return torch.ops.npu.npu_rms_norm(total, gamma, 1e-5)[0] * 2, total

    found = operators(function, x(3, 8), x(3, 8), x(8), **only("pattern_fusion_pass"))
    assert found.count("npu_add_rms_norm.default") == 1 and "npu_rms_norm.default" not in found
    found = operators(function, x(3, 8), x(8), x(8), **only("pattern_fusion_pass"))  # the sum is broadcast
    assert "npu_rms_norm.default" in found


def test_patterns_of_the_program():
    def search(a, b):
        return torch.ops.aten.sinh(a) - torch.ops.aten.cosh(b)

    def replace(a, b):
        return torch.ops.aten.sinh(a) - torch.ops.aten.cosh(b) + 0 * a

    torch.npu.npugraph_ex.register_replacement(search, replace, [x(2), x(2)])
    found = operators(lambda a, b: a.sinh() - b.cosh(), x(4), x(4), **only("pattern_fusion_pass"))
    assert found == ["sinh.default", "cosh.default", "sub.Tensor", "mul.Tensor", "add.Tensor"]
    found = operators(lambda a, b: a.sinh() - b.cosh(), x(4), x(4), **only(None))
    assert found == ["sinh.default", "cosh.default", "sub.Tensor"]


def test_all_together_with_dynamic_shapes():
    def function(a, total):
        total.add_(a.sum())
        return torch.cat([(a * 2).relu(), torch.cat([a, a])]).clone()

    found = operators(function, x(5, 4), x(1), dynamic=True)
    assert "relu_.default" in found and found.count("cat.default") == 1


def test_what_an_argument_was_changed_to_is_not_computed_in():
    """Both rewritings together: the second must see that the first has put the sum where the argument is."""

    def function(a, b):
        a.add_(b)
        return a * 2

    step = torch.compile(function, backend="npugraph_ex")
    a, b = torch.ones(2, device="npu"), torch.ones(2, device="npu")
    for count in (2.0, 3.0, 4.0):
        assert step(a, b).tolist() == [2 * count] * 2 and a.tolist() == [count] * 2


@pytest.mark.parametrize("view", [torch.t, lambda y: y.split(4)[0], lambda y: y.view(2, 8)], ids=["t", "split", "view"])
def test_a_view_of_what_an_argument_becomes_is_not_computed_in(view):
    """The copy that the view was traced of is gone: it does nothing."""

    def step(x, y):
        y.copy_(x.sin() + y * 0.5)
        return view(y) * 0.5, x * 0.5

    function = torch.compile(step, backend="npugraph_ex", fullgraph=True)
    ours, theirs, x = torch.ones(4, 4, device=DEVICE), torch.ones(4, 4), torch.linspace(0, 1, 16).view(4, 4)
    for _ in range(4):
        for found, wanted in zip(function(x.npu(), ours), step(x, theirs), strict=True):
            torch.testing.assert_close(found.cpu(), wanted)
        torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize(
    "view", [lambda v: aten._unsafe_view(v, [16]), lambda v: aten.unsafe_split(v, 2)[1]], ids=["view", "split"]
)
def test_a_view_whose_operator_does_not_say_so_is_not_overwritten(view):
    def step(x):
        v = x.sin()
        w = view(v.clone())
        v.mul_(2)
        return w, v * 3

    function, x = torch.compile(step, backend="npugraph_ex", fullgraph=True), torch.linspace(0, 1, 16).view(4, 4)
    for _ in range(4):
        for found, wanted in zip(function(x.npu()), step(x), strict=True):
            torch.testing.assert_close(found.cpu(), wanted)
