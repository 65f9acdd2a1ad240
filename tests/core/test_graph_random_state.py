"""The state of a generator, asked for and set while a graph is captured: checkpoints do both."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.older import since_2_13

npu = torch.npu


def rand() -> torch.Tensor:
    return torch.rand(9, device="npu")


def drawn(first: bool) -> list[torch.Tensor]:
    """Numbers of which two are drawn from one state, with others before it, if not `first`, and behind it."""
    results = [] if first else [rand()]
    state = npu.get_rng_state()
    results.append(rand())
    npu.set_rng_state(state)
    results += [rand(), rand()]
    return results


@pytest.mark.parametrize("first", [True, False])
def test_a_state_is_taken_and_set_back_in_a_capture(first):
    npu.manual_seed(123)
    expected = [*drawn(first), rand()]
    npu.manual_seed(5)
    with npu.graph(graph := npu.NPUGraph()):
        found = drawn(first)
    for _ in range(2):
        npu.manual_seed(123)
        graph.replay()
        for x, y in zip([*found, rand()], expected, strict=True):
            assert torch.equal(x, y)


def test_replays_go_on_where_the_capture_was_set_back():
    """What a graph has drawn at its end may be less than what it drew, and nothing at all."""

    def again() -> torch.Tensor:
        state = npu.get_rng_state()
        result = rand()
        npu.set_rng_state(state)
        return result

    npu.manual_seed(3)
    rand()
    expected = again()
    npu.manual_seed(3)
    with npu.graph(graph := npu.NPUGraph()):
        found = again()
    npu.manual_seed(3)
    rand()
    graph.replay()
    assert torch.equal(found, expected) and torch.equal(rand(), expected)


def default() -> torch.Generator:
    return npu.default_generators[npu.current_device()]


def cloned() -> list[torch.Tensor]:
    """A copy goes on where the generator is, and neither moves the other."""
    first, copy = rand(), default().clone_state()
    return [first, torch.rand(9, device="npu", generator=copy), rand()]


def moved_ahead() -> list[torch.Tensor]:
    """Set to a place behind numbers that nobody drew, which is where a replay leaves the generator."""
    first = rand()
    default().set_offset(default().get_offset() + 400)
    return [first]


def only_moved() -> list[torch.Tensor]:
    default().set_offset(default().get_offset() + 8)
    return []


def shared() -> list[torch.Tensor]:
    """Two generators of one state draw one row of numbers."""
    other = default().graphsafe_get_state()
    return [rand(), torch.rand(9, device="npu", generator=other), rand()]


@functools.cache
def lender() -> torch.Generator:
    return torch.Generator("npu")


def seed_both(seed: int) -> None:
    npu.manual_seed(seed)
    lender().manual_seed(seed + 1)


def lent() -> list[torch.Tensor]:
    """As compiled graphs do it: the generator has another's state for one operator."""
    own = default().graphsafe_get_state()
    first = rand()
    default().graphsafe_set_state(lender())
    second = rand()
    default().graphsafe_set_state(own)
    return [first, second, rand()]


@pytest.mark.parametrize("program", [cloned, moved_ahead, only_moved, shared, lent])
def test_a_captured_program_draws_what_it_draws_at_once(program):
    seed_both(9)
    expected = [*program(), rand()]
    seed_both(9)
    with npu.graph(graph := npu.NPUGraph()):
        found = program()
    seed_both(9)
    graph.replay()
    for x, y in zip([*found, rand()], expected, strict=True):
        assert torch.equal(x, y)


def test_replays_of_a_lent_state_go_on_in_both():
    seed_both(3)
    with npu.graph(graph := npu.NPUGraph()):
        found = lent()
    graph.replay()
    before = [x.clone() for x in found]
    graph.replay()
    assert not any(torch.equal(x, y) for x, y in zip(found, before, strict=True))


def test_only_generators_of_the_device_are_registered():
    with pytest.raises(TypeError, match="expected a generator of an npu device, got one of cpu"):
        npu.NPUGraph().register_generator_state(torch.Generator())


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_recomputes_what_it_computed(reentrant):
    """Captured, the recomputation drew other numbers than the forward: gradients were those of another dropout."""

    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) * torch.sigmoid(torch.randn(64, device="npu"))

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = checkpoint(layer, x, use_reentrant=reentrant, preserve_rng_state=True)
        y.sum().backward()
        return y.detach(), x.grad

    layer(torch.ones(64, device="npu"))
    with npu.graph(graph := npu.NPUGraph()):
        found = both(torch.ones(64, device="npu", requires_grad=True))
    for seed in (42, 43):
        npu.manual_seed(seed)
        expected = both(torch.ones(64, device="npu", requires_grad=True))
        npu.manual_seed(seed)
        graph.replay()
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


def test_other_states_than_the_captures_are_refused():
    npu.manual_seed(0)
    earlier = npu.get_rng_state()
    rand()
    for change, words in (
        (lambda: npu.manual_seed(1), "not to another seed"),
        (lambda: npu.set_rng_state(earlier), "not to an earlier one"),
    ):
        with pytest.raises(RuntimeError, match=words), npu.graph(npu.NPUGraph()):
            change()
    assert npu.initial_seed() == 0


@pytest.mark.parametrize("capture", [False, True])
def test_a_graph_of_inference_mode_is_replayed_outside(capture):
    generator = torch.Generator("npu").manual_seed(4)
    graph = npu.NPUGraph()
    with torch.inference_mode():
        graph.register_generator_state(generator)
    with torch.inference_mode(capture), npu.graph(graph):
        found = torch.rand(9, device="npu", generator=generator)
    generator.manual_seed(4)
    graph.replay()
    assert torch.equal(found, torch.rand(9, device="npu", generator=torch.Generator("npu").manual_seed(4)))


def dropped(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda y: torch.nn.functional.dropout(y, 0.5) * y.sin(), x, use_reentrant=False)


def test_a_checkpoint_over_two_graphs_is_told():
    """Its backward's replay draws behind its forward's: gradients of another dropout."""
    x = torch.ones(64, device="npu", requires_grad=True)
    with pytest.warns(UserWarning, match="of another graph's capture is set in this one"):
        npu.make_graphed_callables(dropped, (x,))


def test_a_checkpoint_over_two_graphs_that_draws_nothing_is_right():
    x = torch.linspace(0, 1, 64, device="npu").requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphed = npu.make_graphed_callables(lambda y: checkpoint(lambda z: z.sin() * z, y, use_reentrant=False), (x,))
    graphed(x).sum().backward()
    assert torch.allclose(x.grad, (x.cos() * x + x.sin()).detach())


@since_2_13("a compiled checkpoint that draws on an npu")
def test_a_compiled_checkpoint_in_a_capture_is_told():
    function = torch.compile(dropped, backend="aot_eager")
    x = torch.ones(64, device="npu", requires_grad=True)
    torch.autograd.grad(function(x).sum(), x)
    with pytest.warns(UserWarning, match="compiled checkpoint that draws random numbers"), npu.graph(npu.NPUGraph()):
        torch.autograd.grad(function(x).sum(), x)
