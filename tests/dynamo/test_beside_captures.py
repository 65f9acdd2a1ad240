"""Compiled functions that are called while the program captures, or updates, a graph of its own, or that ran before it
did: no replay is drawn into a capture, and each waits for what it would overwrite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from torch_npu.dynamo import pool

npu = torch.npu
DEVICE = "npu"


def compiled(function):
    return torch.compile(function, backend="npugraphs")


def captured(function):
    with npu.graph(npu.NPUGraph()):
        function()


def filled(value):
    return torch.full((4,), float(value), device=DEVICE)


def warm(step, stream):
    with npu.stream(stream):
        for value in range(4):
            step(filled(value))
    npu.synchronize()


@pytest.mark.parametrize("where", ["here", "on another thread"])
def test_a_replay_beside_a_capture_is_not_drawn_into_it(where):
    """Of the stream that the last replay was on: the replay waits for that replay, not for the capture."""
    step, stream = compiled(lambda x: x + 1), npu.Stream()
    warm(step, stream)
    one, x = filled(1), filled(6)
    mode = "relaxed" if where == "here" else "thread_local"

    def beside():
        with npu.stream(other):
            return step(x), npu.is_current_stream_capturing()

    npu.synchronize()
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(npu.Stream).result()
        with npu.graph(graph := npu.NPUGraph(), stream=stream, capture_error_mode=mode):
            two = one * 2
            found, drawn_in = beside() if where == "here" else thread.submit(beside).result()
            three = two + 1
    npu.synchronize()
    assert found.tolist() == [7] * 4 and not drawn_in
    graph.replay()
    assert three.tolist() == [3] * 4


def test_what_is_returned_while_a_capture_is_under_way_stays_where_it_is():
    step, around = compiled(lambda x: x + 1), npu.current_stream()
    warm(step, around)
    x = filled(3)
    npu.synchronize()
    with npu.graph(graph := npu.NPUGraph(), capture_error_mode="relaxed"):
        with npu.stream(around):
            held = step(x)
        doubled = held * 2
    for value in range(4, 7):
        step(filled(value))
    graph.replay()
    assert doubled.tolist() == [8] * 4 and held.tolist() == [4] * 4


def busy(stream):
    """Work that takes longer than what is queued behind it on other streams."""
    with npu.stream(stream):
        a = torch.ones(1000, 1000, device=DEVICE)
        for _ in range(8):
            a = (a @ a).mul_(1e-3)


@pytest.mark.parametrize("last", ["the same", "another"])
def test_a_replay_waits_for_what_a_capture_moved_on_other_streams(last):
    """The copies are behind the work of the stream that captures, on the stream that the result was given on."""
    given, moving, capturing, replaying = (npu.Stream() for _ in range(4))
    step, other = compiled(lambda x: x + 1), compiled(lambda x: x - 1)
    for function in (step, other):
        warm(function, given)
    with npu.stream(given):
        held = step(filled(1))
    if last == "another":
        with npu.stream(moving):
            other(filled(2))
    x = filled(5)
    npu.synchronize()
    busy(capturing)
    with npu.stream(capturing):
        graph = npu.NPUGraph()
        graph.capture_begin()
        x * 2
        graph.capture_end()
    with npu.stream(replaying):
        step(x)
    npu.synchronize()
    assert held.tolist() == [2] * 4


def test_a_replay_waits_for_what_was_done_to_results_since_another_threads_capture():
    step, (given, replaying), x = compiled(lambda x: x + 1), (npu.Stream(), npu.Stream()), filled(5)
    warm(step, given)
    with npu.stream(given):
        held = step(filled(1))
    npu.synchronize()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(captured, lambda: x * 2).result()
    busy(given)
    with npu.stream(given):
        doubled = held * 2
    del held
    with npu.stream(replaying):
        step(x)
    npu.synchronize()
    assert doubled.tolist() == [4] * 4


@pytest.mark.parametrize("returned", ["before", "inside of"])
def test_what_a_task_group_is_given_by_an_update_stays_where_it_is(returned):
    step, one, found, x = compiled(lambda x: x + 1), filled(1), filled(0), filled(3)
    for value in range(3):
        held = step(filled(value))
    with npu.graph(graph := npu.NPUGraph()):
        stream = npu.current_stream()
        npu.graph_task_group_begin(stream)
        torch.mul(one, 2, out=found)
        group = npu.graph_task_group_end(stream)
    if returned == "before":
        held = step(x)
    updating = npu.Stream()
    updating.wait_stream(npu.current_stream())
    npu.graph_task_update_begin(updating, group)
    if returned == "inside of":
        held = step(x)
    with npu.stream(updating):
        torch.mul(held, 2, out=found)
    npu.graph_task_update_end(updating)
    npu.current_stream().wait_stream(updating)
    for value in range(4, 7):
        step(filled(value))
    graph.replay()
    assert found.tolist() == [8] * 4 and held.tolist() == [4] * 4


def test_a_function_beside_a_stream_that_a_capture_drew_in_runs_without_a_graph():
    step, (drawn, other), x, one = compiled(lambda x: x + 1), (npu.Stream(), npu.Stream()), filled(6), filled(1)
    warm(step, npu.current_stream())
    with npu.graph(graph := npu.NPUGraph(), capture_error_mode="relaxed"):
        origin = npu.current_stream()
        with npu.stream(drawn):
            first = step(x)  # from now on the last replay's stream
            drawn.wait_stream(origin)
            two = one * 2
        with npu.stream(other):
            second = step(x)
        origin.wait_stream(drawn)
        three = two + 1
    graph.replay()
    npu.synchronize()
    assert first.tolist() == second.tolist() == [7] * 4 and three.tolist() == [3] * 4


@pytest.mark.skipif(npu.device_count() < 2, reason="needs two devices")
def test_of_a_functions_own_device_the_stream_is_asked_for_a_capture():
    step, x, one = compiled(lambda x: x + 1), filled(6), filled(1)
    warm(step, npu.current_stream())
    with npu.graph(graph := npu.NPUGraph(), capture_error_mode="relaxed"):
        with npu.device(1):
            held = step(x)  # npu:0's: a part of the graph
        found = held + one
    x.fill_(1)
    graph.replay()
    assert found.tolist() == [3] * 4


@pytest.mark.parametrize("forgotten", [False, True])
def test_what_was_let_go_is_not_overwritten_before_its_own_stream_has_read_it(forgotten):
    step, other = compiled(lambda x: x + 1), compiled(lambda x: x - 1)
    given, replaying, one, five = npu.Stream(), npu.Stream(), filled(1), filled(5)
    for function in (step, other):
        warm(function, given)
    with npu.stream(given):
        held = step(one)
    with npu.stream(replaying):
        other(five)
    npu.synchronize()
    busy(given)
    with npu.stream(given):
        doubled = held * 2
    del held
    if forgotten:  # as when a function is collected
        pool.of(0).close(())
    with npu.stream(replaying):
        step(five)
    npu.synchronize()
    assert doubled.tolist() == [4] * 4
