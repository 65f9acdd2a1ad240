"""A kernel of the user's own, as a client that compiled it for the processor puts it on a stream (acl/soft.h): it
tells nobody what it touches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

import torch_npu

RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
kept: list[object] = []


class Kernel(ctypes.Structure):
    _fields_ = [
        ("run", RUN),
        ("drop", DROP),
        ("state", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("cost", ctypes.c_int),
    ]


def launch(name: str, body: Callable[[], object]) -> None:
    """`body` runs on the current stream; what it raises is lost."""
    acl = ctypes.CDLL(f"{torch_npu.__path__[0]}/softnpu/lib64/libascendcl.so")
    kernel = Kernel(
        RUN(lambda state, message, room: body() and 0 or 0), DROP(lambda state: None), None, name.encode(), 1
    )
    kept.append(kernel)
    status = acl.softnpuLaunchKernel(ctypes.c_void_p(torch.npu.current_stream().npu_stream), ctypes.byref(kernel))
    assert status == 0, status
