"""Pinned memory of captured work: csrc/core/pinned.cpp. Freed by the program it is the graph's until that is reset."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from tests.core.tools import Gate
from tests.older import OLDER

npu = torch.npu
SIZE = 64


def pinned(value: float) -> torch.Tensor:
    return torch.full((SIZE,), value).pin_memory()


def of(value: float) -> list[float]:
    return [value] * SIZE


def others() -> list[torch.Tensor]:
    """Enough to take every free block of that size."""
    return [pinned(-1.0) for _ in range(32)]


def addresses(tensors: list[torch.Tensor]) -> set[int]:
    return {tensor.data_ptr() for tensor in tensors}


def replayed(graph: Any, y: torch.Tensor) -> list[float]:
    graph.replay()
    return y.tolist()


@pytest.fixture
def y() -> torch.Tensor:
    return torch.zeros(SIZE, device="npu")


def test_what_a_capture_pins_is_the_graphs(y):
    with npu.graph(graph := npu.NPUGraph()):
        x = pinned(7.0)
        y.copy_(x, non_blocking=True)
    del x
    taken = others()
    assert replayed(graph, y) == of(7.0)
    npu.host_empty_cache()
    assert replayed(graph, y) == of(7.0)
    del taken


def test_so_is_what_it_only_uses(y):
    x = pinned(7.0)
    with npu.graph(graph := npu.NPUGraph()):
        y.copy_(x, non_blocking=True)
    del x
    taken = others()
    assert replayed(graph, y) == of(7.0)
    del taken


def test_and_what_a_capture_writes():
    source = torch.full((SIZE,), 5.0, device="npu")
    with npu.graph(graph := npu.NPUGraph()):
        x = torch.empty(SIZE, pin_memory=True)
        x.copy_(source, non_blocking=True)
    del x
    taken = others()
    graph.replay()
    npu.synchronize()
    assert {value for tensor in taken for value in tensor.tolist()} == {-1.0}


def test_a_capture_does_not_use_a_block_twice(y):
    z = torch.zeros_like(y)
    with npu.graph(graph := npu.NPUGraph()):
        y.copy_(pinned(3.0), non_blocking=True)
        z.copy_(pinned(5.0), non_blocking=True)
    assert replayed(graph, y) == of(3.0) and z.tolist() == of(5.0)


@pytest.mark.parametrize("gone", ["reset", "destroyed"])
def test_a_graph_that_is_gone_gives_it_back(y, gone):
    with npu.graph(graph := npu.NPUGraph()):
        x = pinned(7.0)
        y.copy_(x, non_blocking=True)
    address = x.data_ptr()
    del x
    assert replayed(graph, y) == of(7.0)
    taken = others()
    assert address not in addresses(taken)
    if gone == "reset":
        graph.reset()
    del graph
    gc.collect()
    assert address in addresses(others())
    del taken


def test_captures_in_a_loop_do_not_grow(y):
    def active() -> int:  # 2.10 counts freed memory as active until it is used again
        return npu.host_memory_stats()["allocated_bytes.current" if OLDER else "active_bytes.current"]

    gc.collect()
    npu.synchronize()
    npu.host_empty_cache()
    before = active()
    for _ in range(20):
        with npu.graph(graph := npu.NPUGraph()):
            x = pinned(1.0)
            unused = pinned(2.0)
            y.copy_(x, non_blocking=True)
        graph.replay()
        del x, unused
        graph.reset()
    npu.synchronize()
    npu.host_empty_cache()
    assert active() == before


@pytest.mark.parametrize("order", ["freed first", "reset first"])
def test_a_replay_under_way_keeps_it_from_the_next(y, order):
    """Also on a stream that it was not captured on, and when the graph is gone before the tensor is."""
    with npu.graph(graph := npu.NPUGraph()):
        x = pinned(7.0)
        y.copy_(x, non_blocking=True)
    address, stream = x.data_ptr(), npu.Stream()
    with npu.stream(stream):
        gate = Gate(stream)
        graph.replay()
    try:
        if order == "freed first":
            del x
        graph.reset()
        x = None
        taken = others()
        assert address not in addresses(taken)
    finally:
        gate.open()
    stream.synchronize()
    assert y.tolist() == of(7.0)
    assert address in addresses(others())


def test_of_two_graphs_the_last_gives_it_back(y):
    pool, graphs = npu.graph_pool_handle(), [npu.NPUGraph(), npu.NPUGraph()]
    x = pinned(7.0)
    for graph in graphs:
        with npu.graph(graph, pool=pool):
            y.copy_(x, non_blocking=True)
    address = x.data_ptr()
    del x
    graphs[0].reset()
    taken = others()
    y.zero_()
    assert address not in addresses(taken) and replayed(graphs[1], y) == of(7.0)
    graphs[1].reset()
    assert address in addresses(others())


@pytest.mark.parametrize("second", [0, 1])
def test_two_captures_at_once(second):
    """On two streams, of one device or of two: each block is its own graph's."""
    if second >= npu.device_count():
        pytest.skip("one device")
    streams = [npu.Stream(0), npu.Stream(second)]
    graphs = [npu.NPUGraph(), npu.NPUGraph()]
    results = [torch.zeros(SIZE, device=stream.device) for stream in streams]
    npu.synchronize(0), npu.synchronize(second)
    for graph, stream in zip(graphs, streams, strict=True):
        with npu.stream(stream):
            graph.capture_begin(capture_error_mode="relaxed")
    blocks = []
    for number, (stream, result) in enumerate(zip(streams, results, strict=True)):
        with npu.stream(stream):
            blocks.append(pinned(float(number)))
            result.copy_(blocks[-1], non_blocking=True)
    for graph, stream in zip(graphs, streams, strict=True):
        with npu.stream(stream):
            graph.capture_end()
    first = blocks[0].data_ptr()
    blocks.clear()
    graphs[0].reset()
    taken = others()
    assert first in addresses(taken)
    with npu.device(second):
        assert replayed(graphs[1], results[1]) == of(1.0)


@pytest.mark.parametrize("pinned_before", [False, True])
def test_what_an_update_uses_is_its_groups(y, pinned_before):
    with npu.graph(graph := npu.NPUGraph()):
        stream = npu.current_stream()
        npu.graph_task_group_begin(stream)
        y.copy_(pinned(2.0), non_blocking=True)
        handle = npu.graph_task_group_end(stream)
    stream, x = npu.current_stream(), pinned(5.0)
    npu.graph_task_update_begin(stream, handle)
    if not pinned_before:
        x = pinned(5.0)
    y.copy_(x, non_blocking=True)
    npu.graph_task_update_end(stream)
    del x
    taken = others()
    assert replayed(graph, y) == of(5.0)
    del taken


def test_a_graph_that_captured_a_replay_keeps_what_that_needs(y):
    with npu.graph(inner := npu.NPUGraph()):
        x = pinned(7.0)
        z = torch.zeros(SIZE, device="npu")
        z.copy_(x, non_blocking=True)
        y.copy_(z)
    with npu.graph(outer := npu.NPUGraph()):
        inner.replay()
    address = x.data_ptr()
    del x, z
    inner.reset()
    npu.synchronize()
    npu.empty_cache()
    taken = [*others(), *(torch.full((SIZE,), -1.0, device="npu") for _ in range(32))]
    assert replayed(outer, y) == of(7.0)
    outer.reset()
    assert address in addresses(others())
    del taken
