"""Results whose addresses somebody else keeps: the program's own graphs, a storage held without its tensor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.dynamo.counting import counted
from tests.inductor.compiler import settings
from torch_npu.dynamo import outputs

npu = torch.npu
DEVICE = "npu"
HOW = [{"backend": "npugraphs"}, {"backend": "npugraph_ex"}, {"mode": "reduce-overhead"}]


@pytest.fixture(autouse=True)
def in_this_process():
    with settings():
        yield


def compiled(function, **options):
    return torch.compile(function, backend="npugraphs", **options)


def captured(function):
    with npu.graph(graph := npu.NPUGraph()):
        return graph, function()


@pytest.mark.parametrize("how", HOW, ids=str)
def test_what_the_programs_graph_reads_stays_where_it_is(how):
    """Its addresses are in the graph, so no later replay moves it."""
    step = torch.compile(lambda x: x + 1, **how)
    with counted() as counts:
        for value in range(3):
            held = step(torch.full((4,), float(value), device=DEVICE))
        graph, doubled = captured(lambda: held * 2)
        other = step(torch.full((4,), 100.0, device=DEVICE))
    assert counts.replays == 3
    graph.replay()
    assert held.tolist() == [3] * 4 and doubled.tolist() == [6] * 4 and other.tolist() == [101] * 4


def test_gradients_that_a_captured_step_reads():
    weight = torch.nn.Parameter(torch.ones(4, device=DEVICE))
    loss, x = compiled(lambda x: (x * weight).sum()), torch.full((4,), 2.0, device=DEVICE)
    for _ in range(3):
        weight.grad = None
        loss(x).backward()
    optimizer = torch.optim.SGD([weight], lr=1.0)
    graph, _ = captured(optimizer.step)
    loss(x * 10).backward()  # added to what is there
    graph.replay()
    assert weight.tolist() == [1 - 22] * 4


def test_a_storage_that_is_held_without_its_tensor():
    step = compiled(lambda x: x + 1)
    x = torch.zeros(4, device=DEVICE)
    storage = [step(x) for _ in range(3)][-1].untyped_storage()
    step(x + 5)
    assert torch.empty(0, device=DEVICE).set_(storage).tolist() == [1] * 4


def test_what_another_thread_was_given_stays_where_it_is():
    step = compiled(lambda x: x + 1)
    for value in range(3):
        held = step(torch.full((4,), float(value), device=DEVICE))

    def capture():
        for _ in range(3):
            step(torch.zeros(4, device=DEVICE))
        return captured(lambda: held * 2)

    with ThreadPoolExecutor(1) as other:
        graph, doubled = other.submit(capture).result()
    for _ in range(2):
        assert step(torch.full((4,), 100.0, device=DEVICE)).tolist() == [101] * 4
    graph.replay()
    assert held.tolist() == [3] * 4 and doubled.tolist() == [6] * 4


def test_a_capture_takes_nothing_away_that_an_earlier_step_returned():
    step = compiled(lambda x: x + 1)
    for value in range(3):
        held = step(torch.full((4,), float(value), device=DEVICE))
    npu.npugraph_mark_step_begin()
    graph, doubled = captured(lambda: held * 2)
    graph.replay()
    assert held.tolist() == [3] * 4 and doubled.tolist() == [6] * 4


@pytest.mark.parametrize("when", ["capture", "replay"])
def test_what_could_not_move_moves_later(when, monkeypatch):
    step = compiled(lambda x: (x + 1, x * 2))
    for value in range(3):
        held = step(torch.full((4,), float(value), device=DEVICE))
    leave, failed = outputs._Memory.leave, []

    def failing(memory, keep):
        if len(failed) < 2:
            failed.append(memory)
            if len(failed) == 2:
                raise torch.OutOfMemoryError("no memory for the second")
        leave(memory, keep)

    monkeypatch.setattr(outputs._Memory, "leave", failing)
    other = torch.full((4,), 100.0, device=DEVICE)
    with pytest.raises(torch.OutOfMemoryError):
        captured(lambda: None) if when == "capture" else step(other)
    assert [x.tolist() for x in step(other)] == [[101] * 4, [200] * 4]
    assert [x.tolist() for x in held] == [[3] * 4, [4] * 4]


def test_a_capture_leaves_another_threads_gradient():
    """That thread may be launching an operator on it."""
    weight, x = torch.nn.Parameter(torch.ones(4, device=DEVICE)), torch.ones(4, device=DEVICE)
    loss = compiled(lambda x: (x * weight).sum())

    def train():
        for _ in range(3):
            weight.grad = None
            loss(x).backward()
        return weight.grad.data_ptr()

    with ThreadPoolExecutor(1) as other:
        address = other.submit(train).result()
        captured(lambda: x + 1)
        held = weight.grad
        assert held.data_ptr() == address
        assert other.submit(train).result() != address and held.data_ptr() == address
    assert held.tolist() == [1] * 4


def test_a_function_is_captured_when_no_other_thread_captures():
    step, x = compiled(lambda x: x + 1), torch.ones(4, device=DEVICE)
    with counted() as counts, ThreadPoolExecutor(1) as other:
        with npu.graph(npu.NPUGraph(), capture_error_mode="thread_local"):
            for _ in range(3):
                assert other.submit(lambda: step(x) * 1).result().data_ptr()
        assert counts.captures == 0
        for _ in range(3):
            assert other.submit(lambda: step(x).tolist()).result() == [2] * 4
        assert (counts.captures, counts.replays) == (1, 3)


def test_what_an_update_of_a_graph_is_given_stays_where_it_is():
    made = torch.Generator().manual_seed(0)
    query, value, *keys = (torch.randn(2, n, 64, generator=made).half().npu() for n in (1, 32, *[32] * 7))
    options = {"num_heads": 2, "input_layout": "BSH", "scale": 0.125}

    def attend(key, length):
        return torch.ops.npu.npu_fused_infer_attention_score(
            query, key, value, actual_seq_lengths_kv=[length, 9], **options
        )[0]

    step = compiled(lambda x: torch.tanh(x) + x)
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        found = attend(keys[0], 1)
    for key in keys[:4]:
        held = step(key)
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [5, 9], "key": held}])
    graph.replay()
    for key in keys[4:]:
        step(key)
    graph.update(cpu_update_input=[{}])
    graph.replay()
    assert found.equal(attend(held, 5))
