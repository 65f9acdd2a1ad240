"""Ranks as processes that call libascendcl and libhccl through ctypes; nothing of torch is loaded.

`Job(n)` starts n workers (python -m tests.hccl.worker); `job.run(f, *args)` calls f(rank, *args) in each, where f is a
function of tests/hccl/programs, and returns their results by rank. In a worker, `Rank` is what f gets: memory,
streams and the raw libraries. `close` judges how the ranks end. ANYCEND_TEST_CANN_LIB names a folder with another
CANN's libraries to judge instead of the staged software NPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from tests.nursery import Nursery, can_fork

ROOT = Path(__file__).resolve().parents[2]
ROOT_INFO_BYTES = 4108
# Of who holds what of a device. The ranks have small devices, which other programs of the machine may have filled.
REGISTRY = tempfile.TemporaryDirectory(prefix="anycend-ranks-")
DTYPES = {
    "int8": 0,
    "int16": 1,
    "int32": 2,
    "fp16": 3,
    "fp32": 4,
    "int64": 5,
    "uint64": 6,
    "uint8": 7,
    "uint16": 8,
    "uint32": 9,
    "fp64": 10,
    "bf16": 11,
}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
CODES = {
    0: "SUCCESS",
    1: "PARA",
    2: "PTR",
    3: "MEMORY",
    4: "INTERNAL",
    5: "NOT_SUPPORT",
    7: "UNAVAIL",
    8: "SYSCALL",
    9: "TIMEOUT",
    10: "OPEN_FILE_FAILURE",
    11: "TCP_CONNECT",
    13: "TCP_TRANSFER",
    15: "RUNTIME",
    21: "REMOTE",
}
NUMPY = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "bf16": np.uint16}


def numpy_type(dtype: str):
    """The numpy type that holds a dtype's bits (bf16: uint16)."""
    return np.dtype(NUMPY.get(dtype, dtype))


def library_folder() -> Path:
    if named := os.environ.get("ANYCEND_TEST_CANN_LIB"):
        return Path(named)
    spec = importlib.util.find_spec("torch_npu")
    return Path(spec.origin).parent / "softnpu" / "lib64"


class HcclError(Exception):
    """A call of libhccl or a stream failed: .code is "TIMEOUT", "REMOTE" ... or the stream's number, .text the recent
    message.
    """

    def __init__(self, call: str, code: str, text: str):
        super().__init__(call, code, text)
        self.call, self.code, self.text = call, code, text


class BadEnd(Exception):
    """Ranks that did not end as an interpreter should: with what code or signal, or not at all."""


class SendRecvItem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("buf", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("dtype", ctypes.c_int),
        ("peer", ctypes.c_uint32),
    ]


class Buffer:
    """Device memory with an array's bytes in it; the software NPU's device memory is host memory, so numpy looks at it
    directly.
    """

    def __init__(self, rank: Rank, array: np.ndarray):
        self.rank, self.bytes = rank, array.nbytes
        self.pointer = ctypes.c_void_p()
        rank.acl("aclrtMalloc", ctypes.byref(self.pointer), ctypes.c_size_t(max(array.nbytes, 1)), 0)
        flat = (ctypes.c_char * max(array.nbytes, 1)).from_address(self.pointer.value)
        self.array = np.frombuffer(flat, dtype=array.dtype, count=array.size).reshape(array.shape)
        self.array[...] = array

    def at(self, byte: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.pointer.value + byte)

    def free(self) -> None:
        self.array = None
        self.rank.acl("aclrtFree", self.pointer)


class Rank:
    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        folder = library_folder()
        self.libacl = ctypes.CDLL(str(folder / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
        self.libhccl = ctypes.CDLL(str(folder / "libhccl.so"))
        self.libacl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.acl("aclInit", None)
        self.acl("aclrtSetDevice", rank % 8)
        self.stream = self.new_stream()
        self.comm = None

    def message(self) -> str:
        return (self.libacl.aclGetRecentErrMsg() or b"").decode()

    def acl(self, name: str, *args) -> None:
        if status := getattr(self.libacl, name)(*args):
            raise HcclError(name, str(status), self.message())

    def hccl(self, name: str, *args) -> None:
        if status := getattr(self.libhccl, name)(*args):
            raise HcclError(name, CODES.get(status, str(status)), self.message())

    def new_stream(self) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        self.acl("aclrtCreateStream", ctypes.byref(stream))
        return stream

    def sync(self, stream=None) -> None:
        self.acl("aclrtSynchronizeStream", stream or self.stream)

    def buffer(self, array: np.ndarray) -> Buffer:
        return Buffer(self, np.ascontiguousarray(array))

    def root_info(self) -> bytes:
        info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
        self.hccl("HcclGetRootInfo", info)
        return info.raw

    def join(self, info: bytes, size: int | None = None, rank: int | None = None) -> ctypes.c_void_p:
        comm = ctypes.c_void_p()
        self.hccl(
            "HcclCommInitRootInfo",
            self.size if size is None else size,
            ctypes.create_string_buffer(info, ROOT_INFO_BYTES),
            self.rank if rank is None else rank,
            ctypes.byref(comm),
        )
        return comm

    def sub(self, ranks: list[int], number: int, parent=None, name: str = "", timeout: int = -1) -> ctypes.c_void_p:
        comm, ids = ctypes.c_void_p(), (ctypes.c_uint32 * len(ranks))(*ranks)
        self.hccl(
            "HcclCreateSubCommConfig",
            ctypes.byref(parent or self.comm),
            len(ranks),
            ids,
            ctypes.c_uint64(number),
            ranks.index(self.rank),
            config(name, timeout),
            ctypes.byref(comm),
        )
        return comm

    def destroy(self, comm) -> None:
        self.hccl("HcclCommDestroy", comm)

    def async_error(self, comm=None) -> str:
        code = ctypes.c_int()
        self.hccl("HcclGetCommAsyncError", comm or self.comm, ctypes.byref(code))
        return CODES.get(code.value, str(code.value))


def config(name: str = "", timeout: int = -1) -> ctypes.Array:
    """An HcclCommConfig as HcclCommConfigInit leaves it, with a name and an execution timeout."""
    raw = bytearray(2232)
    raw[0:24] = (
        (2232).to_bytes(8, "little") + (0xF0F0F0F0).to_bytes(4, "little") + (10).to_bytes(4, "little") + bytes(8)
    )
    raw[24:32] = b"\xff" * 8
    raw[32 : 32 + len(name)] = name.encode()
    raw[316:320] = timeout.to_bytes(4, "little", signed=True)
    return ctypes.create_string_buffer(bytes(raw), 2232)


def environment() -> dict[str, str]:
    """Of every rank."""
    return {
        **os.environ,
        "HCCL_IF_IP": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ANYCEND_MEMORY": "1G",
        "XDG_RUNTIME_DIR": REGISTRY.name,
        "ANYCEND_TEST_CANN_LIB": str(library_folder()),
        "PYTHONPATH": str(ROOT),
    }


class Job:
    """n workers; a context manager that leaves no process behind. Its end raises BadEnd unless every rank ends with 0,
    handlers of exit and destructors included. Ranks of which a test expects another end are named to `may_die`, or
    killed by `kill`.
    """

    ENDING = 120  # seconds; the runtime alone waits ten for its streams
    DYING = 5  # for those whose end nobody judges
    LETTING_LIVE = (signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1)

    def __init__(
        self,
        n: int,
        env: dict[str, str] | None = None,
        each: dict[int, dict[str, str]] | None = None,
        worker: str = "tests.hccl.worker",
        prefix: dict[int, list[str]] | None = None,
        nursery: Callable[..., Nursery] | None = None,
    ):
        base = environment()
        self.size, self.workers, self.pipes = n, [], []
        self.mortal: set[int] = set()
        for rank in range(n):
            ours, theirs = socket.socketpair()
            fd, own = theirs.fileno(), {**(env or {}), **(each or {}).get(rank, {})}
            where = (prefix or {}).get(rank, [])
            if nursery and can_fork(own):
                self.workers.append(nursery(*where).fork(fd, {**base, **own}, rank, n))
            else:
                command = [*where, sys.executable, "-m", worker, *map(str, (fd, rank, n))]
                self.workers.append(subprocess.Popen(command, pass_fds=[fd], env={**base, **own}, cwd=ROOT))
            theirs.close()
            self.pipes.append(Connection(ours.detach()))

    def start(self, function, *args, ranks=None) -> None:
        for r in range(self.size) if ranks is None else ranks:
            self.pipes[r].send((function.__name__, args))

    def results(self, ranks=None, timeout: float = 240) -> list:
        """By rank; an exception of the worker's is returned, not raised."""
        found = []
        for r in range(self.size) if ranks is None else ranks:
            if not self.pipes[r].poll(timeout):
                for w in self.workers:
                    w.send_signal(signal.SIGUSR1)
                time.sleep(0.3)
                # Whoever failed at once may be what it waits for.
                others = {o: pipe.recv() for o, pipe in enumerate(self.pipes) if o > r and pipe.poll(0)}
                raise TimeoutError(f"rank {r} did not answer within {timeout} s; others answered: {others}")
            found.append(self.pipes[r].recv())
        return found

    def run(self, function, *args, ranks=None, timeout: float = 240) -> list:
        self.start(function, *args, ranks=ranks)
        found = self.results(ranks, timeout)
        for item in found:
            if isinstance(item, Exception):
                raise item
        return found

    def connect(self) -> Job:
        """Makes the communicator of all ranks, which the programs find as rank.comm."""
        from tests.hccl import programs

        (info,) = self.run(programs.make_root, ranks=[0])
        self.run(programs.join_world, info)
        return self

    def may_die(self, *ranks: int) -> None:
        """However these ranks end, it is no fault of theirs."""
        self.mortal.update(ranks)

    def kill(self, rank: int, how: int = signal.SIGKILL) -> None:
        if how not in self.LETTING_LIVE:
            self.may_die(rank)
        self.workers[rank].send_signal(how)

    def close(self) -> None:
        if bad := self._end(self.ENDING):
            raise BadEnd(bad)

    def _end(self, patience: float) -> str:
        """What is wrong with the ranks' ends; all have ended then."""
        for pipe in self.pipes:
            pipe.close()
        wrong, over = [], time.monotonic() + patience
        for rank in sorted(range(len(self.workers)), key=self.mortal.__contains__):
            worker, mortal = self.workers[rank], rank in self.mortal
            try:
                code = worker.wait(self.DYING if mortal else max(0.0, over - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.send_signal(signal.SIGUSR1)  # says where it stands
                time.sleep(0.3)
                worker.kill()
                worker.wait()
                code = f"did not end within {patience} s and was killed"
            if code and not mortal:
                name = code
                if isinstance(code, int):
                    name = f"ended with {signal.Signals(-code).name if code < 0 else code}"
                wrong.append(f"rank {rank} of {self.size} {name}")
        return "; ".join(wrong)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, _, error: BaseException | None, __) -> None:
        if error is None:
            return self.close()
        if bad := self._end(self.DYING):  # what was raised is the reason, or nearer to it
            error.add_note(bad)


# Who is called the odd one is who came later, which a busy machine decides.
OTHER_SIZE = re.compile("rank 1 was started for 2 ranks, others for 3|rank 0 was started for 3 ranks, others for 2")


def until_joining(job: Job, rank: int) -> None:
    """The rank has a connection to the root, and has had the time to say who it is."""
    end, process = time.monotonic() + 60, Path(f"/proc/{job.workers[rank].pid}")
    while time.monotonic() < end:
        mine = set()
        for link in (process / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                mine.add(link.readlink().name)
        rows = (line.split() for line in (process / "net" / "tcp").read_text().splitlines()[1:])
        if any(row[3] == "01" and f"socket:[{row[9]}]" in mine for row in rows):
            break
        time.sleep(0.01)
    time.sleep(0.5)


def soon(attempt: Callable[[], float], seconds: float) -> None:
    """One of five attempts takes no longer: a busy machine adds to some, what waits for a limit to all."""
    took = []
    while not took or took[-1] >= seconds:
        assert len(took) < 5, took
        took.append(attempt())


def named_hosts(hosts: list[str], **env) -> Job:
    """One rank a name; ranks of equal names are on one host, as ANYCEND_HOST_ID says it."""
    return Job(len(hosts), env=env, each={r: {"ANYCEND_HOST_ID": h} for r, h in enumerate(hosts)})
