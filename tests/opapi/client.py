"""A small client of the aclnn ABI through ctypes: CPU tensors in, device memory, one call, CPU tensors out.

It knows the operators from cann/abi/aclnn.yaml alone. ANYCEND_TEST_CANN names a folder with another CANN's libraries.
"""

from __future__ import annotations

import ctypes as C
import os
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import abi  # noqa: E402

DTYPES = {
    torch.float32: 0,
    torch.float16: 1,
    torch.int8: 2,
    torch.int32: 3,
    torch.uint8: 4,
    torch.int16: 6,
    torch.uint16: 7,
    torch.uint32: 8,
    torch.int64: 9,
    torch.uint64: 10,
    torch.float64: 11,
    torch.bool: 12,
    torch.complex64: 16,
    torch.complex128: 17,
    torch.bfloat16: 27,
    torch.complex32: 33,
    torch.bits8: 34,  # hifloat8, which torch has no name for
    torch.float8_e5m2: 35,
    torch.float8_e4m3fn: 36,
    torch.float8_e8m0fnu: 37,
    torch.float4_e2m1fn_x2: 40,
    torch.bits4x2: 41,  # e1m2, which torch has no name for
}
CODES = torch.bits8  # hifloat8
PAIRS = (torch.float4_e2m1fn_x2, torch.bits4x2)  # two elements in a byte: CANN counts elements
ND = 2
C_INTEGERS = {
    "int64_t": C.c_int64,
    "int32_t": C.c_int32,
    "int8_t": C.c_int8,
    "int16_t": C.c_int16,
    "int": C.c_int,
    "bool": C.c_bool,
    "uint64_t": C.c_uint64,
    "uint32_t": C.c_uint32,
    "uint8_t": C.c_uint8,
    "aclDataType": C.c_int,
}
P = C.c_void_p


def library_folder() -> Path:
    """Where the software NPU's libraries are: a named folder, else beside the torch_npu on the path."""
    if named := os.environ.get("ANYCEND_TEST_CANN"):
        return Path(named)
    for entry in sys.path:
        folder = Path(entry) / "torch_npu" / "softnpu" / "lib64"
        if (folder / "libopapi.so").exists():
            return folder
    raise FileNotFoundError("libopapi.so: put build/<preset>/stage on PYTHONPATH")


class AclError(RuntimeError):
    """A status that is not zero, with the library's recent message."""

    def __init__(self, what: str, status: int, message: str) -> None:
        super().__init__(f"{what} returned {status}: {message}")
        self.status, self.message = status, message


class Handle:
    """An acl handle that is destroyed when dropped."""

    def __init__(self, client: Client, value: int | None, destroy: str, what: str) -> None:
        self.value = None
        if not value:
            raise AclError(what, 0, client.message())
        self.value, self._destroy = value, getattr(client.opapi, destroy)

    def close(self) -> None:
        if self.value:
            self._destroy(P(self.value))
            self.value = None

    __del__ = close


class Tensor(Handle):
    """Device memory with a copy of a CPU tensor's storage, seen with that tensor's strides and offset."""

    def __init__(self, client: Client, cpu: torch.Tensor, memory: Memory | None = None) -> None:
        self.client, self.cpu = client, cpu
        self.memory = memory or Memory(client, cpu)
        n, each = cpu.dim(), 2 if cpu.dtype in PAIRS else 1
        storage = cpu.untyped_storage().nbytes() // max(cpu.element_size(), 1) * each
        sizes, strides = list(cpu.shape), [s * each for s in cpu.stride()]
        pairs = [d for d in range(n) if cpu.stride(d) == 1] if each == 2 else []
        if pairs:
            sizes[pairs[-1]], strides[pairs[-1]] = sizes[pairs[-1]] * 2, 1
        value = client.create_tensor(
            (C.c_int64 * n)(*sizes),
            n,
            DTYPES[cpu.dtype],
            (C.c_int64 * n)(*strides),
            cpu.storage_offset() * each,
            ND,
            (C.c_int64 * 1)(storage),
            1,
            self.memory.pointer,
        )
        super().__init__(client, value, "aclDestroyTensor", "aclCreateTensor")

    def shape(self) -> tuple[int, ...]:
        dims, count = P(), C.c_uint64()
        self.client.check(
            "aclGetViewShape", self.client.opapi.aclGetViewShape(P(self.value), C.byref(dims), C.byref(count))
        )
        return tuple((C.c_int64 * count.value).from_address(dims.value))

    def read(self) -> torch.Tensor:
        """What the device holds now, as the tensor it was made from sees it; of pairs the bytes."""
        self.memory.read()
        held = self.memory.tensor
        held = held.view(torch.uint8) if held.dtype in PAIRS else held
        return held.as_strided(self.cpu.shape, self.cpu.stride(), self.cpu.storage_offset())


class Memory:
    """A device copy of a storage."""

    def __init__(self, client: Client, cpu: torch.Tensor) -> None:
        self.client = client
        self.tensor = torch.empty(0, dtype=cpu.dtype).set_(
            cpu.untyped_storage().clone(), 0, (cpu.untyped_storage().nbytes() // max(cpu.element_size(), 1),)
        )
        self.bytes = self.tensor.untyped_storage().nbytes()
        self.pointer = P()
        if self.bytes:
            client.check("aclrtMalloc", client.acl.aclrtMalloc(C.byref(self.pointer), C.c_size_t(self.bytes), 0))
            self._copy(self.pointer, P(self.tensor.data_ptr()), 1)

    def _copy(self, to: P, source: P, kind: int) -> None:
        self.client.check(
            "aclrtMemcpy", self.client.acl.aclrtMemcpy(to, C.c_size_t(self.bytes), source, C.c_size_t(self.bytes), kind)
        )

    def read(self) -> None:
        if self.bytes:
            self._copy(P(self.tensor.data_ptr()), self.pointer, 2)

    def __del__(self) -> None:
        if self.pointer:
            self.client.acl.aclrtFree(self.pointer)


class Client:
    """The libraries, device 0 and one stream."""

    def __init__(self) -> None:
        folder = library_folder()
        self.acl = C.CDLL(str(folder / "libascendcl.so"))
        self.opapi = C.CDLL(str(folder / "libopapi.so"))
        self.acl.aclGetRecentErrMsg.restype = C.c_char_p
        for name in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList"):
            getattr(self.opapi, f"aclCreate{name}").restype = P
        self.create_tensor = self.opapi.aclCreateTensor
        self.create_tensor.argtypes = [P, C.c_uint64, C.c_int, P, C.c_int64, C.c_int, P, C.c_uint64, P]
        self.signatures = abi.aclnn()
        status = self.acl.aclInit(None)
        if status not in (0, 100002):  # already initialized by somebody else in this process
            self.check("aclInit", status)
        self.check("aclrtSetDevice", self.acl.aclrtSetDevice(0))
        self.stream = P()
        self.check("aclrtCreateStream", self.acl.aclrtCreateStream(C.byref(self.stream)))

    def message(self) -> str:
        return (self.acl.aclGetRecentErrMsg() or b"").decode()

    def check(self, what: str, status: int) -> None:
        if status:
            raise AclError(what, status, self.message())

    def has(self, op: str) -> bool:
        return hasattr(self.opapi, op)

    def tensor(self, cpu: torch.Tensor, memory: Memory | None = None) -> Tensor:
        return Tensor(self, cpu, memory)

    def scalar(self, value: object, dtype: torch.dtype | None = None) -> Handle:
        cpu = torch.tensor(value, dtype=dtype or (torch.float64 if isinstance(value, float) else None))
        return Handle(
            self,
            self.opapi.aclCreateScalar(P(cpu.data_ptr()), DTYPES[cpu.dtype]),
            "aclDestroyScalar",
            "aclCreateScalar",
        )

    def array(self, kind: str, values: list) -> Handle:
        c_type = {"Int": C.c_int64, "Float": C.c_float, "Bool": C.c_bool}[kind]
        data = (c_type * max(len(values), 1))(*values)
        return Handle(
            self,
            getattr(self.opapi, f"aclCreate{kind}Array")(data, C.c_uint64(len(values))),
            f"aclDestroy{kind}Array",
            kind,
        )

    def handle_list(self, kind: str, members: list[Handle | None]) -> Handle:
        data = (P * max(len(members), 1))(*(m.value if m else None for m in members))
        made = Handle(
            self,
            getattr(self.opapi, f"aclCreate{kind}List")(data, C.c_uint64(len(members))),
            f"aclDestroy{kind}List",
            kind,
        )
        for m in filter(None, members):
            m.value = None  # the list owns its members
        return made

    def convert(self, param: abi.Param, value: object) -> object:
        """A Python value as the C argument of one parameter; handles keep living in `self.alive`."""
        kind = param.type.replace("const", "").replace("*", "").strip()
        if isinstance(value, Handle):
            return P(value.value)
        if kind in C_INTEGERS:
            return C_INTEGERS[kind](DTYPES.get(value, value))
        if kind in ("double", "float"):
            return (C.c_double if kind == "double" else C.c_float)(value)
        if value is None:
            return P(None)
        if kind == "char":
            return C.c_char_p(value.encode())
        if kind == "aclTensor":
            made = self.tensor(value)
        elif kind == "aclScalar":
            made = self.scalar(value)
        elif kind == "aclTensorList":
            tensors = [None if t is None else self.tensor(t) for t in value]
            self.lists[param.name] = [(t.memory, t.cpu) for t in filter(None, tensors)]
            made = self.handle_list("Tensor", tensors)
        elif kind == "aclScalarList":
            made = self.handle_list("Scalar", [self.scalar(v) for v in value])
        else:
            made = self.array(kind.removeprefix("acl").removesuffix("Array"), list(value))
        self.alive[param.name] = made
        return P(made.value)

    def prepare(self, op: str, /, **values: object) -> tuple[P, C.c_uint64]:
        """Phase one: the executor and the workspace size."""
        params = self.signatures[op]
        assert {p.name for p in params} == set(values), f"{op} takes {[p.name for p in params]}"
        self.alive, self.lists = {}, {}
        args = [self.convert(p, values[p.name]) for p in params]
        size, executor = C.c_uint64(), P()
        self.check(
            f"{op}GetWorkspaceSize",
            getattr(self.opapi, op + "GetWorkspaceSize")(*args, C.byref(size), C.byref(executor)),
        )
        return executor, size

    def launch(self, op: str, executor: P, size: C.c_uint64) -> None:
        # Of operators that hold a collective alone; it must live until the stream has run them.
        self.workspace = Memory(self, torch.zeros(size.value, dtype=torch.uint8)) if size.value else None
        pointer = self.workspace.pointer if self.workspace else P(None)
        self.check(op, getattr(self.opapi, op)(pointer, size, executor, self.stream))

    def synchronize(self) -> None:
        self.check("aclrtSynchronizeStream", self.acl.aclrtSynchronizeStream(self.stream))

    def call(self, op: str, /, **values: object) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """Both phases and the results: every tensor parameter that the operator writes, as a CPU tensor by name."""
        executor, size = self.prepare(op, **values)
        self.launch(op, executor, size)
        self.synchronize()
        results: dict = {}
        for p in self.signatures[op]:
            if p.way == "in":
                continue
            if p.name in self.lists:
                results[p.name] = []
                for memory, cpu in self.lists[p.name]:
                    memory.read()
                    results[p.name].append(
                        memory.tensor.as_strided(cpu.shape, cpu.stride(), cpu.storage_offset()).clone()
                    )
            else:
                handle = values[p.name] if isinstance(values[p.name], Tensor) else self.alive.get(p.name)
                if isinstance(handle, Tensor):
                    results[p.name] = handle.read().clone()
        return results
