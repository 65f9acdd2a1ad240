"""NPUGraph.graph_dispatch_mode: captures without torch.npu.graph, and updates by hand, as SGLang has both."""

from __future__ import annotations

import torch

from tests.core.test_graph_updates import Attention, Graph, npu, same
from torch_npu.npu._npugraph_handlers.npugraph_handler import handler_of


def by_hand(made: Graph, lengths: list[int]) -> None:
    """As NPUGraph.update does it: the records' own arguments, on the mode's stream."""
    mode = made.graph.graph_dispatch_mode
    with npu.stream(mode.update_stream):
        for record in mode.graph_dispatch_records:
            record.kwargs["actual_seq_lengths_kv"] = lengths
            npu.graph_task_update_begin(mode.update_stream, record.handle)
            record.op_cache_entry(*record.args, **record.kwargs)
            npu.graph_task_update_end(mode.update_stream)
            record.event.record(mode.update_stream)


def test_a_capture_begun_and_ended_by_hand():
    layer, stream = Attention(1), npu.Stream()
    assert npu.NPUGraph().auto_dispatch_capture is False
    graph, out = npu.NPUGraph(), None
    graph.auto_dispatch_capture = True
    stream.wait_stream(npu.current_stream())
    npu.synchronize()
    with npu.stream(stream):
        graph.graph_dispatch_mode.__enter__()
        graph.capture_begin()
        out = layer([1, 1])
        graph.capture_end()
        graph.graph_dispatch_mode.__exit__(None, None, None)
    records = graph.graph_dispatch_mode.graph_dispatch_records
    assert [r.op_cache_entry.__name__ for r in records] == ["npu_fused_infer_attention_score.out"]
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [9, 30]}])
    graph.replay()
    assert same(out, layer([9, 30]))


def test_the_records_of_a_graph():
    made = Graph(layers=2)
    assert made.graph.auto_dispatch_capture and len(made.graph.graph_dispatch_mode.graph_dispatch_records) == 2
    with npu.graph(plain := npu.NPUGraph()):
        torch.ones(1, device="npu")
    assert not plain.auto_dispatch_capture and plain.graph_dispatch_mode.graph_dispatch_records == []
    assert plain.graph_dispatch_mode.update_stream == made.graph.graph_dispatch_mode.update_stream
    made.graph.reset()
    assert made.graph.graph_dispatch_mode.graph_dispatch_records == []


def test_updates_by_hand_before_and_behind_their_replays():
    made = Graph(layers=2)
    for step in range(1, 17):
        if step % 2:
            by_hand(made, [step, 2 * step])
        result = made.replayed()
        if not step % 2:
            by_hand(made, [step, 2 * step])
        assert same(result, made.eager([step, 2 * step], [step, 2 * step]))
    assert len(made.graph._updates._behind) <= 2  # what had its update is forgotten


def test_updates_by_hand_and_by_update_take_turns():
    made = Graph()
    for step in range(1, 9):
        result = made.replayed()
        (by_hand if step % 3 else Graph.update)(made, [step, 2 * step])
        assert same(result, made.eager([step, 2 * step]))
    made.update([3, 4])
    assert same(made.replayed(), made.eager([3, 4]))


def test_where_attention_has_its_lengths():
    for name, lengths in (
        ("npu_fused_infer_attention_score", {(5, "actual_seq_lengths"), (6, "actual_seq_lengths_kv")}),
        ("npu_fused_infer_attention_score_v2", {(7, "actual_seq_qlen"), (8, "actual_seq_kvlen")}),
        ("npu_fusion_attention_v3", {(14, "actual_seq_qlen"), (15, "actual_seq_kvlen")}),
    ):
        for overload in ("default", "out"):
            operator = getattr(getattr(torch.ops.npu, name), overload)
            specs = handler_of(operator).get_update_specs(operator.__name__)
            assert lengths <= {(place, key) for _, place, key in specs} and {kind for kind, _, _ in specs} == {"arg"}
