"""Writes graphs in the wire format of ge_ir.proto, as torchair serializes them: enough of it to say a graph in a test.

graph = Graph()
x = graph.data(0, "float32", [2, 3])
graph.result(graph.node("Relu", {"x": x}))
graph.bytes()
"""

from __future__ import annotations

import struct

import numpy as np

# ge_ir.proto's numbers of data types, and CANN's.
PROTO = {"float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int32": 7, "int64": 8, "bool": 11, "float64": 12}
CANN = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int64": 9, "float64": 11, "bool": 12}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes | str) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def fixed(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


def descriptor(name: str, dtype: str | None = None, dims: list[int] = ()) -> bytes:
    shape = message(1, b"".join(varint(d) for d in dims)) if len(dims) else b""
    return message(1, name) + (number(2, PROTO[dtype]) if dtype else b"") + message(3, shape)


def tensor(value: np.ndarray) -> bytes:
    return message(1, descriptor("", value.dtype.name, list(value.shape))) + message(2, value.tobytes())


def attribute(value: object) -> bytes:
    """AttrDef of a Python value."""
    if isinstance(value, np.ndarray):
        return message(12, tensor(value))
    if isinstance(value, bool):
        return number(5, value)
    if isinstance(value, int):
        return number(3, value)
    if isinstance(value, float):
        return fixed(4, value)
    if isinstance(value, (str, bytes)):
        return message(2, value)
    if value and isinstance(value[0], str):
        return message(1, b"".join(message(2, v) for v in value))
    field = 5 if any(isinstance(v, bool) for v in value) else 3
    return message(1, message(field, b"".join(varint(v) for v in value)))


def attributes(values: dict[str, object]) -> bytes:
    return b"".join(message(10, message(1, k) + message(2, attribute(v))) for k, v in values.items())


class Graph:
    def __init__(self):
        self.ops: list[bytes] = []
        self.count = 0

    def add(self, kind: str, name: str, body: bytes) -> str:
        self.ops.append(message(6, message(1, name) + message(2, kind) + body))
        return f"{name}:0"

    def node(
        self,
        kind: str,
        inputs: dict[str, str | None],
        attrs: dict[str, object] | None = None,
        *,
        name: str | None = None,
        after: tuple[str, ...] = (),
        outputs: int = 1,
    ) -> str:
        """The name of the node's first output. An input that is None is left out; `after` are nodes that run before."""
        self.count += 1
        body = b"".join(message(5, source or "") + message(33, descriptor(key)) for key, source in inputs.items())
        body += b"".join(message(5, f"{before.rpartition(':')[0]}:-1") for before in after)
        body += attributes(attrs or {})
        body += b"".join(message(34, descriptor(f"y{n}")) for n in range(outputs))
        return self.add(kind, name or f"{kind}_{self.count}", body)

    def data(self, index: int, dtype: str, dims: list[int], kind: str = "Data") -> str:
        described = descriptor("y", dtype, dims)
        body = message(33, descriptor("x", dtype, dims)) + attributes({"index": index}) + message(34, described)
        return self.add(kind, f"{kind}_{index}", body)

    def const(self, value: object, dtype: str = "int64") -> str:
        return self.node("Const", {}, {"value": np.asarray(value, dtype)})

    def result(self, *values: str) -> None:
        self.node("NetOutput", {f"input{i}": v for i, v in enumerate(values)}, name="NetOutput", outputs=0)

    def bytes(self) -> bytes:
        return message(1, "model") + message(7, message(1, "graph") + b"".join(self.ops))
