"""NPUGraph.update: captured calls of attention have other lengths in each replay, without a task group in sight."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any

import pytest
import torch

import torch_npu
from tests.core.tools import output

npu = torch.npu


class Attention:
    """Decoding: two sequences, a query each, keys and values of up to 32 positions, of which `lengths` are there."""

    def __init__(self, seed: int):
        made = torch.Generator().manual_seed(seed)
        self.q = torch.randn(2, 1, 64, generator=made).half().npu()
        self.k, self.v = (torch.randn(2, 32, 64, generator=made).half().npu() for _ in range(2))

    def __call__(self, lengths: list[int]) -> torch.Tensor:
        return torch_npu.npu_fused_infer_attention_score(
            self.q, self.k, self.v, actual_seq_lengths_kv=lengths, num_heads=2, input_layout="BSH", scale=0.125
        )[0]


class Graph:
    """Layers of attention whose results are added up."""

    def __init__(self, layers: int = 1):
        self.layers = [Attention(seed) for seed in range(layers)]
        self.graph = npu.NPUGraph()
        with npu.graph(self.graph, auto_dispatch_capture=True):
            self.out = torch.stack([layer([1, 1]) for layer in self.layers]).sum(0) + 1

    def update(self, *lengths: list[int]) -> None:
        self.graph.update(cpu_update_input=[{"actual_seq_lengths_kv": x} if x else {} for x in lengths])

    def replayed(self) -> torch.Tensor:
        self.graph.replay()
        return self.out.clone()

    def eager(self, *lengths: list[int]) -> torch.Tensor:
        return torch.stack([layer(x) for layer, x in zip(self.layers, lengths, strict=True)]).sum(0) + 1


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    return torch.equal(x.cpu(), y.cpu())


def test_each_replay_has_the_lengths_of_its_update():
    made = Graph(layers=2)
    for lengths in ([3, 32], [17, 5], [32, 31], [1, 2]):
        made.update(lengths)
        assert same(made.replayed(), made.eager(lengths, lengths))


def test_one_dict_for_each_call_and_an_empty_one_changes_nothing():
    made = Graph(layers=2)
    made.update([4, 6], [9, 30])
    assert same(made.replayed(), made.eager([4, 6], [9, 30]))
    made.update([], [2, 12])
    assert same(made.replayed(), made.eager([4, 6], [2, 12]))
    made.update([7, 7], [])
    assert same(made.replayed(), made.eager([7, 7], [2, 12]))


def test_updates_of_a_graph_on_another_device_than_the_current():
    steps = [3, 30], [9, 2]
    with npu.device(1):
        made, gate, stream, side = Graph(), npu.ExternalEvent(), npu.current_stream(), npu.Stream()
        wanted = [made.eager(lengths).cpu() for lengths in steps]
    gate.wait(stream)
    seen = []
    for lengths in steps:
        made.update(lengths)
        seen.append(made.replayed())
        if len(seen) == 1:
            first = stream.record_event()
    gate.record(side)
    first.synchronize()
    with npu.stream(side):
        assert same(seen[0], wanted[0])
    assert same(seen[1], wanted[1])


def test_a_replay_waits_for_its_update():
    made, steps = Graph(), ([5, 5], [6, 20], [32, 1])
    with npu.stream(npu.Stream()):
        seen = [made.replayed() for _ in steps]
        for lengths in steps:
            made.update(lengths)
    npu.synchronize()
    for result, lengths in zip(seen, steps, strict=True):
        assert same(result, made.eager(lengths))


def test_an_update_in_front_of_the_formers_replay_takes_its_place():
    made = Graph()
    for lengths in ([5, 5], [6, 20], [32, 1]):
        made.update(lengths)
    assert same(made.replayed(), made.eager([32, 1]))
    made.update([9, 9])
    assert same(made.replayed(), made.eager([9, 9]))


def test_updates_of_another_thread_meet_their_replays():
    """As serving programs have it: a thread updates while the graph is replayed."""
    made, draw = Graph(layers=2), random.Random(3)
    steps = [[draw.randint(1, 32), draw.randint(1, 32)] for _ in range(60)]
    seen = []
    for lengths in steps:
        thread = threading.Thread(target=made.update, args=(lengths,))
        thread.start()
        seen.append(made.replayed())
        thread.join()
    for result, lengths in zip(seen, steps, strict=True):
        assert same(result, made.eager(lengths, lengths))


def test_threads_that_run_ahead_of_each_other_keep_the_pairs():
    made, draw = Graph(), random.Random(4)
    steps = [[draw.randint(1, 32), draw.randint(1, 32)] for _ in range(60)]
    ahead, stream, seen = threading.Semaphore(0), npu.Stream(), []

    def replays() -> None:
        with npu.stream(stream):
            for _ in steps:
                seen.append(made.replayed())
                ahead.release()

    thread = threading.Thread(target=replays)
    thread.start()
    for lengths in steps:
        ahead.acquire()  # an update in front of the former one's replay would take its place
        made.update(lengths)
    thread.join()
    stream.synchronize()
    for result, lengths in zip(seen, steps, strict=True):
        assert same(result, made.eager(lengths))


def test_the_call_that_is_given_its_outputs():
    layer = Attention(5)
    out, lse = torch.zeros_like(layer.q), torch.zeros(1, device="npu")
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        torch_npu.npu_fused_infer_attention_score.out(
            *(layer.q, layer.k, layer.v),
            actual_seq_lengths_kv=[1, 1],
            num_heads=2,
            input_layout="BSH",
            scale=0.125,
            out=[out, lse],
        )
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [20, 3]}])
    graph.replay()
    assert same(out, layer([20, 3]))


def test_the_second_versions_names():
    layer = Attention(6)

    def attend(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch_npu.npu_fused_infer_attention_score_v2(
            *(layer.q, layer.k, layer.v),
            actual_seq_kvlen=lengths,
            num_query_heads=2,
            input_layout="BSH",
            softmax_scale=0.125,
            return_softmax_lse=True,
        )

    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        results = attend([4, 4])
    graph.update(cpu_update_input=[{"actual_seq_kvlen": [30, 8]}])
    graph.replay()
    for found, expected in zip(results, attend([30, 8]), strict=True):
        assert same(found, expected)
    with pytest.warns(UserWarning, match="has no argument 'actual_seq_lengths_kv', .* actual_seq_kvlen") as told:
        graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [1, 1]}])
    assert told[0].filename == __file__
    graph.replay()
    assert same(results[0], attend([30, 8])[0])


def test_training_attention_forward_and_backward_in_one_graph():
    made = torch.Generator().manual_seed(7)
    q, k, v, dy = (torch.randn(256, 2, 32, generator=made).half().npu() for _ in range(4))

    def ends(*lengths: int) -> torch.Tensor:
        return torch.tensor(lengths).cumsum(0)

    def both(queries: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, ...]:
        lengths: dict[str, Any] = {"actual_seq_qlen": queries, "actual_seq_kvlen": keys}
        score, biggest, total, *_ = torch_npu.npu_fusion_attention_v3(q, k, v, 2, "TND", scale=0.1, **lengths)
        gradients = torch_npu.npu_fusion_attention_grad_v3(
            *(q, k, v, dy, 2, "TND"),
            softmax_max=biggest,
            softmax_sum=total,
            attention_in=score,
            scale_value=0.1,
            **lengths,
        )
        return score, *gradients[:3]

    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        found = both(ends(128, 128), ends(128, 128))
    new = {"actual_seq_qlen": ends(64, 192), "actual_seq_kvlen": ends(192, 64)}
    graph.update(cpu_update_input=[new])
    graph.replay()
    for x, y in zip(found, both(*new.values()), strict=True):
        assert same(x, y)


def test_trainings_attention_without_lengths_waits_for_no_update():
    made = torch.Generator().manual_seed(8)
    q, k, v = (torch.randn(1, 2, 32, 32, generator=made).half().npu() for _ in range(3))
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        out = torch_npu.npu_fusion_attention_v3(q, k, v, 2, "BNSD", scale=0.1)[0]
    q.mul_(2)
    graph.replay()
    assert same(out, torch_npu.npu_fusion_attention_v3(q, k, v, 2, "BNSD", scale=0.1)[0])
    assert graph.graph_dispatch_mode.graph_dispatch_records == []


def test_a_list_is_taken_as_it_is_at_the_update():
    made, lengths = Graph(layers=2), [5, 5]
    made.update(lengths)
    assert same(made.replayed(), made.eager([5, 5], [5, 5]))
    lengths[:] = [99, 99]
    with pytest.raises(RuntimeError, match="33"):
        made.update([7, 7], [1, 33])
    assert same(made.replayed(), made.eager([5, 5], [5, 5]))
    made.graph.update(cpu_update_input=[{"scale": 0.125}])
    assert same(made.replayed(), made.eager([5, 5], [5, 5]))


def test_compiled_functions_run_compiled_in_the_capture():
    calls = []

    def backend(module: Any, inputs: Any) -> Any:
        def run(*arguments: Any) -> Any:
            calls.append(1)
            return module(*arguments)

        return run

    function = torch.compile(lambda x: x * 2 + 1, backend=backend)
    x = torch.arange(4.0).npu()
    function(x)
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        y = function(x)
    assert len(calls) == 2
    graph.replay()
    assert y.tolist() == [1.0, 3.0, 5.0, 7.0]


def test_a_context_is_used_again():
    layer, graph = Attention(2), npu.NPUGraph()
    context = npu.graph(graph, auto_dispatch_capture=True)
    for lengths in ([4, 5], [6, 7]):
        with context:
            out = layer([1, 1])
        graph.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])
        graph.replay()
        assert same(out, layer(lengths))
        graph.reset()


def test_the_fourth_argument_is_cudas_or_the_vendors():
    graph = npu.NPUGraph()
    cuda, vendor = npu.graph(graph, None, None, "thread_local"), npu.graph(graph, None, None, True, "relaxed")
    assert (cuda.mode, cuda.auto_dispatch_capture) == ("thread_local", False)
    assert (vendor.mode, vendor.auto_dispatch_capture) == ("relaxed", True)
    with pytest.raises(TypeError, match="auto_dispatch_capture is a bool, not None"):
        npu.graph(graph, None, None, None)


def test_an_update_that_is_refused_leaves_all_calls_as_they_were():
    made = Graph(layers=2)
    made.update([4, 6], [9, 30])
    assert same(made.replayed(), made.eager([4, 6], [9, 30]))
    with pytest.raises(RuntimeError, match="npu_fused_infer_attention_score"):
        made.update([5, 5], [1, 33])  # more than there are
    assert same(made.replayed(), made.eager([4, 6], [9, 30]))
    with pytest.raises(RuntimeError):
        made.update([5, 5], [1, 33])
    made.update([8, 8], [2, 2])
    assert same(made.replayed(), made.eager([8, 8], [2, 2]))


def test_what_does_not_fit_is_refused():
    made = Graph(layers=2)
    for given, error, words in (
        ([{}, {}, {}], ValueError, "2 calls were captured: give one dict for all, or one for each, not 3"),
        ([], ValueError, "not 0"),
        ({"actual_seq_lengths_kv": [1, 1]}, TypeError, "a list of dicts"),
        ([[1, 1]], TypeError, "a list of dicts"),
    ):
        with pytest.raises(error, match=words):
            made.graph.update(cpu_update_input=given)
    made.update([2, 2])
    assert same(made.replayed(), made.eager([2, 2], [2, 2]))


def test_a_graph_without_such_calls_has_nothing_to_update():
    x = torch.ones(3, device="npu")
    with npu.graph(plain := npu.NPUGraph()):
        x + 1
    with pytest.raises(RuntimeError, match=r"capture it with torch.npu.graph\(graph, auto_dispatch_capture=True\)"):
        plain.update(cpu_update_input=[{}])
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        y = x + 1
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [1]}])
    graph.replay()
    assert y.tolist() == [2.0] * 3
    graph.reset()
    with pytest.raises(RuntimeError, match="no calls that can change"):
        graph.update(cpu_update_input=[{}])


def test_such_a_graph_is_no_part_of_another():
    made = Graph()
    with pytest.raises(RuntimeError, match="cannot be part of another graph"), npu.graph(npu.NPUGraph()):
        made.graph.replay()
    made.update([3, 3])
    assert same(made.replayed(), made.eager([3, 3]))


def test_a_call_that_is_refused_in_the_capture_is_the_error_that_is_told():
    layer = Attention(1)
    with (
        pytest.raises(RuntimeError, match="npu_fused_infer_attention_score"),
        npu.graph(npu.NPUGraph(), auto_dispatch_capture=True),
    ):
        layer([1, 33])
    assert layer([1, 2]).shape == (2, 1, 64)


def test_a_graph_that_goes_takes_its_calls_tensors_with_it():
    made = Graph()
    made.update([3, 3])
    made.replayed()
    key = weakref.ref(made.layers[0].k)
    del made
    gc.collect()
    assert key() is None


def test_a_graph_may_go_before_its_replays_have_run():
    made, stream, gate = Graph(), npu.Stream(), npu.ExternalEvent()
    expected = made.eager([3, 9])
    out = made.out
    gate.wait(stream)
    made.update([3, 9])
    with npu.stream(stream):
        made.graph.replay()
        result = out.clone()
    del made
    gc.collect()
    gate.record()
    stream.synchronize()
    assert same(result, expected)


def test_a_graph_of_another_device():
    program = """
import torch, torch_npu
from tests.core.test_graph_updates import Graph, same
with torch.npu.device(1):
    made = Graph(layers=2)
for lengths in ([3, 32], [17, 5]):
    made.update(lengths)
    with torch.npu.device(1):
        result = made.replayed()
        assert result.device.index == 1 and same(result, made.eager(lengths, lengths))
print("right")
"""
    assert output(program, ANYCEND_DEVICES="2") == "right"
