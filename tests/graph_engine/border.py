"""A client of libgraph and libge_runner: ctypes on their C++ symbols, std::vector and std::map as GCC lays them out.

session = Session(); session.add(0, graph.bytes()); session.run(0, [array, ...])    results as numpy arrays

Who uses it: the tests of this folder. A failed call raises Refused with the engine's message.
"""

from __future__ import annotations

import ctypes as C
import itertools
from functools import cache

import numpy as np

from tests.graph_engine.proto import CANN
from tests.runtime.acl import library_folder

NAMES = {number: name for name, number in CANN.items()}


class Refused(Exception):
    pass


@cache
def library(name: str) -> C.CDLL:
    return C.CDLL(str(library_folder() / f"lib{name}.so"))


def symbol(name: str, *types, of: str = "graph", answer=C.c_uint32):
    function = getattr(library(of), name)
    function.argtypes, function.restype = [C.c_void_p, *types], answer
    return function


class OldString(C.Structure):
    """std::string of the border: a pointer to counted characters."""

    _fields_ = [("text", C.c_char_p)]


def message() -> str:
    text = C.create_string_buffer(32)
    symbol("_ZN2ge13GEGetErrorMsgEv", of="ge_runner", answer=C.c_void_p)(text)
    return OldString.from_buffer(text).text.decode()


def need(status: int) -> None:
    if status:
        raise Refused(message())


def empty_map() -> C.Array:
    """std::map without entries: its header points to itself."""
    room = (C.c_uint64 * 6)()
    header = C.addressof(room) + 8
    room[3], room[4] = header, header  # leftmost, rightmost
    return room


class Graph:
    def __init__(self, data: bytes):
        self.room = (C.c_uint64 * 2)()
        symbol("_ZN2ge5GraphC1EPKc", C.c_char_p, answer=None)(self.room, b"test")
        load = symbol("_ZN2ge5Graph28LoadFromSerializedModelArrayEPKvm", C.c_char_p, C.c_size_t)
        need(load(self.room, data, len(data)))


class Tensors:
    """std::vector<ge::Tensor>, of tensors that the client fills."""

    def __init__(self, count: int):
        self.room = (C.c_uint64 * (2 * max(count, 1)))()
        begin = C.addressof(self.room)
        self.count = count
        self.vector = (C.c_uint64 * 3)(begin, begin + 16 * count, begin + 16 * count)
        for n in range(count):
            symbol("_ZN2ge6TensorC1Ev", answer=None)(self.at(n))

    def at(self, n: int) -> int:
        return C.addressof(self.room) + 16 * n

    def set(self, n: int, value: np.ndarray) -> None:
        tensor, nothing = self.at(n), (C.c_uint64 * 4)()  # an empty std::function
        set_type = symbol("_ZN2ge6Tensor11SetDataTypeERKNS_8DataTypeE", C.c_void_p)
        need(set_type(tensor, C.byref(C.c_uint32(CANN[value.dtype.name]))))
        need(symbol("_ZN2ge6Tensor14SetShapeDimNumEm", C.c_size_t)(tensor, value.ndim))
        for i, dim in enumerate(value.shape):
            need(symbol("_ZN2ge6Tensor11SetShapeDimEml", C.c_size_t, C.c_int64)(tensor, i, dim))
        take = symbol("_ZN2ge6Tensor7SetDataEPhmRKSt8functionIFvS1_EE", C.c_void_p, C.c_size_t, C.c_void_p)
        need(take(tensor, value.ctypes.data, value.nbytes, nothing))

    def get(self, n: int) -> np.ndarray:
        tensor = self.at(n)
        rank = symbol("_ZNK2ge6Tensor14GetShapeDimNumEv", answer=C.c_size_t)(tensor)
        dim = symbol("_ZNK2ge6Tensor11GetShapeDimEm", C.c_size_t, answer=C.c_int64)
        dims = [dim(tensor, i) for i in range(rank)]
        dtype = np.dtype(NAMES[symbol("_ZNK2ge6Tensor11GetDataTypeEv")(tensor)])
        address = symbol("_ZNK2ge6Tensor7GetDataEv", answer=C.c_void_p)(tensor)
        count = int(np.prod(dims, dtype=np.int64))
        return np.frombuffer(C.string_at(address, count * dtype.itemsize), dtype).reshape(dims).copy()


class Session:
    """A ge::Session on device 0; graphs run to the end, with tensors of the host."""

    _ids = itertools.count()

    def __init__(self):
        self.room = (C.c_uint64 * 1)()
        name = "_ZN2ge7SessionC1ERKSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE"
        symbol(name, C.c_void_p, of="ge_runner", answer=None)(self.room, empty_map())

    def close(self) -> None:
        symbol("_ZN2ge7SessionD1Ev", of="ge_runner", answer=None)(self.room)

    def add(self, number: int, data: bytes) -> None:
        name = "_ZN2ge7Session8AddGraphEjRKNS_5GraphERKSt3mapINS_12AscendStringES5_St4lessIS5_ESaISt4pairIKS5_S5_EEE"
        add = symbol(name, C.c_uint32, C.c_void_p, C.c_void_p, of="ge_runner")
        need(add(self.room, number, Graph(data).room, empty_map()))

    def compile(self, number: int) -> None:
        need(symbol("_ZN2ge7Session12CompileGraphEj", C.c_uint32, of="ge_runner")(self.room, number))

    def remove(self, number: int) -> None:
        need(symbol("_ZN2ge7Session11RemoveGraphEj", C.c_uint32, of="ge_runner")(self.room, number))

    def run(self, number: int, inputs: list[np.ndarray], results: int = 1) -> list[np.ndarray]:
        given, wanted = Tensors(len(inputs)), Tensors(results)
        kept = [np.ascontiguousarray(value) for value in inputs]
        for n, value in enumerate(kept):
            given.set(n, value)
        name = "_ZN2ge7Session8RunGraphEjRKSt6vectorINS_6TensorESaIS2_EERS4_"
        run = symbol(name, C.c_uint32, C.c_void_p, C.c_void_p, of="ge_runner")
        need(run(self.room, number, given.vector, wanted.vector))
        return [wanted.get(n) for n in range(results)]

    def once(self, data: bytes, inputs: list[np.ndarray], results: int = 1) -> list[np.ndarray]:
        """Adds the graph, compiles it, runs it and removes it."""
        number = next(self._ids)
        self.add(number, data)
        self.compile(number)
        try:
            return self.run(number, inputs, results)
        finally:
            self.remove(number)
