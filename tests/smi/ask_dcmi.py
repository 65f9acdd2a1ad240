"""Ask libdcmi.so: python ask_dcmi.py LIBRARY, expressions on its input, a value a line on its output.

An expression calls a function of this file with a name of the library's; it returns the status and what came out.
"""

from __future__ import annotations

import ctypes as C
import os
import sys


class ChipInfo(C.Structure):
    _fields_ = [
        ("chip_type", C.c_char * 32),
        ("chip_name", C.c_char * 32),
        ("chip_ver", C.c_char * 32),
        ("aicore_cnt", C.c_uint),
        ("npu_name", C.c_char * 32),
    ]


class Pcie(C.Structure):
    _fields_ = [(n, C.c_uint) for n in ("venderid", "subvenderid", "deviceid", "subdeviceid")]
    _fields_ += [("domain", C.c_int)] + [(n, C.c_uint) for n in ("busid", "devid", "funcid")]
    _fields_ += [("reserve", C.c_ubyte * 32)]


class Hbm(C.Structure):
    _fields_ = [
        ("memory_size", C.c_ulonglong),
        ("freq", C.c_uint),
        ("memory_usage", C.c_ulonglong),
        ("temp", C.c_int),
        ("bandwidth", C.c_uint),
    ]


class Rates(C.Structure):
    _fields_ = [(n, C.c_uint) for n in ("aic", "aiv", "aicore", "npu")] + [("reserved", C.c_uint * 8)]


class Process(C.Structure):
    _fields_ = [("proc_id", C.c_int), ("proc_mem_usage", C.c_ulong)]


Int, Uint = C.c_int, C.c_uint
library = C.CDLL(sys.argv[1])


def number(name: str, *before, kind=Int, after=()):
    """Status, and the number that a function writes behind its first arguments."""
    cell = kind(-77)
    return getattr(library, name)(*before, C.byref(cell), *after), cell.value


def numbers(name: str, *after, count: int, first=()):
    """Status, and the numbers that a function writes between the arguments `first` and those behind."""
    cells = [Int(-77) for _ in range(count)]
    return getattr(library, name)(*first, *map(C.byref, cells), *after), *(cell.value for cell in cells)


def listed(name: str, length: int, first: bool = True):
    """Status, count and ids; `first`: the count is written to the first parameter."""
    count, ids = Int(-77), (Int * 64)(*[-77] * 64)
    pair = (C.byref(count), ids) if first else (ids, C.byref(count))
    status = getattr(library, name)(*pair, length)
    return status, count.value, [i for i in ids if i != -77]


def fields(name: str, kind, *before):
    info = kind()
    status = getattr(library, name)(*before, C.byref(info))
    values = {field[0]: getattr(info, field[0]) for field in kind._fields_}
    return status, {
        k: v.decode() if isinstance(v, bytes) else v for k, v in values.items() if isinstance(v, (int, bytes))
    }


def text(name: str, *before, length: int = 64):
    buffer = C.create_string_buffer(256)
    return getattr(library, name)(*before, buffer, length), buffer.value.decode()


def affinity(name: str, *before):
    buffer, length = C.create_string_buffer(256), Int(-77)
    return getattr(library, name)(*before, buffer, C.byref(length)), buffer.value.decode(), length.value


def processes(name: str, *before):
    found, count = (Process * 32)(), Int(-77)
    status = getattr(library, name)(*before, found, C.byref(count))
    return status, sorted((p.proc_id, p.proc_mem_usage) for p in found[: max(count.value, 0)])


def message() -> bytes:
    library.aclGetRecentErrMsg.restype = C.c_char_p
    return library.aclGetRecentErrMsg()


def hold(size: int) -> tuple[int, int]:
    """Takes memory of device 0: the status, and this process."""
    block = C.c_void_p()
    assert library.aclInit(None) == library.aclrtSetDevice(0) == 0
    return library.aclrtMalloc(C.byref(block), C.c_size_t(size), 0), os.getpid()


def status(name: str, *args):
    return getattr(library, name)(*args)


if __name__ == "__main__":
    for line in sys.stdin:
        print(repr(eval(line)), flush=True)
