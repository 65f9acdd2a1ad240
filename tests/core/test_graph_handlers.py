"""Operators of a library's own in graphs whose calls are updated: handlers, and what may fail in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

npu = torch.npu


@pytest.fixture
def own() -> Iterator[Any]:
    """A library's operators: one returns a new tensor, one writes and returns another, one fails when it wrote."""
    from torch_npu.npu._npugraph_handlers import npugraph_handler

    library = torch.library.Library("graph_updates", "DEF")
    library.define("shifted(Tensor x, int[] by, float factor=1.0) -> Tensor")
    library.define("step(Tensor(a!) y, int n) -> Tensor")
    library.define("late(Tensor(a!) y, int n) -> ()")

    def step(y: torch.Tensor, n: int) -> torch.Tensor:
        y.fill_(n)
        return y * 2

    def late(y: torch.Tensor, n: int) -> None:
        y.add_(n)
        if n > 100:
            raise ValueError(f"{n} is too much")

    library.impl("shifted", lambda x, by, factor=1.0: x * factor + by[0], "PrivateUse1")
    library.impl("step", step, "PrivateUse1")
    library.impl("late", late, "PrivateUse1")

    class Handler(npu.NpuGraphOpHandler):
        @classmethod
        def update_args(cls, dispatch_record: Any, update_input: dict[str, Any]) -> None:
            if "twice" in update_input:
                dispatch_record.args[1] = [2 * update_input["twice"]]

    names = [f"{name}.default" for name in ("shifted", "step", "late")]
    npu.register_npu_graph_handler(names)(npu.NpuGraphOpHandler)
    npu.register_npu_graph_handler(names[0])(Handler)
    yield torch.ops.graph_updates
    for name in names:
        del npugraph_handler._HANDLERS[name]
    library._destroy()


def test_an_operator_of_a_library_that_registers_a_handler(own):
    x = torch.arange(4.0).npu()
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        y = own.shifted(x, [1]) * 10
    for new, expected in (({"by": [2]}, 2), ({"twice": 4}, 8), ({}, 8)):
        graph.update(cpu_update_input=[new])
        graph.replay()
        assert y.tolist() == [10.0 * (i + expected) for i in range(4)]


def test_an_operator_that_writes_and_returns_something_new(own):
    y = torch.zeros(3, device="npu")
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        twice = own.step(y, 1) + 1
    for n in (5, 7):
        graph.update(cpu_update_input=[{"n": n}])
        graph.replay()
        assert y.tolist() == [n] * 3 and twice.tolist() == [2 * n + 1] * 3


def test_an_operator_that_fails_behind_its_calls_changes_nothing(own):
    y = torch.zeros(3, device="npu")
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        own.late(y, 1)
    with pytest.raises(ValueError, match="1000 is too much"):
        graph.update(cpu_update_input=[{"n": 1000}])
    graph.replay()
    assert y.tolist() == [1.0] * 3
    graph.update(cpu_update_input=[{"n": 3}])
    graph.replay()
    assert y.tolist() == [4.0] * 3


def test_a_program_may_go_on_behind_a_call_that_failed_in_the_capture(own):
    y, kept = torch.zeros(3, device="npu"), []
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        try:
            own.late(y, 1000)
        except ValueError as error:
            kept.append(error)
        y.zero_()
        own.late(y, 2)
    for n in (4, 5):
        graph.update(cpu_update_input=[{"n": n}])
        graph.replay()
        assert y.tolist() == [n] * 3


def test_what_a_handler_leaves_alone_is_captured_as_other_operators(own):
    class Handler(npu.NpuGraphOpHandler):
        @classmethod
        def should_handle(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
            return args[1] != [1]

    npu.register_npu_graph_handler("shifted.default")(Handler)
    x = torch.arange(4.0).npu()
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        fixed, other = own.shifted(x, [1]), own.shifted(x, [2])
    graph.update(cpu_update_input=[{"by": [5]}])
    graph.replay()
    assert fixed.tolist() == [1.0, 2.0, 3.0, 4.0] and other.tolist() == [5.0, 6.0, 7.0, 8.0]


def test_arguments_have_the_names_of_update_specs(own):
    class Handler(npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"shifted.default": [("arg", 1, "lengths"), ("kwarg", "factor", "times")]}  # noqa: RUF012

    class Wrong(npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"step.default": [("arg", 7, "lengths")]}  # noqa: RUF012

    assert Handler.get_update_specs("shifted.default") == Handler.UPDATE_SPECS["shifted.default"]
    assert Handler.get_update_specs("step.default") == []
    npu.register_npu_graph_handler("shifted.default")(Handler)
    npu.register_npu_graph_handler("step.default")(Wrong)
    x, given = torch.arange(4.0).npu(), [2]
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        y = own.shifted(x, [1])
    graph.update(cpu_update_input=[{"lengths": given, "times": 10.0}])
    given[:] = [99]
    graph.replay()
    assert y.tolist() == [2.0, 12.0, 22.0, 32.0]
    graph.update(cpu_update_input=[{"times": 1.0}])
    graph.replay()
    assert y.tolist() == [2.0, 3.0, 4.0, 5.0]
    with npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        own.step(x, 1)
    with pytest.raises(ValueError, match=r"Wrong.UPDATE_SPECS: step.default has no argument \('arg', 7\).* of y, n"):
        graph.update(cpu_update_input=[{"lengths": [1]}])
    graph.replay()


def test_the_inference_mode_of_a_capture_is_its_updates(own):
    """The mode belongs to a thread. What was made in it may be changed in it alone."""
    x = torch.arange(4.0).npu()
    with torch.inference_mode(), npu.graph(graph := npu.NPUGraph(), auto_dispatch_capture=True):
        y = own.shifted(x, [1]) * 10
    graph.update(cpu_update_input=[{"by": [2]}])
    graph.replay()
    assert y.tolist() == [20.0, 30.0, 40.0, 50.0]


def test_a_handler_is_a_class_of_handlers():
    with pytest.raises(TypeError, match="is no class derived from NpuGraphOpHandler"):
        npu.register_npu_graph_handler("some.default")(int)
    with pytest.raises(TypeError, match="name is a str, not 3"):
        npu.register_npu_graph_handler([3])(npu.NpuGraphOpHandler)
