"""The ways that messages about shared tensors take, so that one that nobody can receive any more does not keep memory.

A message is bytes in a pipe or a socket, or an argument of a process about to be started. When the last process that
could read the pipe is gone, so are its bytes, but the kernel tells nobody what was in them. So each message is noted
with the pipe that is being written, found where multiprocessing pickles, and whoever asks for memory back looks whether
any process holds it still. A message whose way is not known is kept until it is received or this process ends. Only for
processes that share.
"""

from __future__ import annotations

import inspect
import itertools
import os
import socket
import stat
import struct
import sys
import threading
import time
from multiprocessing.context import get_spawning_popen
from types import FrameType
from typing import Any

from torch_npu import _C

UNKNOWN = 0
_NAMES = frozenset(("self", "send_bytes", "connection"))
_FRAMES = 16  # between a pickler's reducer and the call that sends: fewer than ten

_lock = threading.Lock()
_ids = itertools.count(1)
_known: dict[Any, int] = {}  # what a channel is → its number
_channels: dict[int, Any] = {}  # the other way round: the pipe's or the far socket's name, or a child to be
_limit = 256  # messages under way before somebody looks after them unasked


def _locals(frame: FrameType) -> list[Any]:
    """What a function that sends may call its connection, or the object that has it."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED or not _NAMES.intersection(frame.f_code.co_varnames):
        return []
    names = frame.f_locals
    values = [names.get(name) for name in _NAMES]
    if type(names) is dict:  # before Python 3.13 a copy that stays with the frame, and would keep what is being sent
        names.clear()
    return values


def _descriptor(frame: FrameType | None, only: tuple[str, ...] = ("",)) -> int | None:
    """The descriptor that is about to be written: of the connection whose method, or whose owner's, is pickling.

    Looks at functions of modules whose names begin with one of `only`.
    """
    for _ in range(_FRAMES):
        if frame is None:
            return None
        if not str(frame.f_globals.get("__name__")).startswith(only):
            frame = frame.f_back
            continue
        for value in _locals(frame):
            for candidate in (value, getattr(value, "__self__", None), getattr(value, "_writer", None)):
                if hasattr(candidate, "send_bytes") and hasattr(candidate, "fileno"):
                    return candidate.fileno()
        frame = frame.f_back
    return None


def _peer(inode: int) -> int | None:
    """The other end of a Unix socket, by the kernel's socket diagnosis (man 7 sock_diag)."""
    request = struct.pack("=LHHLL", 40, 20, 1, 1, 0) + struct.pack(
        "=BBHLLLLL", 1, 0, 0, 0xFFFFFFFF, inode, 4, 0xFFFFFFFF, 0xFFFFFFFF
    )
    request = struct.pack("=L", len(request)) + request[4:]
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as link:
            link.settimeout(1)
            link.send(request)
            answer = link.recv(4096)
    except OSError:
        return None
    if len(answer) < 32 or struct.unpack_from("=H", answer, 4)[0] != 20:
        return None
    at = 16 + 16  # behind both headers come the attributes
    while at + 4 <= len(answer):
        length, kind = struct.unpack_from("=HH", answer, at)
        if kind == 2 and length >= 8:
            return struct.unpack_from("=L", answer, at + 4)[0]
        at += max(4, (length + 3) & ~3)
    return None


def current() -> int:
    """The number of the channel that the object being pickled is about to take."""
    return _of(_descriptor(sys._getframe(1)))


def of_the_pickler() -> int:
    """The same of a handle, which multiprocessing may be pickling, or else the program carries by a way of its own."""
    return _of(_descriptor(sys._getframe(1), ("multiprocessing.", "torch.multiprocessing.")))


def _of(descriptor: int | None) -> int:
    popen = get_spawning_popen()
    if popen is not None:
        return _number(("child", id(popen)), popen)
    if descriptor is None:
        return UNKNOWN
    try:
        status = os.fstat(descriptor)
    except OSError:
        return UNKNOWN
    if stat.S_ISFIFO(status.st_mode):
        return _number(("pipe", status.st_ino), {f"pipe:[{status.st_ino}]"})
    if stat.S_ISSOCK(status.st_mode):
        key = ("socket", status.st_ino)
        if key in _known:
            return _known[key]
        peer = _peer(status.st_ino)
        if peer is not None:
            return _number(key, {f"socket:[{peer}]"})  # it waits there, and cannot be read from this end
    return UNKNOWN


def _number(key: Any, channel: Any) -> int:
    with _lock:
        number = _known.get(key)
        if number is None:
            number = _known[key] = next(_ids)
            _channels[number] = channel
        return number


def _open_ends() -> set[str]:
    """Every pipe and socket that some process of this user holds. Others' processes could not map the memory anyway."""
    ends = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            folder = os.scandir(f"/proc/{pid}/fd")
        except OSError:
            continue
        with folder:
            for entry in folder:
                try:
                    target = os.readlink(entry.path)
                except OSError:
                    continue
                if target.startswith(("pipe:", "socket:")):
                    ends.add(target)
    return ends


def _ended(popen: Any) -> bool:
    """Whether the process that a message was an argument of has ended, or was never started."""
    pid = getattr(popen, "pid", None)
    if pid is None:
        return get_spawning_popen() is not popen
    return popen.poll() is not None


def _closed(channels: dict[int, Any]) -> set[int]:
    ends = _open_ends()
    return {
        number
        for number, channel in channels.items()
        if (channel.isdisjoint(ends) if isinstance(channel, set) else _ended(channel))
    }


def give_up_lost() -> None:
    """Lets go of messages that no process can receive any more. Some ms where messages are under way, else nothing."""
    waiting = _C._waiting_messages()
    numbers = {number for _, number in waiting}
    with _lock:
        for key, number in list(_known.items()):
            if number not in numbers:
                del _known[key], _channels[number]
        channels = {number: _channels[number] for number in numbers if number in _channels}
    if not waiting:
        return
    lost = _closed(channels)
    if lost:
        time.sleep(0.02)  # a descriptor may itself be on its way between two processes
        lost &= _closed(channels)
    if lost:
        _C._give_up_messages([slot for slot, number in waiting if number in lost])


def look_after() -> None:
    """Called with each message: gives up lost ones now and then, so that a server whose clients die needs not ask."""
    global _limit
    if _C._outstanding_messages() > _limit:
        give_up_lost()
        _C._collect_shared()
        _limit = max(256, 2 * _C._outstanding_messages())
