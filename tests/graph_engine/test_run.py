"""Graphs run: order, constants, results, dynamic shapes, variables written in place; errors name node and type."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.graph_engine.border import Refused, Session, Tensors
from tests.graph_engine.proto import Graph

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def relu_plus(value: float) -> bytes:
    graph = Graph()
    x = graph.data(0, "float32", [-1, 3])
    moved = graph.node("Add", {"x1": x, "x2": graph.const(value, "float32")}, name="moved")
    graph.result(graph.node("Relu", {"x": moved}))
    return graph.bytes()


def test_a_chain(session):
    (got,) = session.once(relu_plus(-2.0), [X])
    assert got.tolist() == np.maximum(X - 2, 0).tolist()


def test_a_graph_runs_again_with_other_shapes(session):
    session.add(900, relu_plus(1.0))
    for rows in (1, 5, 0, 2):
        x = np.ones((rows, 3), np.float32)
        (got,) = session.run(900, [x])
        assert got.shape == (rows, 3) and (got == 2).all()
    session.remove(900)


def test_the_order_follows_the_edges_not_the_list(session):
    graph = Graph()
    graph.result("late:0")
    graph.node("Neg", {"x": "early:0"}, name="late")
    graph.node("Abs", {"x": "Data_0:0"}, name="early")
    graph.data(0, "float32", [2, 3])
    (got,) = session.once(graph.bytes(), [-X])
    assert got.tolist() == (-X).tolist()


def test_inputs_results_and_constants_come_out_as_copies(session):
    graph = Graph()
    x, seven = graph.data(0, "float32", [2, 3]), graph.const([7, 8], "int64")
    flat = graph.node("Reshape", {"x": x, "shape": graph.const([6])})
    graph.result(x, seven, flat, flat)
    got = session.once(graph.bytes(), [X], 4)
    assert [g.tolist() for g in got] == [X.tolist(), [7, 8], X.ravel().tolist(), X.ravel().tolist()]


def test_shapes_are_numbers(session):
    graph = Graph()
    x = graph.data(0, "float32", [-1, -1])
    shape = graph.node("Shape", {"x": x}, {"dtype": 9})
    rows, columns = (graph.node("Gather", {"x": shape, "indices": graph.const(i)}) for i in (0, -1))
    area = graph.node("Mul", {"x1": rows, "x2": columns})
    packed = graph.node("Pack", {"x0": area, "x1": graph.const(1)}, {"axis": 0, "N": 2})
    graph.result(graph.node("Reshape", {"x": x, "shape": packed}))
    assert session.once(graph.bytes(), [X])[0].shape == (6, 1)
    assert session.once(graph.bytes(), [np.zeros((4, 5), np.float32)])[0].shape == (20, 1)


def cache_graph(after: bool) -> bytes:
    """Reads a variable before and after a node writes it."""
    graph = Graph()
    cache = graph.data(0, "float32", [2, 4, 1], "RefData")
    before = graph.node("Identity", {"x": cache}, name="before")
    written = graph.node(
        "Scatter", {"var": cache, "indices": graph.const([1, 2]), "updates": graph.data(1, "float32", [2, 1, 1])},
        {"reduce": "update", "axis": 1}, name="write",
    )  # fmt: skip
    read = graph.node("Neg", {"x": cache}, name="read", after=("write:0",) if after else ())
    graph.result(before, read, written)
    return graph.bytes()


def test_a_variable_is_written_in_place_between_its_readers(session):
    cache, update = np.zeros((2, 4, 1), np.float32), np.array([[[5.0]], [[6.0]]], np.float32)
    before, read, written = session.once(cache_graph(after=True), [cache, update], 3)
    assert before.any() == 0
    assert written[:, :, 0].tolist() == [[0, 5, 0, 0], [0, 0, 6, 0]]
    assert read.tolist() == (-written).tolist()
    assert cache.tolist() == written.tolist()


def test_an_edge_without_a_value_holds_a_node_back(session):
    graph = Graph()
    cache = graph.data(0, "float32", [2], "RefData")
    graph.node("Neg", {"x": cache}, name="read", after=("write:0",))
    graph.node("Assign", {"ref": cache, "value": graph.const([3.0, 4.0], "float32")}, name="write")
    graph.result("read:0")
    (read,) = session.once(graph.bytes(), [np.zeros(2, np.float32)])
    assert read.tolist() == [-3, -4]


def test_a_value_that_others_still_need_is_not_written(session):
    graph = Graph()
    x = graph.node("Abs", {"x": graph.data(0, "float32", [2])}, name="temporary")
    written = graph.node("Assign", {"ref": x, "value": graph.const([9.0, 9.0], "float32")})
    graph.result(written, graph.node("Neg", {"x": x}, after=(written,)))
    written, read = session.once(graph.bytes(), [np.array([1.0, -2.0], np.float32)], 2)
    assert written.tolist() == [9, 9] and read.tolist() == [-1, -2]


def test_a_value_may_be_a_result_twice(session):
    graph = Graph()
    y = graph.node("Abs", {"x": graph.data(0, "float32", [2, 3])})
    graph.result(y, graph.node("Identity", {"x": y}), y)
    assert all((got == X).all() for got in session.once(graph.bytes(), [-X], 3))


def one(kind: str, inputs: dict, attrs: dict | None = None) -> bytes:
    graph = Graph()
    given = {name: graph.data(0, "float32", [2, 3]) if value is ... else value for name, value in inputs.items()}
    graph.result(graph.node(kind, given, attrs, name="the_node"))
    return graph.bytes()


REFUSED = {
    "a type without a row": (one("Einsum", {"x": ...}), "node 'the_node' (Einsum): the software NPU's graph engine has no"),
    "an input that is missing": (one("Add", {"x1": ...}), "node 'the_node' (Add): input 'x2' is missing"),
    "an input that the row does not know": (one("Relu", {"x": ..., "z": "Data_0:0"}), "input 1 'z' is not supported"),
    "an attribute that is missing": (one("Cast", {"x": ...}), "node 'the_node' (Cast): attribute 'dst_type' is missing"),
    "an attribute of another kind": (one("Swish", {"x": ...}, {"scale": "1"}), "attribute 'scale' is not a floating point number"),
    "a dimension that is not there": (one("SoftmaxV2", {"x": ...}, {"axes": [5]}), "node 'the_node' (SoftmaxV2): dimension 5 of a tensor with 2"),
    "what the row refuses": (one("Exp", {"x": ...}, {"base": 2.0}), "node 'the_node' (Exp): another base than e"),
    "a group that nobody made": (
        one("HcomAllReduce", {"x": ...}, {"reduction": "sum", "group": "nobody"}), "node 'the_node' (HcomAllReduce): "),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_names_node_and_type(session, name):
    data, said = REFUSED[name]
    with pytest.raises(Refused) as refused:
        session.once(data, [X])
    assert said in str(refused.value)
    assert session.once(relu_plus(0.0), [X])[0].tolist() == X.tolist()  # and the session works on


def test_an_input_of_another_shape_or_type_is_refused(session):
    with pytest.raises(
        Refused, match=r"node 'Data_0' \(Data\): it is declared with shape \[-1, 3\], and the input has \[2\]"
    ):
        session.once(relu_plus(0.0), [np.zeros(2, np.float32)])
    with pytest.raises(Refused, match="declared as float32, and the input is int64"):
        session.once(relu_plus(0.0), [np.zeros((2, 3), np.int64)])
    with pytest.raises(Refused, match="the graph takes 1 inputs, 0 are given"):
        session.once(relu_plus(0.0), [])


def test_a_result_lies_on_the_device_and_at_the_client(session, monkeypatch):
    """And nowhere else meanwhile: a result may be as large as memory allows."""
    size = 128 << 20
    monkeypatch.setattr(Tensors, "get", lambda self, n: None)

    def filled(count: int) -> bytes:
        graph = Graph()
        graph.result(graph.node("Fill", {"dims": graph.const([count]), "value": graph.const(1, "uint8")}))
        return graph.bytes()

    session.once(filled(9), [])  # what is made once
    status = Path("/proc/self/status")

    def field(name: str) -> int:
        return 1024 * int(re.search(rf"{name}:\s+(\d+)", status.read_text()).group(1))

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = field("VmRSS")
    session.once(filled(size), [])
    assert field("VmHWM") - before < 2.5 * size


def test_a_result_that_is_left_out_is_none(session):
    graph = Graph()
    x = graph.data(0, "float32", [2, 3])
    graph.node("NetOutput", {"input0": None, "input1": x}, name="NetOutput", outputs=0)
    (got,) = session.once(graph.bytes(), [X])
    assert got.tolist() == X.tolist()


def test_a_graph_that_is_not_there(session):
    with pytest.raises(Refused, match="the session has no graph 12345"):
        session.run(12345, [X])


def test_threads_share_a_session(session):
    wrong = []

    def work(number: int) -> None:
        for turn in range(20):
            x = np.full((2, 3), number + turn, np.float32)
            if not (session.once(relu_plus(1.0), [x])[0] == x + 1).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_session_ends_with_its_graphs():
    session = Session()
    session.add(1, relu_plus(0.0))
    session.close()
