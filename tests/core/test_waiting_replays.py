"""Replays in front of their update: nobody else waits for them, who forgets the update is told, programs end."""

from __future__ import annotations

import queue
import warnings

import pytest

from tests.core.test_graph_updates import Graph, npu, same
from tests.core.tools import run
from tests.forked import run as python
from tests.nursery import ROOT

PRELUDE = """
import atexit, sys, threading
import torch, torch_npu
from tests.core.test_graph_updates import Graph, same
"""


def test_graphs_do_not_wait_for_each_others_updates():
    """More graphs than a device's pool has streams. The first one's second update waits for its first replay, which is
    behind the last one's, whose update comes after."""
    program = """
graphs = [Graph() for _ in range(33)]
first, last = graphs[0], graphs[-1]
with torch.npu.stream(torch.npu.Stream()):
    seen = [last.replayed(), first.replayed(), first.replayed()]
first.update([3, 4])
first.update([5, 6])
last.update([7, 8])
torch.npu.synchronize()
assert same(seen[0], last.eager([7, 8])) and same(seen[1], first.eager([3, 4])) and same(seen[2], first.eager([5, 6]))
print("right")
"""
    assert run(PRELUDE + program).stdout == "right\n"


def test_the_stream_of_a_graphs_updates_is_the_next_ones_when_it_is_gone():
    def updated() -> int:
        made = Graph()
        made.update([3, 4])
        made.replayed()
        npu.synchronize()
        return made.graph._updates.stream.npu_stream

    assert len({updated() for _ in range(3)}) == 1


def test_a_replay_that_waits_long_is_told_once_a_graph(monkeypatch):
    from torch_npu.npu import _waiting_replays

    told: queue.Queue = queue.Queue()
    monkeypatch.setattr(warnings, "warn_explicit", lambda *arguments: told.put(arguments))
    monkeypatch.setattr(_waiting_replays, "PATIENCE", 0.05)
    one, two = Graph(), Graph(layers=2)
    with npu.stream(npu.Stream()):
        first = one.replayed()
    text, category, file, _ = told.get()
    assert "replay 1 of a graph with 1 call of npu_fused_infer_attention_score waits on npu:0 for its" in text
    assert "call graph.update(cpu_update_input=[...]) for each" in text and category is UserWarning
    assert file.endswith("test_graph_updates.py")  # its replayed()
    one.update([5, 6])
    with npu.stream(npu.Stream()):
        second = one.replayed()
    with npu.stream(npu.Stream()):
        third = two.replayed()
    assert "a graph with 2 calls of" in told.get()[0]  # and not the first graph's again, which has waited longer
    one.update([7, 8])
    two.update([9, 10])
    npu.synchronize()
    assert same(first, one.eager([5, 6])) and same(second, one.eager([7, 8]))
    assert same(third, two.eager([9, 10], [9, 10])) and told.empty()


ENDS = {
    "one": ("made.graph.replay(); made.graph.replay()", 2),
    "gone": ("made.graph.replay(); del made", 1),
    "behind an update": ("made.update([3, 4]); made.graph.replay(); made.graph.replay()", 1),
    "mixed": (
        """
other, side = Graph(layers=2), torch.npu.Stream()
with torch.npu.stream(side):
    made.graph.replay(); other.graph.replay(); made.graph.replay()
other.graph.replay()
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side):
    made.graph.replay()
other.update([3, 4], [5, 6])
""",
        4,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_program_ends_with_an_error_that_names_what_waited(name):
    lines, count = ENDS[name]
    done = run(f"{PRELUDE}\nmade = Graph()\n{lines}\nprint('the last line')", check=False)
    assert (done.stdout, done.returncode) == ("the last line\n", 120)
    waited = f"{count} replay{'s' * (count > 1)} waited for NPUGraph.update() in vain: a graph with"
    assert waited in done.stderr and "npu_fused_infer_attention_score, replayed at " in done.stderr
    assert "[{}] where nothing changes" in done.stderr


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_a_child_ends_with_that_error_too(method, tmp_path):
    program = f"""
import multiprocessing
{PRELUDE}
def work():
    Graph().graph.replay()
if __name__ == "__main__":
    child = multiprocessing.get_context("{method}").Process(target=work)
    child.start()
    child.join()
    print(child.exitcode)
"""
    (file := tmp_path / "program.py").write_text(program)
    done = python([file], cwd=ROOT)
    assert (done.stdout, done.returncode) == ("1\n", 0)
    assert "1 replay waited for NPUGraph.update() in vain" in done.stderr


def test_an_update_that_comes_behind_the_last_line_is_the_replays():
    program = """
made, go = Graph(), threading.Event()
def update():
    go.wait()
    made.update([9, 30])
threading.Thread(target=update, daemon=True).start()
atexit.register(lambda: print(same(result, made.eager([9, 30]))))   # behind the end of what waits
result = made.replayed()
atexit.register(go.set)                                             # in front of it
"""
    done = run(PRELUDE + program)
    assert done.stdout == "True\n" and done.stderr == ""


def test_updates_that_came_are_nothing_to_tell():
    done = run(f"{PRELUDE}\nmade = Graph()\nfor _ in range(3): made.graph.replay(); made.update([3, 4])\nprint('end')")
    assert done.stdout == "end\n" and done.stderr == ""
