"""Graphs and memory pools: replays give what the same work gives without a graph, in memory that stays the graph's."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

DEVICE = "npu"
npu = torch.npu


def capture(function, **options):
    """The function's result as the graph's output, and the graph."""
    graph = npu.NPUGraph()
    with npu.graph(graph, **options):
        result = function()
    return result, graph


def test_replay_computes_from_the_inputs_there_are_now():
    x = torch.zeros(5, 8, device=DEVICE)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)
    y, graph = capture(lambda: model(x))
    for _ in range(3):
        x.copy_(torch.randn(5, 8))
        graph.replay()
        assert torch.equal(y, model(x))


def test_nothing_runs_while_it_is_captured():
    x = torch.zeros(4, device=DEVICE)
    _, graph = capture(lambda: x.add_(1))
    assert x.tolist() == [0] * 4
    graph.replay(), graph.replay()
    assert x.tolist() == [2] * 4


DRAWS = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "uniform": lambda x: x.clone().uniform_(2, 3),
    "normal": lambda x: torch.randn_like(x),
    "random": lambda x: x.clone().random_(0, 1000),
    "bernoulli": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "multinomial": lambda x: torch.multinomial(x, 4),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_each_replay_draws_what_the_generator_comes_to(draw):
    """As without a graph: the same numbers after the same seed, other ones at each replay."""
    x = torch.ones(64, device=DEVICE)
    y, graph = capture(lambda: draw(x))
    npu.manual_seed(7)
    plain = [draw(x) for _ in range(2)] if draw is not DRAWS["bernoulli"] else None
    npu.manual_seed(7)
    replayed = []
    for _ in range(2):
        graph.replay()
        replayed.append(y.clone())
    assert not torch.equal(*replayed)
    if plain is not None:
        assert all(torch.equal(a, b) for a, b in zip(plain, replayed, strict=True))
    else:
        assert set(torch.cat(replayed).tolist()) == {0.0, 1.0} and 10 < sum(map(torch.sum, replayed)) < 70


def test_two_draws_of_a_graph_differ_and_a_generator_of_ones_own_is_used():
    generator = torch.Generator(DEVICE).manual_seed(3)
    x = torch.empty(32, device=DEVICE)
    (a, b), graph = capture(lambda: (x.clone().uniform_(generator=generator), x.clone().uniform_(generator=generator)))
    graph.replay()
    assert not torch.equal(a, b)
    fresh = torch.Generator(DEVICE).manual_seed(3)
    assert torch.equal(a, x.clone().uniform_(generator=fresh)) and torch.equal(b, x.clone().uniform_(generator=fresh))


@pytest.mark.parametrize("generators", [1, 3])
def test_temporaries_of_the_graph_leave_the_seeds_alone(generators):
    """What a replay sets for random operators lies outside the graph's pool, whichever generator they draw from."""
    own = [torch.Generator(DEVICE) for _ in range(generators)]
    x = torch.zeros(64, device=DEVICE)

    def draw():
        [torch.full((4,), float(i), device=DEVICE) for i in range(8)]  # free when something is drawn
        drawn = [x.clone().uniform_(generator=generator) for generator in own]
        return torch.stack([*drawn, torch.nn.functional.dropout(x + 1, 0.5)])

    def seed():
        npu.manual_seed(7)
        for i, generator in enumerate(own):
            generator.manual_seed(i)

    y, graph = capture(draw)
    seed()
    plain = [draw() for _ in range(3)]
    seed()
    for want in plain:
        graph.replay()
        assert torch.equal(y, want)


def test_replays_on_several_streams_draw_as_one_after_another():
    """The seeds of a replay are set when the one before it, on whatever stream, has drawn."""
    x, log, at = torch.zeros(256, 256, device=DEVICE), torch.zeros(20, 8, device=DEVICE), torch.zeros(1, device=DEVICE)

    def draw():
        for _ in range(20):
            x @ x  # time for the next replay to be queued
        log.index_copy_(0, at.long(), torch.zeros(1, 8, device=DEVICE).uniform_())
        at.add_(1)

    _, graph = capture(draw)
    lines = []
    for streams in ([npu.Stream() for _ in range(4)], [npu.current_stream()]):
        npu.manual_seed(5)
        at.zero_()
        npu.synchronize()
        for i in range(20):
            with npu.stream(streams[i % len(streams)]):
                graph.replay()
        npu.synchronize()
        lines.append(log.clone())
    assert torch.equal(*lines) and len(torch.unique(lines[0])) == log.numel()


def test_what_another_thread_frees_as_a_capture_begins_stays_out_of_it():
    stream, done = npu.Stream(), threading.Event()

    def free():
        while not done.is_set():
            torch.empty(1000, device=DEVICE).record_stream(stream)

    with ThreadPoolExecutor(1) as pool, npu.stream(stream):
        freeing = pool.submit(free)
        try:
            x = torch.ones(100, device=DEVICE)
            for _ in range(300):
                graph = npu.NPUGraph()
                graph.capture_begin(capture_error_mode="relaxed")
                x.add_(1)
                graph.capture_end()
        finally:
            done.set()
        freeing.result()
        graph.replay()
        assert x.tolist() == [2.0] * 100


def test_a_capture_that_cannot_begin_leaves_nothing_behind():
    stream, graph = npu.Stream(), npu.NPUGraph()
    x = torch.zeros(4, device=DEVICE)
    npu.synchronize()  # the zeros are the current stream's
    with npu.stream(stream):
        other = npu.NPUGraph()
        other.capture_begin(capture_error_mode="relaxed")
        with pytest.raises(RuntimeError):
            graph.capture_begin(capture_error_mode="relaxed")  # its stream is being captured
        x.add_(1)
        other.capture_end()
        graph.capture_begin()
        x.add_(2)
        graph.capture_end()
        other.replay(), graph.replay()
    npu.synchronize()
    assert x.tolist() == [3.0] * 4


def test_the_graphs_memory_is_not_given_to_others():
    x = torch.ones(300_000, device=DEVICE)
    y, graph = capture(lambda: ((x + 1) * 2 + 3).sqrt())  # temporaries that are free when the capture ends
    npu.empty_cache()
    others = [torch.full((300_000,), 9.0, device=DEVICE) for _ in range(20)]
    graph.replay()
    assert torch.equal(y, ((x + 1) * 2 + 3).sqrt())
    assert all((o == 9).all() for o in others)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_emptying_the_cache_on_another_thread_leaves_a_capture_alone(mode):
    x, graph = torch.zeros(4, device=DEVICE), npu.NPUGraph()
    torch.zeros(1 << 20, device=DEVICE)  # cached from here on
    npu.synchronize()
    with npu.stream(npu.Stream()):
        graph.capture_begin(capture_error_mode=mode)
        x.add_(1)
        with ThreadPoolExecutor() as pool:
            pool.submit(npu.empty_cache).result()
        x.add_(1)
        graph.capture_end()
        graph.replay()
        assert x.tolist() == [2.0] * 4


def test_reset_gives_the_memory_back():
    npu.synchronize()
    npu.empty_cache()
    before = npu.memory_reserved()
    x = torch.ones(1 << 20, device=DEVICE)
    y, graph = capture(lambda x=x: x * 2 + 1)
    del y, x
    npu.empty_cache()
    assert npu.memory_reserved() > before  # a replay still writes there
    graph.reset()
    npu.empty_cache()
    assert npu.memory_reserved() == before
    with pytest.raises(RuntimeError, match="has not been captured"):
        graph.replay()


def test_graphs_may_share_a_pool():
    x = torch.ones(1 << 18, device=DEVICE)
    handle = npu.graph_pool_handle()
    y, first = capture(lambda: x + 1, pool=handle)
    z, second = capture(lambda: y * 2, pool=first.pool())
    assert first.pool() == second.pool() == handle
    first.replay(), second.replay()
    assert z.unique().tolist() == [4]
    segments = {tuple(s["segment_pool_id"]) for s in npu.memory_snapshot() if s["address"] <= y.data_ptr()}
    assert handle in segments


def test_a_whole_training_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(DEVICE)
    plain = copy.deepcopy(model)
    x, t = torch.randn(16, 8, device=DEVICE), torch.randn(16, 1, device=DEVICE)

    def step(model, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - t).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    optimizers = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (model, plain)]
    side = npu.Stream()
    side.wait_stream(npu.current_stream())
    with npu.stream(side):
        for m, o in zip((model, plain), optimizers, strict=True):
            step(m, o)  # momentum buffers are made in the first step
    npu.current_stream().wait_stream(side)
    loss, graph = capture(lambda: step(model, optimizers[0]))
    for _ in range(5):
        x.copy_(torch.randn(16, 8))
        graph.replay()
        want = step(plain, optimizers[1])
        torch.testing.assert_close(loss, want)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize(
    ("inside", "error"),
    [
        (lambda x: x.sum().item(), "being captured into a graph"),
        (lambda x: torch.randperm(5, device=DEVICE), "cannot be captured in a graph"),
        (lambda x: npu.synchronize(), "captured"),
    ],
)
def test_what_cannot_be_captured_is_an_error_and_the_next_capture_works(inside, error):
    x = torch.ones(4, device=DEVICE)
    with pytest.raises(RuntimeError, match=error):
        capture(lambda: inside(x))
    assert x.sum().item() == 4
    y, graph = capture(lambda: x + 1)
    graph.replay()
    assert y.tolist() == [2] * 4


def test_an_error_of_a_replay_names_the_line_that_captured_it():
    x, index = torch.ones(4, device=DEVICE, requires_grad=True), torch.zeros(2, dtype=torch.long, device=DEVICE)
    here = inspect.currentframe().f_lineno
    taken, forward = capture(lambda: x.detach() + 1 + x.detach()[index].sum())
    grad, backward = capture(lambda: torch.autograd.grad(torch.nn.functional.embedding(index, x[:, None]).sum(), x))
    index.fill_(9)
    for graph, line in ((forward, here + 1), (backward, here + 2)):
        with pytest.raises(torch.AcceleratorError, match=rf"; captured at .*test_graphs\.py:{line}\b"):
            graph.replay()
            npu.synchronize()
        with contextlib.suppress(torch.AcceleratorError):  # where the replay's call has told it
            npu.synchronize()
    with pytest.raises(torch.AcceleratorError) as alone:
        x.detach()[index].cpu()
    assert "captured" not in str(alone.value)


def test_a_capture_that_ends_on_another_thread_takes_no_lines_from_one_that_is_under_way():
    index, other, stream = torch.zeros(2, dtype=torch.long, device=DEVICE), npu.NPUGraph(), npu.Stream()

    def inside():
        with ThreadPoolExecutor(1, initializer=npu.set_stream, initargs=(stream,)) as pool:
            pool.submit(other.capture_begin, capture_error_mode="relaxed").result()
        with npu.stream(stream):
            other.capture_end()
        return torch.ones(4, device=DEVICE)[index]

    _, graph = capture(inside, capture_error_mode="relaxed")
    index.fill_(9)
    with pytest.raises(torch.AcceleratorError, match=r"; captured at .*test_graphs\.py:\d+"):
        graph.replay()
        npu.synchronize()


def test_misuse_says_what_to_do():
    graph = npu.NPUGraph()
    with pytest.raises(RuntimeError, match="not the default one: use torch.npu.graph"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="no capture of this graph has begun"):
        graph.capture_end()
    with pytest.raises(ValueError, match="'global', 'thread_local' or 'relaxed', not 'wild'"):
        capture(lambda: None, capture_error_mode="wild")
    _, graph = capture(lambda: torch.ones(1, device=DEVICE))
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"), npu.stream(npu.Stream()):
        graph.capture_begin()


def test_a_capture_may_be_given_up_from_another_stream():
    graph = npu.NPUGraph()
    stream = npu.Stream()
    with npu.stream(stream):
        graph.capture_begin()
        assert npu.is_current_stream_capturing()
    del graph
    with npu.stream(stream):
        assert not npu.is_current_stream_capturing()
        assert torch.rand(4, device=DEVICE).max().item() < 1


def test_debug_dump_lists_the_tasks(tmp_path):
    x = torch.ones(4, device=DEVICE)
    _, graph = capture(lambda: x.mul(2).add(x))
    for _ in range(2):
        graph.debug_dump(str(tmp_path / "g.json"))
        events = json.loads((tmp_path / "g.json").read_text())
        assert [task["name"] for task in events] == ["aclnnMuls", "aclnnAdd"]
        assert [(e["ph"], e["tid"], e["ts"]) for e in events] == [("X", "stream0", 0), ("X", "stream0", 1)]
        graph.enable_debug_mode()  # changes nothing


def test_a_memory_pool_holds_what_is_allocated_in_it():
    pool = npu.MemPool()
    outside = torch.empty(1000, device=DEVICE)
    with npu.use_mem_pool(pool):
        inside = torch.empty(1000, device=DEVICE)
    after = torch.empty(1000, device=DEVICE)
    (segment,) = pool.snapshot()
    within = [
        segment["address"] <= t.data_ptr() < segment["address"] + segment["total_size"]
        for t in (outside, inside, after)
    ]
    assert within == [False, True, False]
    name = f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}.all"
    assert npu.memory_stats()[f"{name}.current"] == segment["total_size"]
    del inside, pool
    npu.empty_cache()
    assert segment["address"] not in [s["address"] for s in npu.memory_snapshot()]
    assert npu.memory_stats()[f"{name}.current"] == 0 and npu.memory_stats()[f"{name}.peak"] == segment["total_size"]
    with pytest.raises(NotImplementedError, match="use_on_oom"):
        npu.MemPool(use_on_oom=True)


def test_a_pool_that_is_none_is_refused_by_name():
    with pytest.raises(TypeError, match=r"pool is what torch.npu.graph_pool_handle\(\) .* returns, not 3"):
        npu.NPUGraph().capture_begin(pool=3)
