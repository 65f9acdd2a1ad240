"""When there is no graph: eager's result and one message. And how many graphs there may be."""

from __future__ import annotations

import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.dynamo.counting import counted
from torch_npu.dynamo import pool, recording, replayed

DEVICE = "npu"
npu = torch.npu


def compiled(function, **options):
    return torch.compile(function, backend="npugraphs", **options)


def messages(call, times=3):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [call() for _ in range(times)]
    return results, [str(w.message) for w in caught if "on npu:" in str(w.message) and w.filename == __file__]


def test_a_tensor_of_the_cpu():
    x, host = torch.ones(4, device=DEVICE), torch.tensor(2.0)
    step = compiled(lambda x, h: x * h)
    with counted() as counts:
        results, said = messages(lambda: step(x, host))
    assert [r.tolist() for r in results] == [[2] * 4] * 3 and counts.captures == 0
    assert len(said) == 1 and "h is a tensor on cpu (" in said[0] and "move it to the npu" in said[0]


def test_reduce_overheads_message_is_of_the_programs_line():
    step = torch.compile(lambda x: (x * 2).cpu(), mode="reduce-overhead")
    assert len(messages(lambda: step(torch.ones(3, device=DEVICE)))[1]) == 1


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor(2.0)

    def forward(self, x):
        return x * self.scale


def by_item(x):
    y = x + 1
    k = y.sum().item()
    return y * k


def made_here(x):
    return x * torch.tensor(2.0)


BACKENDS = ["npugraphs", "npugraph_ex"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (Scaled(), lambda i: (), "self.scale is a tensor on cpu (return x * self.scale); move it to the npu"),
        (by_item, lambda i: (), "a number is a tensor on cpu, as PyTorch has numbers that change"),
        (lambda x, h: x * h, lambda i: (torch.tensor(i, dtype=torch.double),), ": h is a tensor on cpu ("),
        (lambda x, lr: x * lr, lambda i: (i + 0.5,), "the number lr is a tensor on cpu, as"),
        (made_here, lambda i: (), 'a tensor is made on cpu in it (return x * torch.tensor(2.0)); give it device="npu"'),
    ],
    ids=["module", "item", "double", "float", "made"],
)
def test_what_is_on_the_cpu_is_named_as_the_program_has_it(function, args, words, backend):
    step, calls = torch.compile(function, backend=backend), iter(range(1, 9))

    def call():
        i = next(calls)
        x = torch.full((4,), float(i), device=DEVICE)
        torch.testing.assert_close(step(x, *args(i)), function(x, *args(i)))

    _, said = messages(call, times=4)
    assert len(said) == 1 and words in said[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_item_in_a_full_graph_is_captured_with_it(backend):
    """As docs/compiled_graphs.md says: the number stays on the npu."""
    step = torch.compile(by_item, backend=backend, fullgraph=True)
    with counted() as counts:
        for i in range(5):
            x = torch.full((4,), float(i), device=DEVICE)
            torch.testing.assert_close(step(x), by_item(x))
    assert counts.captures == 1 and counts.replays == 4


def test_item_inside_the_graph():
    x = torch.ones(4, device=DEVICE)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        step = compiled(lambda x: x * x.long().sum().item())
        with counted() as counts:
            results, said = messages(lambda: step(x))
    assert [r.tolist() for r in results] == [[4] * 4] * 3 and counts.captures == 0
    assert len(said) == 1 and "needs the host in the middle" in said[0]


def test_item_between_two_graphs_needs_no_message():
    def step(x):
        y = x * 2
        return y + y.sum().item()

    x = torch.ones(4, device=DEVICE)
    step = compiled(step)
    with counted() as counts:
        results, said = messages(lambda: step(x), times=4)
    assert [r.tolist() for r in results] == [[10] * 4] * 4 and said == []
    assert counts.captures == 2


def test_an_operator_that_cannot_be_captured():
    x = torch.ones(4, device=DEVICE)
    step = compiled(lambda x: x.sum() + torch.randperm(5, device=DEVICE).sum())
    results, said = messages(lambda: step(x))
    assert [r.item() for r in results] == [14] * 3
    assert len(said) == 1 and "cannot be captured" in said[0]
    other = compiled(lambda x: x + 1)  # the pool is as good as before
    assert [other(x).tolist() for _ in range(3)] == [[2] * 4] * 3


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (lambda x, two: [x * two.to(DEVICE)], "an argument is on cpu; move it to the npu"),
        (lambda x, two: [x * (x.sum().item() - two.item())], "being captured"),
        (lambda x, two: [x * (torch.randperm(2, device=DEVICE).sum() + 1)], "cannot be captured"),
    ],
    ids=["cpu", "item", "randperm"],
)
def test_what_a_capture_refuses_runs_without_it(refused, said):
    host = torch.tensor(2.0) if "on cpu" in said else torch.tensor(2.0, device=DEVICE)
    x = torch.ones(4, device=DEVICE)
    function = replayed.Replayed(lambda inputs: refused(*inputs), name="it", device=0)
    results, warned = messages(lambda: function([x, host])[0].tolist(), times=4)
    assert results == [[2] * 4] * 4
    assert len(warned) == 1 and said in warned[0]


@pytest.mark.parametrize("kind", [KeyError, RecursionError])
def test_an_error_that_is_no_refusal_comes_through(monkeypatch, kind):
    def broken(*arguments):
        raise kind("broken")

    step = compiled(lambda x: x * 2)
    x = torch.ones(4, device=DEVICE)
    assert step(x).tolist() == [2] * 4
    with monkeypatch.context() as patch:
        patch.setattr(recording, "Outputs", broken)
        with pytest.raises(kind, match="broken"):
            step(x)
    with counted() as counts:  # and the next call is captured
        assert [step(x).tolist() for _ in range(2)] == [[2] * 4] * 2
    assert (counts.captures, counts.replays) == (1, 2)


def test_a_graph_over_two_devices():
    a, b = torch.ones(4, device="npu:0"), torch.ones(4, device="npu:1")
    step = compiled(lambda a, b: a + b.to("npu:0"))
    results, said = messages(lambda: step(a, b))
    assert [r.tolist() for r in results] == [[2] * 4] * 3
    assert len(said) == 1 and "npu:0 and npu:1" in said[0]


def test_what_training_cannot_capture_is_said_once_for_both_directions():
    host = torch.tensor(2.0)
    step = compiled(lambda x: (x * host).square().sum())
    x = torch.ones(4, device=DEVICE, requires_grad=True)
    _, said = messages(lambda: step(x).backward())
    assert len(said) == 1 and x.grad.tolist() == [24.0] * 4


def test_dropout_in_a_checkpoint_runs_without_a_graph():
    linear = torch.nn.Linear(8, 8).to(DEVICE)

    def inner(x):
        return torch.nn.functional.dropout(linear(x).tanh(), 0.5)

    step = compiled(lambda x: checkpoint(inner, x, use_reentrant=False))

    def call():
        x = torch.randn(4, 8, device=DEVICE, requires_grad=True)
        y = step(x)
        mask = (y != 0) * 2.0
        return [torch.autograd.grad(value.sum(), x)[0] for value in (y, linear(x).tanh() * mask)]

    results, said = messages(call, times=4)
    for ours, theirs in results:
        torch.testing.assert_close(ours, theirs)
    assert len(said) == 1 and "a checkpoint draws random numbers" in said[0]


def test_a_checkpoint_without_random_numbers():
    linear = torch.nn.Linear(8, 8).to(DEVICE)
    step = compiled(lambda x: checkpoint(lambda x: linear(x).tanh(), x, use_reentrant=False))
    with counted() as counts:
        for _ in range(3):
            x = torch.randn(4, 8, device=DEVICE, requires_grad=True)
            ours, theirs = (torch.autograd.grad(f(x).sum(), x)[0] for f in (step, lambda x: linear(x).tanh()))
            torch.testing.assert_close(ours, theirs)
    assert counts.replays == 4


def test_the_number_of_graphs_is_bounded(monkeypatch):
    monkeypatch.setattr(replayed.Replayed.__init__, "__kwdefaults__", {
        **replayed.Replayed.__init__.__kwdefaults__, "limit": 2,
    })  # fmt: skip
    step = compiled(lambda x: x * 2, dynamic=True)

    def call():
        return [step(torch.ones(n, device=DEVICE)).numel() for n in (3, 4, 5, 6)]

    with counted() as counts:
        results, said = messages(call, times=4)
    assert results == [[3, 4, 5, 6]] * 4 and counts.captures == 2 and counts.replays == 6
    assert (
        len(said) == 1 and "was captured 2 times, which is its limit" in said[0] and "without a graph:" not in said[0]
    )
    for remedy in ("Pad its arguments", '"npugraph_ex", options={"capture_limit"', "torch._dynamo.reset()"):
        assert remedy in said[0]


def test_an_error_of_the_program_is_the_programs():
    step = compiled(lambda x, i: x[i])
    x = torch.ones(4, device=DEVICE)
    for index in (1, 2):
        assert step(x, torch.tensor([index], device=DEVICE)).item() == 1
    with pytest.raises(RuntimeError, match="out of bounds|index"):
        step(x, torch.tensor([9], device=DEVICE)).item()
    assert step(x, torch.tensor([3], device=DEVICE)).item() == 1


def test_inside_a_capture_of_ones_own_it_is_part_of_that():
    step = compiled(lambda x: (x * 2).sin())
    x = torch.ones(4, device=DEVICE)
    step(x), step(x)
    with npu.graph(graph := npu.NPUGraph()):
        y = step(x)
    x.fill_(0.5)
    graph.replay()
    torch.testing.assert_close(y, torch.ones(4, device=DEVICE).sin())


def test_threads_may_call_one_function():
    step = compiled(lambda x: (x @ x).sin())
    inputs = [torch.randn(32, 32, device=DEVICE) for _ in range(4)]
    step(inputs[0]), step(inputs[0])
    wrong = []

    def work(x):
        want = (x @ x).sin()
        wrong.extend(1 for _ in range(20) if not torch.allclose(step(x).clone(), want, atol=1e-5))

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    [t.start() for t in threads], [t.join() for t in threads]
    assert wrong == []


def test_the_pool_of_a_device_is_one():
    assert pool.of(0) is pool.of(0) and pool.of(0) is not pool.of(1)


def on_a_thread(call):
    with ThreadPoolExecutor(1) as other:
        return other.submit(call).result()


def test_what_one_thread_holds_no_other_moves():
    """That thread may be launching an operator on it, with the address that it had."""
    step = compiled(lambda x: x * 3)
    x = torch.ones(4, device=DEVICE)
    step(x), step(x)
    mine = step(x)
    address = mine.data_ptr()
    with counted() as counts:
        theirs = on_a_thread(lambda: step(x + 1))
        assert counts.replays == 0 and theirs.tolist() == [6] * 4  # without a graph
        assert mine.data_ptr() == address and mine.tolist() == [3] * 4
        del mine
        held = [on_a_thread(lambda i=i: step(x + i)) for i in range(3)]  # copies
        held.append(step(x))
    assert counts.replays == 4 and [y[0].item() for y in held] == [3, 6, 9, 3]


@pytest.mark.parametrize("options", [{"backend": "npugraphs"}, {"mode": "reduce-overhead"}], ids=str)
def test_threads_use_what_they_were_given_while_others_replay(options):
    step, weight = torch.compile(lambda x, w: (torch.relu(x @ w) + x, x * 2), **options), torch.eye(8).npu() * 2
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(8, 8, device=DEVICE), weight)

    def work(value):
        x, wrong = torch.full((8, 8), value, device=DEVICE), 0
        with torch.no_grad(), npu.stream(npu.Stream()):
            for _ in range(300):
                a, b = step(x, weight)
                found = [t.cpu() for t in (a * 1, b * 1, a, a + 0)]
                wrong += [t.unique().tolist() for t in found] != [[3 * value], [2 * value], [3 * value], [3 * value]]
        return wrong

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, (1.0, 2.0, 3.0, 4.0))) == [0] * 4


def test_threads_that_train_take_their_own_gradients():
    step = compiled(lambda x: (x * x).sin())

    def work(value):
        wrong = 0
        for _ in range(50):
            x = torch.full((64,), value, device=DEVICE, requires_grad=True)
            step(x).sum().backward()
            wrong += not torch.allclose((x.grad * 1).cpu(), (2 * x * (x * x).cos()).detach().cpu())
        return wrong

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(work, (0.5, 1.0, 1.5))) == [0] * 3


def laid_out(x):
    y = x.t() * 2
    return y, y[1:, :1], torch.cat([x, x], 1)[:, :2], (x[:1] + 1).expand(3, 2)


@pytest.mark.parametrize(
    "options", [{"backend": "npugraphs"}, {"mode": "reduce-overhead"}, {"backend": "npugraph_ex"}], ids=str
)
def test_copies_lie_as_results_do_and_share_their_memory(options):
    step = torch.compile(laid_out, **options)
    x = torch.arange(4.0, device=DEVICE).reshape(2, 2)
    with torch.no_grad():
        for call in (step, lambda x: on_a_thread(lambda: torch.no_grad()(step)(x))):
            found = None  # of the first call: it would be moved by this thread alone
            call(x), call(x)  # PyTorch compiles again where the thread's number of threads is another
            with counted() as counts:
                found, expected = call(x), laid_out(x)
            assert counts.replays == 1
            assert [t.stride() for t in found] == [t.stride() for t in expected]
            found[0].add_(10)
            expected[0].add_(10)
            assert [t.tolist() for t in found] == [t.tolist() for t in expected]


def test_a_checkpoint_that_is_computed_again_is_no_second_thread():
    step = compiled(lambda x: (x * x).sin())
    for _ in range(4):
        x = torch.ones(64, device=DEVICE, requires_grad=True)
        checkpoint(step, x * 1, use_reentrant=False).sum().backward()
    assert not pool.of(0).several


def test_a_function_that_another_thread_compiles_is_captured():
    def work():
        step = torch.compile(lambda x: x * 2 + 1, mode="reduce-overhead")
        x = torch.ones(64, device=DEVICE)
        with counted() as counts:
            for _ in range(4):
                step(x)
        return counts.replays

    torch.compile(lambda x: x + 1)(torch.ones(2, device=DEVICE))  # the code generator is registered here
    assert on_a_thread(work) == 3


def test_a_capture_that_another_thread_ended_is_tried_again():
    refused = []

    def function(args):
        if torch.npu.is_current_stream_capturing() and not refused:
            refused.append(on_a_thread(lambda: pytest.raises(RuntimeError, torch.npu.synchronize)))
        return [args[0] + 1]

    step, x = replayed.Replayed(function, name="step", device=0), torch.ones(4, device=DEVICE)
    with counted() as counts:
        assert [step([x])[0].tolist() for _ in range(5)] == [[2] * 4] * 5
    assert "107027" in str(refused[0].value) and counts.replays == 3


def test_a_thread_replays_while_another_begins_the_first_step():
    step, x = compiled(lambda x: x * 2), torch.ones(3, device=DEVICE)
    step(x), step(x)
    module = types.ModuleType("torch._inductor.cudagraph_trees")  # as it is while it is imported
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, module.__name__, module)
        assert step(x).tolist() == [2] * 3
