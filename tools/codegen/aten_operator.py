"""The operator of a row of ops/aten.yaml: its overloads, operands and meta function, as PyTorch's table has them, and
what its C++ is named. What it is not: the C++ (aten_wrapper.py). Who uses it: the other aten_*.py."""

from __future__ import annotations

import re
from functools import cached_property

import abi
from aten_row import Row, RowError
from aten_schemas import Schemas
from torchgen.api import meta as meta_api
from torchgen.api import native
from torchgen.context import native_function_manager
from torchgen.model import NativeFunction


class Operator:
    """What the functions of a row share: the forms (functional, in-place, out=) are of one operator."""

    aliases: dict[str, list[str]]  # other names of arguments, in aten_calls.py

    def __init__(self, row: Row, schemas: Schemas, signatures: dict[str, list[abi.Param]]) -> None:
        if row.func not in schemas.groups:
            raise RowError(row, "no such operator in this torch")
        self.row, self.signatures, self.schemas = row, signatures, schemas
        self.group = schemas.structured.get(row.func)
        self.kinds = {k: f for k, f in schemas.groups[row.func].items() if k in ("functional", "inplace", "out")}
        if row.only:
            self.kinds = {k: self.kinds[k] for k in row.only}
        if not self.kinds:
            raise RowError(row, "neither functional nor in-place nor out")
        if row.traps and not (row.compose and self.is_pointwise):
            raise RowError(row, "`traps:` is for pointwise operators with `compose:`: no other has the CPU's kernel")
        if row.types and not row.compose:
            raise RowError(row, "`types:` is for `compose:`; those of a function of CANN stand in ops/types.yaml")
        if row.int32 and (not row.aclnn or row.variants or row.scalar):
            raise RowError(row, "`int32:` is for rows with one call of CANN")
        if row.fast and row.alert:
            raise RowError(row, "`alert:` would not be asked where `fast:` skips the meta function")
        if not self.group and not row.meta and not row.is_foreach:
            raise RowError(row, "not structured: it needs `meta:`")

    @cached_property
    def base(self) -> NativeFunction:
        return next(self.kinds[k] for k in ("functional", "out", "inplace") if k in self.kinds)

    @cached_property
    def namespace(self) -> str:
        return "op_" + re.sub(r"\W", "_", str(self.base.func.name))

    @cached_property
    def outputs(self) -> list[str]:
        taken = {b.name for b in self.inputs}
        if "out" in self.kinds:
            return [a.name if a.name not in taken else a.name + "_out" for a in self.kinds["out"].func.arguments.out]
        names = [r.name for r in self.base.func.returns]
        if len(names) == 1:
            return ["out" if "out" not in taken else "result"]
        return [n or f"out{i}" for i, n in enumerate(names)]

    @cached_property
    def inputs(self) -> list:
        return [b for b in self.arguments(self.base) if not self.is_out(self.base, b.name)]

    @staticmethod
    def is_out(f: NativeFunction, name: str) -> bool:
        return any(a.name == name for a in f.func.arguments.out)

    @staticmethod
    def arguments(f: NativeFunction) -> list:
        with native_function_manager(f):
            return native.arguments(f.func, symint=False)

    @staticmethod
    def returns(f: NativeFunction) -> str:
        with native_function_manager(f):
            return native.returns_type(f.func.returns, symint=False).cpp_type()

    @property
    def is_native(self) -> bool:
        """Computed by PyTorch's own composition, the `impl` of its structured kernel."""
        return self.row.compose == "native"

    @property
    def is_pointwise(self) -> bool:
        return bool(self.group) and str(self.group.out.structured_inherits).startswith("TensorIterator")

    def tensors(self) -> list[str]:
        return [b.name for b in self.inputs if "Tensor" in b.nctype.type.cpp_type()]

    def meta_class(self) -> str:
        if self.row.meta:
            return "meta::" + self.row.meta.split("(")[0]
        if self.is_native:
            return f"at::native::structured_{self.kernel()}"
        return f"at::meta::structured_{meta_api.name(self.group)}"

    def kernel(self) -> str:
        out = self.group.out if self.group else self.base
        return self.schemas.cpu.get_kernel(out).kernel

    def meta_call(self) -> str:
        if self.row.meta:
            return "op.meta" + self.row.meta[self.row.meta.index("(") :] + ";"
        return f"op.meta({', '.join(self.meta_args())});"

    def meta_args(self) -> list[str]:
        optional = {"const ::std::optional<at::Tensor> &", "const ::std::optional<at::Scalar> &"}
        return [f"optional_ref({b.name})" if b.nctype.type.cpp_type() in optional else b.name for b in self.inputs]

    def pass_args(self, *outs: str) -> str:
        return ", ".join([b.name for b in self.inputs] + list(outs))
