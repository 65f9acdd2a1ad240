"""How a case calls a unit: an operator by its aclnn functions, a kernel by its launch, or a host function of the file.

Tensors are the host's: they are copied to the device before the call and back after it, so that what a kernel did to
any of them is seen. A call that fails raises Stopped with what was said. Used by cases/, made by run.py.
"""

from __future__ import annotations

import ctypes as C
from pathlib import Path

import torch

import torch_npu  # noqa: F401

TYPES = {
    torch.float32: 0,
    torch.float16: 1,
    torch.int8: 2,
    torch.int32: 3,
    torch.uint8: 4,
    torch.int16: 6,
    torch.int64: 9,
    torch.bool: 12,
    torch.bfloat16: 27,
}
ND = 2


class Stopped(Exception):
    """What the software NPU said."""


class Calls:
    def __init__(self, library: Path):
        self.library = C.CDLL(str(library))
        self.base = C.CDLL("libnnopbase.so")
        self.acl = C.CDLL("libascendcl.so")
        for name in ("aclCreateTensor", "aclCreateIntArray", "aclCreateFloatArray", "aclCreateBoolArray"):
            getattr(self.base, name).restype = C.c_void_p
        self.acl.aclGetRecentErrMsg.restype = C.c_char_p
        self.on_device: list[tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def stream(self) -> C.c_void_p:
        return C.c_void_p(torch.npu.current_stream().npu_stream)

    def op(self, name: str, *arguments) -> None:
        """aclnn<name>: tensors, None, bool, int, float, str, lists of one of these."""
        given = [self._operand(a) for a in arguments]
        size, executor = C.c_uint64(), C.c_void_p()
        first = getattr(self.library, f"aclnn{name}GetWorkspaceSize")
        self._check(first(*given, C.byref(size), C.byref(executor)))
        workspace = torch.empty(size.value, dtype=torch.uint8, device="npu")
        second = getattr(self.library, f"aclnn{name}")
        self._check(second(C.c_void_p(workspace.data_ptr()), size, executor, self.stream))
        self._finish()

    def launch(self, kernel: str, blocks: int, *arguments) -> None:
        """aclrtlaunch_<kernel>: tensors as addresses, None as null, numbers of ctypes as they are."""
        given = [self._address(a) for a in arguments]
        self._check(getattr(self.library, f"aclrtlaunch_{kernel}")(C.c_uint32(blocks), self.stream, *given))
        self._finish()

    def host(self, symbol: str, *arguments) -> None:
        """A function of the file that launches a kernel itself; self.stream is one of its arguments."""
        getattr(self.library, symbol)(*(self._address(a) for a in arguments))
        self._finish()

    def _put(self, t: torch.Tensor) -> torch.Tensor:
        for host, device in self.on_device:
            if host is t:
                return device
        self.on_device.append((t, t.npu()))
        return self.on_device[-1][1]

    def _address(self, a):
        return C.c_void_p(self._put(a).data_ptr()) if isinstance(a, torch.Tensor) else C.c_void_p() if a is None else a

    def _operand(self, a):
        if isinstance(a, torch.Tensor):
            return self._tensor(self._put(a))
        if isinstance(a, list):
            element, maker = {bool: (C.c_bool, "Bool"), float: (C.c_float, "Float")}.get(
                type(a[0]) if a else int, (C.c_int64, "Int")
            )
            values = (element * max(len(a), 1))(*a)
            return C.c_void_p(getattr(self.base, f"aclCreate{maker}Array")(values, C.c_uint64(len(a))))
        if isinstance(a, bool):
            return C.c_bool(a)
        if isinstance(a, int):
            return C.c_int64(a)
        if isinstance(a, float):
            return C.c_double(a)
        return C.c_char_p(a.encode()) if isinstance(a, str) else C.c_void_p()

    def _tensor(self, t: torch.Tensor) -> C.c_void_p:
        sizes, strides = ((C.c_int64 * max(t.dim(), 1))(*values) for values in (t.shape, t.stride()))
        whole = (C.c_int64 * 1)(t.untyped_storage().nbytes() // t.element_size())
        base, offset = C.c_void_p(t.untyped_storage().data_ptr()), C.c_int64(t.storage_offset())
        made = self.base.aclCreateTensor(
            sizes, C.c_uint64(t.dim()), TYPES[t.dtype], strides, offset, ND, whole, C.c_uint64(1), base
        )
        return C.c_void_p(made)

    def _check(self, code: int) -> None:
        if code:
            raise Stopped(self.acl.aclGetRecentErrMsg().decode(errors="replace") or f"error {code}")

    def _finish(self) -> None:
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            raise Stopped(str(error)) from error
        for host, device in self.on_device:
            host.copy_(device.cpu())
        self.on_device.clear()
