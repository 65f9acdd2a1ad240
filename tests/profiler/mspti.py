"""A client of libmspti by ctypes: subscribes, and gives records back as tuples of their fields."""

from __future__ import annotations

import ctypes as C
from collections import namedtuple
from types import TracebackType

from tests.runtime.acl import library_folder

MARKER, KERNEL, API, HCCL, MEMORY, MEMSET, MEMCPY, EXTERNAL, COMMUNICATION, ACL_API, NODE_API = range(1, 12)
TENSORS = 4096
OK, INVALID, MULTIPLE, LIMIT, EMPTY, INNER = 0, 1, 2, 3, 5, 999
CUSTOM0, CUSTOM1 = 2, 3

# Fields in the order they lie in, and the record's bytes: packed, rounded up to 8.
FORMATS = {
    MARKER: ("flag:I source:I timestamp:Q id:Q first:I second:I name:s domain:s", 56),
    KERNEL: ("start:Q end:Q device:I stream:I correlation:Q type:s name:s", 56),
    API: ("start:Q end:Q process:I thread:I correlation:Q name:s", 48),
    ACL_API: ("start:Q end:Q process:I thread:I correlation:Q name:s", 48),
    HCCL: ("start:Q end:Q device:I stream:I bandwidth:d name:s comm:s", 56),
    MEMSET: ("value:I bytes:Q start:Q end:Q device:I stream:I correlation:Q asynchronous:B", 56),
    MEMCPY: ("copy:I bytes:Q start:Q end:Q device:I stream:I correlation:Q asynchronous:B", 56),
    EXTERNAL: ("external_kind:I external:Q correlation:Q", 24),
    COMMUNICATION: ("dtype:I count:Q device:I stream:I start:Q end:Q algorithm:s name:s comm:s correlation:Q", 72),
    TENSORS: ("task:Q correlation:Q in_shapes:s in_types:s in_formats:s out_shapes:s out_types:s out_formats:s", 72),
}
C_TYPES = {"I": C.c_uint32, "Q": C.c_uint64, "s": C.c_char_p, "d": C.c_double, "B": C.c_uint8}


def _structure(kind: int) -> type[C.Structure]:
    fields = [("kind", C.c_uint32)] + [(n, C_TYPES[t]) for n, t in (f.split(":") for f in FORMATS[kind][0].split())]
    return type(f"Record{kind}", (C.Structure,), {"_pack_": 1, "_fields_": fields})


STRUCTURES = {kind: _structure(kind) for kind in FORMATS}
TUPLES = {kind: namedtuple(f"Record{kind}", [n for n, _ in STRUCTURES[kind]._fields_]) for kind in FORMATS}

Request = C.CFUNCTYPE(None, C.POINTER(C.c_void_p), C.POINTER(C.c_size_t), C.POINTER(C.c_size_t))
Complete = C.CFUNCTYPE(None, C.c_void_p, C.c_size_t, C.c_size_t)


def library() -> C.CDLL:
    found = C.CDLL(str(library_folder() / "libmspti.so"))
    found.msptiActivityIsEnabled.restype = C.c_bool
    found.msptiActivityPushExternalCorrelationId.argtypes = [C.c_int, C.c_uint64]
    found.msptiUnsubscribe.argtypes = [C.c_void_p]
    found.msptiActivityGetNextRecord.argtypes = [C.c_void_p, C.c_size_t, C.POINTER(C.c_void_p)]
    return found


class Subscriber:
    """With it, the given kinds are recorded; `records` after it has the tuples in the order they came."""

    def __init__(self, *kinds: int, buffer: int = 4096) -> None:
        self.lib, self.kinds, self.bytes = library(), kinds, buffer
        self.handle, self.kept, self.records, self.buffers = C.c_void_p(), [], [], 0
        self._request, self._complete = Request(self._give), Complete(self._take)

    def _give(self, buffer: C._Pointer, size: C._Pointer, most: C._Pointer) -> None:
        self.kept.append(C.create_string_buffer(self.bytes))
        buffer[0], size[0], most[0] = C.addressof(self.kept[-1]), self.bytes, 0
        self.buffers += 1

    def _take(self, buffer: int, size: int, used: int) -> None:
        record = C.c_void_p()
        while self.lib.msptiActivityGetNextRecord(buffer, used, C.byref(record)) == OK:
            kind = C.c_uint32.from_address(record.value).value
            read = STRUCTURES[kind].from_address(record.value)
            if kind == EXTERNAL:  # not packed: kind and external_kind, then two of 8 bytes, which lie the same
                assert FORMATS[kind][1] == 24
            self.records.append(TUPLES[kind](*(getattr(read, n) for n, _ in read._fields_)))

    def __enter__(self) -> Subscriber:
        assert self.lib.msptiSubscribe(C.byref(self.handle), None, None) == OK
        assert self.lib.msptiActivityRegisterCallbacks(self._request, self._complete) == OK
        for kind in self.kinds:
            assert self.lib.msptiActivityEnable(kind) == OK
        return self

    def flush(self) -> list:
        assert self.lib.msptiActivityFlushAll(1) == OK
        return self.records

    def of(self, kind: int) -> list:
        return [r for r in self.records if r.kind == kind]

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        assert self.lib.msptiUnsubscribe(self.handle) == OK
