"""Bytes that are no graph: an error that says where and what, never a crash."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_engine import proto
from tests.graph_engine.border import Graph, Refused


def small() -> bytes:
    graph = proto.Graph()
    x = graph.data(0, "float32", [2, 3])
    shape = graph.const([3, 2])
    graph.result(graph.node("Reshape", {"x": x, "shape": shape}, {"axis": 0, "num_axes": -1}, name="turned"))
    return graph.bytes()


def graph_of(*ops: bytes) -> bytes:
    return proto.message(7, proto.message(1, "graph") + b"".join(proto.message(6, op) for op in ops))


def op(name: str, kind: str, *more: bytes) -> bytes:
    return proto.message(1, name) + proto.message(2, kind) + b"".join(more)


def refusal(data: bytes) -> str:
    with pytest.raises(Refused) as refused:
        Graph(data)
    return str(refused.value)


def test_a_graph_is_read():
    assert Graph(small())


def test_every_cut_is_an_error_or_a_graph():
    data, refused = small(), 0
    for end in range(len(data)):
        try:
            Graph(data[:end])
        except Refused as error:
            refused += "ge::Graph::LoadFromSerializedModelArray: " in str(error)
    assert refused == len(data)


def test_every_changed_byte_is_an_error_or_a_graph():
    data = small()
    seen = set()
    for at in range(len(data)):
        for value in (0, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 8):
            try:
                Graph(data[:at] + bytes([value]) + data[at + 1 :])
            except Refused as error:
                seen.add(str(error).split(": ")[1][:12])
    assert seen


HOSTILE = {
    "a length of 2^62": (proto.varint(7 << 3 | 2) + proto.varint(1 << 62), "a value of 4611686018427387904 bytes"),
    "a number without an end": (b"\xff" * 11, "a number of more than 64 bits"),
    "an unfinished number": (b"\x80", "it ends inside of a number"),
    "field 0": (b"\x02\x00", "a field with the number 0"),
    "an unknown kind": (b"\x0b\x00", "a value of the unknown kind 3"),
    "no graph": (proto.message(1, "model"), "no graph in it"),
    "two graphs": (graph_of() + graph_of(), "a second graph"),
    "a number where a message belongs": (proto.number(7, 1), "a value of kind 0 where one of kind 2 belongs"),
    "an op without a name": (graph_of(proto.message(2, "Add")), "an op without a name"),
    "an op without a type": (graph_of(proto.message(1, "a")), "op 'a', field 1, byte 3: an op without a type"),
    "an attribute of the wrong kind": (
        graph_of(op("a", "Add", proto.message(10, proto.message(1, "axis") + proto.message(2, proto.message(3, "x"))))),
        "op 'a', attribute 'axis', AttrDef, field 3, byte 1: a value of kind 2 where one of kind 0 belongs",
    ),
    "a constant that is too short": (
        graph_of(op("c", "Const", proto.message(10, proto.message(1, "value") + proto.message(2, proto.message(
            12, proto.message(1, proto.descriptor("", "float32", [1 << 20])) + proto.message(2, b"1234")))))),
        "a constant of 4194304 bytes with 4",
    ),
    "a constant of more bytes than there are": (
        graph_of(op("c", "Const", proto.message(10, proto.message(1, "value") + proto.message(2, proto.message(
            12, proto.message(1, proto.descriptor("", "float32", [1 << 31, 1 << 31])))))),),
        "a constant of shape [2147483648, 2147483648]",
    ),
    "an input of no node": (graph_of(op("a", "Relu", proto.message(5, "b:0"))), "node 'a' (Relu): input 0 'b:0' names no node"),
    "an input without an output": (graph_of(op("a", "Relu", proto.message(5, "a"))), "input 0 'a' has no ':' and output"),
    "an output that is no number": (graph_of(op("a", "Relu", proto.message(5, "a:x"))), "names no output"),
    "an output that is not there": (
        graph_of(op("b", "Relu", proto.message(34, b"")), op("a", "Relu", proto.message(5, "b:7"))),
        "node 'a' (Relu): input 0 'b:7' names an output that node 'b' (Relu) does not have: it has 1",
    ),
    "two nodes of one name": (graph_of(op("a", "Relu"), op("a", "Abs")), "node 'a' (Abs): another node of the graph has that name"),
    "a circle": (
        graph_of(op("a", "Relu", proto.message(5, "b:0")), op("b", "Abs", proto.message(5, "a:0"))),
        "node 'a' (Relu): it needs what needs it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_an_error_names_what_is_wrong(name):
    data, said = HOSTILE[name]
    assert said in refusal(data)


def test_a_constant_may_begin_a_longer_storage():
    value = proto.message(1, proto.descriptor("", "int64", [1])) + proto.message(2, np.arange(4).tobytes())
    body = proto.message(10, proto.message(1, "value") + proto.message(2, proto.message(12, value)))
    assert Graph(graph_of(op("c", "Const", body)))
