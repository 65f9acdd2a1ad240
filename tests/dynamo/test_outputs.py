"""What a replayed function returned stays as it was, whatever is replayed next."""

from __future__ import annotations

import copy
import gc
import operator

import pytest
import torch

from tests.dynamo.counting import counted, mlp
from tests.inductor.compiler import settings
from torch_npu.dynamo import pool

DEVICE = "npu"


@pytest.fixture(autouse=True)
def in_this_process():
    with settings():
        yield


npu = torch.npu


def compiled(function, **options):
    return torch.compile(function, backend="npugraphs", **options)


def test_outputs_of_earlier_replays_and_their_views_stay():
    step = compiled(lambda x: (x + 1, (x * 2).t()))
    kept = []
    with counted() as counts:
        for _ in range(5):
            x = torch.randn(3, 4, device=DEVICE)
            a, b = step(x)
            kept.append((a[1:], b.view(-1) if b.is_contiguous() else b, (x + 1)[1:], (x * 2).t()))
    assert counts.replays == 4
    for ours, other, want, want_other in kept:
        assert torch.equal(ours, want) and torch.equal(other, want_other)


def test_only_what_is_still_held_is_moved():
    step = compiled(lambda x: x + 1)
    x = torch.zeros(4, device=DEVICE)
    step(x)
    first = step(x).data_ptr()
    assert step(x).data_ptr() == first  # nobody had it: nothing was copied
    held = step(x)
    again = step(x + 1)
    assert again.data_ptr() == first and held.data_ptr() != first
    assert held.tolist() == [1] * 4 and again.tolist() == [2] * 4


def test_an_output_may_be_the_next_argument():
    step = compiled(lambda x: x * 2)
    x = torch.ones(4, device=DEVICE)
    with counted() as counts:
        for _ in range(6):
            x = step(x)
    assert x.tolist() == [64] * 4
    assert counts.captures == 1


def test_an_output_stays_for_its_stream_while_another_streams_replay_waits():
    function, x, gate = compiled(lambda x: x * 2 + 1), torch.ones(64, device="npu"), npu.ExternalEvent()
    for _ in range(3):
        held = function(x)
    other = npu.Stream()
    other.wait_stream(npu.current_stream())
    with npu.stream(other):
        gate.wait()
        moving = function(x * 3)
    read = held * 1
    gate.record(npu.Stream())
    npu.synchronize()
    assert (read == 3).all() and (held == 3).all() and (moving == 7).all()


def test_two_functions_in_turns():
    first, second = compiled(lambda x: (x @ x).sin() + 1), compiled(lambda x: (x @ x).cos() * 2)
    kept = []
    for _ in range(6):
        x = torch.randn(16, 16, device=DEVICE)
        a = first(x)
        b = second(a)
        c = first(b)
        wanted = (x @ x).sin() + 1
        wanted = wanted, (wanted @ wanted).cos() * 2
        kept.append(((a, b, c), (*wanted, (wanted[1] @ wanted[1]).sin() + 1)))
    for ours, theirs in kept:
        torch.testing.assert_close(ours, theirs)


def test_functions_share_memory_and_later_outputs_survive_earlier_graphs():
    """The second graph's output lies where the first has temporaries."""
    first = compiled(lambda x: (((x + 1) * 2) @ x).sin().sum())
    second = compiled(lambda x: (x * 3 + 2) * 2)
    x = torch.randn(256, 256, device=DEVICE)
    for _ in range(2):
        first(x)
    for _ in range(2):
        kept = second(x)
    where = kept.data_ptr()
    first(x)
    assert kept.data_ptr() != where  # it did lie there
    assert torch.equal(kept, (x * 3 + 2) * 2)
    private = {tuple(s["segment_pool_id"]) for s in npu.memory_snapshot() if s["device"] == 0} - {(0, 0)}
    assert len(private) == 1


def test_two_forwards_before_their_backwards():
    model = mlp().to(DEVICE)
    plain = copy.deepcopy(model)
    step = compiled(model)
    for _ in range(4):
        model.zero_grad(), plain.zero_grad()
        x, y = torch.randn(6, 8, device=DEVICE), torch.randn(6, 8, device=DEVICE)
        (step(x).square().sum() + step(y).square().sum()).backward()
        (plain(x).square().sum() + plain(y).square().sum()).backward()
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_accumulate(to_none):
    model = mlp().to(DEVICE)
    plain = copy.deepcopy(model)
    step = compiled(model)
    for _ in range(3):
        model.zero_grad(to_none), plain.zero_grad(to_none)
        for _ in range(2):
            x = torch.randn(6, 8, device=DEVICE)
            step(x).square().sum().backward(), plain(x).square().sum().backward()
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


def test_what_a_forward_saved_is_let_go_by_its_backward():
    step = compiled(lambda x: x.sin().sin().sum())
    x = torch.randn(1 << 20, device=DEVICE, requires_grad=True)
    used = []
    for _ in range(4):
        step(x).backward()
        x.grad = None
        npu.synchronize()
        used.append(npu.memory_allocated())
    assert used[2] == used[3]
    captured = [function for function in pool._functions if function._recordings]
    forward, backward = sorted(captured, key=lambda function: function._backward)
    (recording,) = forward._recordings.values()
    assert not recording._outputs.held() and len(backward._recordings) == 1


def test_gradients_stay_where_they_are_while_the_next_forward_runs():
    model = mlp().to(DEVICE)
    step = compiled(model)
    for _ in range(3):
        x = torch.randn(6, 8, device=DEVICE)
        loss = step(x).square().sum()
        model.zero_grad()
        loss.backward()
    where = [p.grad.data_ptr() for p in model.parameters()]
    values = [p.grad.clone() for p in model.parameters()]
    step(x + 1)
    assert [p.grad.data_ptr() for p in model.parameters()] == where
    assert all(torch.equal(p.grad, value) for p, value in zip(model.parameters(), values, strict=True))


def test_backward_twice_with_the_graph_retained():
    model = mlp().to(DEVICE)
    plain = copy.deepcopy(model)
    step = compiled(model)
    for _ in range(3):
        x = torch.randn(6, 8, device=DEVICE)
        for function in (step, plain):
            loss = function(x).square().sum()
            loss.backward(retain_graph=True)
            loss.backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_what_the_program_does_to_an_output_ends_with_the_next_replay():
    step = compiled(lambda x: x + 1)
    x = torch.zeros(4, device=DEVICE)
    for _ in range(3):
        y = step(x)
        y.add_(10)
        assert y.tolist() == [11] * 4
    assert step(x).tolist() == [1] * 4


def test_an_argument_or_a_parameter_that_is_returned_is_the_programs_own():
    weight = torch.nn.Parameter(torch.ones(4, device=DEVICE))

    @compiled
    def step(x):
        return x, weight, x * weight

    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, device=DEVICE)
            same, parameter, product = step(x)
            assert same is x and parameter is weight and torch.equal(product, x)


def test_outputs_outlive_the_function():
    step = compiled(lambda x: x * 3)
    x = torch.ones(1000, device=DEVICE)
    step(x)
    y = step(x)
    del step
    torch._dynamo.reset()
    gc.collect()
    npu.empty_cache()
    others = [torch.full((1000,), 9.0, device=DEVICE) for _ in range(20)]
    assert y.unique().tolist() == [3] and len(others) == 20


def test_reset_gives_the_memory_back():
    def reserved():
        gc.collect(), npu.synchronize(), npu.empty_cache()
        return npu.memory_reserved()

    before = reserved()
    step = compiled(lambda x: (x * 3).sin())
    x = torch.ones(1 << 22, device=DEVICE)
    step(x), step(x)
    del x
    assert reserved() >= before + (2 << 24)  # the argument's copy, the output
    torch._dynamo.reset()
    assert reserved() <= before


MARKS = ["npu.npugraph_mark_step_begin", "compiler.npugraph_mark_step_begin", "compiler.cudagraph_mark_step_begin"]


@pytest.mark.parametrize("name", MARKS)
def test_a_new_step_lets_the_outputs_of_the_last_go(name):
    mark = operator.attrgetter(name)(torch)
    step = compiled(lambda x: x + 1)
    x = torch.zeros(4, device=DEVICE)
    step(x)
    mark()
    old = step(x)
    mark()
    new = step(x)
    assert new.tolist() == [1] * 4
    for use in (lambda t: t + 1, torch.Tensor.cpu, torch.Tensor.tolist, lambda t: t[1:].clone(), lambda t: t.zero_()):
        with pytest.raises(RuntimeError, match=r"mark_step_begin\(\).* take a \.clone\(\)"):
            use(old)
    assert step(x).tolist() == [1] * 4 and new.tolist() == [1] * 4  # within a step nothing is lost


HOW = [{"backend": "npugraphs"}, {"backend": "npugraph_ex"}, {"mode": "reduce-overhead"}]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).conj(),
        lambda x: (x * 2).conj().imag,
        lambda x: torch._neg_view(x * 2),
        lambda x: x.conj(),
        lambda x: (x.conj() + 1, (x * 2).conj().T),
    ],
    ids=["conj", "imag", "neg", "argument", "two"],
)
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_conjugated_and_negated_outputs_stay_so(function, how):
    step = torch.compile(function, **how)
    for turn in range(4):
        x = torch.tensor([[1 + 2j, 3 - 4j]]) * (turn + 1)
        for given in (x, x.conj()):
            got, want = step(given.to(DEVICE)), function(given)
            torch.testing.assert_close(
                [t.cpu() for t in got] if isinstance(got, tuple) else got.cpu(),
                [*want] if isinstance(want, tuple) else want,
            )


@pytest.mark.parametrize("how", HOW[:2], ids=str)
def test_a_conjugated_argument_is_changed_in_place(how):
    def function(x):
        x.conj().imag.square_()
        return x + 1

    step = torch.compile(function, **how)
    for turn in range(4):
        x = torch.tensor([1 + 2j, 3 - 4j]) * (turn + 1)
        for view in (lambda t: t, torch.conj):
            ours, theirs = view(x.clone().to(DEVICE)), view(x.clone())
            assert torch.equal(step(ours).cpu(), function(theirs)) and torch.equal(ours.cpu(), theirs)


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_view_of_an_argument_begins_where_the_argument_does(how):
    step = torch.compile(lambda x: (x.expand(2, *x.shape), x + 1), dynamic=True, **how)
    for turn in range(5):
        base = torch.arange(24.0, device=DEVICE).reshape(6, 4) + turn * 100
        x = base[turn % 3 : turn % 3 + 4]
        view, _ = step(x)
        assert torch.equal(view, x.expand(2, 4, 4)) and view.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name in ("offset", "storage") for how in HOW if name == "offset" or how is not HOW[0]],
    ids=str,
)  # AOTAutograd itself refuses a new storage, as npugraphs has it
def test_a_function_that_asks_where_an_argument_lies_runs_without_a_graph(name, how):
    def offset(x):
        return x.as_strided((3, 2), (2, 1), x.storage_offset() + 1) * 2

    def storage(x):
        x.data = x.data + 1
        return x * 2

    function = {"offset": offset, "storage": storage}[name]
    step = torch.compile(function, dynamic=True, **how)
    with counted() as counts, pytest.warns(UserWarning, match="an argument's storage"):
        for turn in range(4):
            ours, theirs = ((torch.arange(24.0, device=d).reshape(6, 4) + turn)[1:] for d in (DEVICE, "cpu"))
            assert torch.equal(step(ours).cpu(), function(theirs)) and torch.equal(ours.cpu(), theirs)
    assert counts.captures == 0


@pytest.mark.parametrize("how", HOW, ids=str)
def test_an_output_without_elements_may_be_given_some(how):
    def function(x):
        out = torch.empty(0, device=x.device)
        torch.cat([x, x], out=out)
        return out + 1

    step = torch.compile(function, **how)
    for turn in range(4):
        assert step(torch.full((2,), turn, device=DEVICE)).tolist() == [turn + 1] * 4


def test_gradients_are_kept_for_later_steps():
    weight = torch.nn.Parameter(torch.ones(4, device=DEVICE))
    loss, x = compiled(lambda x: (x * weight).sum()), torch.ones(4, device=DEVICE)
    for _ in range(4):
        weight.grad = None
        for value in (1, 2, 3):
            npu.npugraph_mark_step_begin()
            loss(x * value).backward()
        assert weight.grad.tolist() == [6] * 4


def test_the_collector_may_end_a_function_while_results_move(monkeypatch):
    step = compiled(lambda x: x + 1, dynamic=False)
    inputs = [torch.ones(n, device=DEVICE) for n in (4, 5, 6)]
    for _ in range(3):
        for x in inputs:
            step(x)
    held = [step(x) for x in inputs[::2]]
    step(inputs[1])  # let go
    leave = pool.Outputs.leave

    def collected(outputs, *gradients):
        pool.of(0).close(())  # as a finalizer does
        leave(outputs, *gradients)

    monkeypatch.setattr(pool.Outputs, "leave", collected)
    assert step(inputs[0] + 1).tolist() == [3] * 4
    assert [x.tolist() for x in held] == [[2] * 4, [2] * 6]
