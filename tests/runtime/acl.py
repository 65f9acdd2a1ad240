"""A client of libascendcl: ctypes with the prototypes of cann/abi/acl.yaml.

ANYCEND_TEST_CANN_LIB names another folder of libraries.

acl = Acl(); acl.aclInit(None); acl.aclrtSetDevice(0)      raises AclError(code, message) for any status but 0
acl.raw.aclrtSetDevice(99)                                 returns the status
"""

from __future__ import annotations

import ctypes as C
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from tools.codegen import tables

ROOT = Path(__file__).resolve().parents[2]
SCALARS = {
    "int32_t": C.c_int32, "uint32_t": C.c_uint32, "int64_t": C.c_int64, "uint64_t": C.c_uint64, "size_t": C.c_size_t,
    "int": C.c_int, "uint8_t": C.c_uint8, "int8_t": C.c_int8, "uint16_t": C.c_uint16, "float": C.c_float,
    "double": C.c_double, "bool": C.c_bool,
}  # fmt: skip
POINTERS = {
    "aclrtStream",
    "aclrtEvent",
    "aclrtContext",
    "aclrtCallback",
    "aclrtHostFunc",
    "aclrtDrvMemHandle",
    "aclmdlRI",
}


class AclError(Exception):
    def __init__(self, symbol: str, code: int, message: str):
        super().__init__(f"{symbol} returned {code}: {message}")
        self.code, self.message = code, message


def library_folder() -> Path:
    if named := os.environ.get("ANYCEND_TEST_CANN_LIB"):
        return Path(named)
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or spec.origin is None:
        return ROOT / "build" / "dev" / "stage" / "torch_npu" / "softnpu" / "lib64"
    return Path(spec.origin).parent / "softnpu" / "lib64"


@cache
def table() -> dict[str, dict]:
    return tables.load(ROOT / "cann" / "abi" / "acl.yaml")


@cache
def constants() -> dict[str, int]:
    enums = tables.load(ROOT / "cann" / "abi" / "enums.yaml")
    return {name: int(value) for values in enums.values() for name, value in values.items()}


def ctype(text: str):
    if "*" in text or "[" in text:
        return C.c_void_p
    words = [w for w in re.findall(r"\w+", text) if w != "const"]
    return C.c_void_p if words[0] in POINTERS else SCALARS.get(words[0], C.c_int)


class Raw:
    """Symbols with their argument types."""

    def __init__(self, folder: Path | None = None, name: str = "libascendcl.so"):
        self.library = C.CDLL(str((folder or library_folder()) / name))

    def __getattr__(self, symbol: str):
        row = table()[symbol]
        function = getattr(self.library, symbol)
        if "..." not in row["args"]:
            function.argtypes = [ctype(a) for a in row["args"].split(",") if a.strip()]
        if "char" in row["ret"]:
            function.restype = C.c_char_p
        elif "*" in row["ret"]:
            function.restype = C.c_void_p
        else:
            function.restype = SCALARS.get(row["ret"], C.c_int)
        setattr(self, symbol, function)
        return function


class Task(C.Structure):
    _fields_ = [
        ("run", C.c_void_p),
        ("drop", C.c_void_p),
        ("state", C.c_void_p),
        ("name", C.c_char_p),
        ("cost", C.c_uint8),
    ]


RUN = C.CFUNCTYPE(C.c_int, C.c_void_p)
TINY, SERIAL, WIDE, HOST, BLOCKING = range(5)


class Acl:
    """Calls that raise, and short names for what returns a value."""

    def __init__(self, folder: Path | None = None):
        self.raw = Raw(folder)
        self.kept: list = []

    def __getattr__(self, symbol: str):
        function = getattr(self.raw, symbol)
        if table()[symbol]["ret"] != "aclError":
            return function

        def call(*args):
            if code := function(*args):
                raise AclError(symbol, code, self.message())
            return None

        return call

    def message(self) -> str:
        return (self.raw.aclGetRecentErrMsg() or b"").decode()

    def out(self, symbol: str, kind, *args, first: bool = True):
        """The value a function writes through its first (or last) pointer."""
        value = kind()
        getattr(self, symbol)(*((C.byref(value), *args) if first else (*args, C.byref(value))))
        return value.value

    def start(self, device: int = 0) -> Acl:
        self.raw.aclInit(None)
        self.aclrtSetDevice(device)
        return self

    def malloc(self, size: int) -> int:
        return self.out("aclrtMalloc", C.c_void_p, size, 0)

    def malloc_host(self, size: int) -> int:
        return self.out("aclrtMallocHost", C.c_void_p, size)

    def stream(self) -> int:
        return self.out("aclrtCreateStream", C.c_void_p)

    def event(self, flags: int | None = None) -> int:
        if flags is None:
            return self.out("aclrtCreateEvent", C.c_void_p)
        return self.out("aclrtCreateEventExWithFlag", C.c_void_p, flags)

    def upload(self, pointer: int, data: bytes) -> None:
        self.aclrtMemcpy(pointer, len(data), data, len(data), 1)

    def download(self, pointer: int, size: int) -> bytes:
        buffer = C.create_string_buffer(size)
        self.aclrtMemcpy(C.addressof(buffer), size, pointer, size, 2)
        return buffer.raw

    def host_task(self, stream: int, body) -> None:
        """Runs a Python function on the stream's worker, in order."""
        function = C.CFUNCTYPE(None, C.c_void_p)(lambda _: body())
        self.kept.append(function)
        self.aclrtLaunchHostFunc(stream, C.cast(function, C.c_void_p), None)

    def enqueue(self, stream: int | None, body, cost: int = TINY, name: bytes = b"test") -> int:
        """softnpu::enqueue: what a kernel of the software NPU is given to. `body` returns the task's status."""
        function = RUN(lambda _: body())
        self.kept.append(function)
        enqueue = self.raw.library["_ZN7softnpu7enqueueEPvRKNS_4TaskE"]
        enqueue.argtypes = [C.c_void_p, C.c_void_p]
        task = Task(C.cast(function, C.c_void_p), None, None, name, cost)
        return enqueue(stream, C.byref(task))

    def set_error_message(self, text: bytes) -> None:
        self.raw.library["_ZN7softnpu17set_error_messageEPKc"](C.c_char_p(text))


def asleep(thread: int) -> bool:
    """Does this thread of the process wait in a call? Not for Python's lock: that is free while this looks."""
    return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def run(code: str, timeout: float = 300, check: bool = True, **env: str) -> subprocess.CompletedProcess:
    """Runs Python code in a process of its own, with `acl`, `C`, `os` and `AclError` defined."""
    head = "import ctypes as C, os, sys, threading, time\nfrom tests.runtime.acl import *\nacl = Acl()\n"
    full = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **env}
    full["ANYCEND_TEST_CANN_LIB"] = str(library_folder())
    full.setdefault("ASCEND_GLOBAL_LOG_LEVEL", "4")
    done = subprocess.run(
        [sys.executable, "-c", head + code], env=full, cwd=ROOT, capture_output=True, text=True, timeout=timeout
    )
    if check and done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done
