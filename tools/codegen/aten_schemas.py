"""PyTorch's own table of operators, torchgen's packaged native_functions.yaml. Who uses it: aten.py, aten_*.py,
nested.py, sparse.py."""

from __future__ import annotations

import functools
from pathlib import Path

import torchgen
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DeviceCheckType, DispatchKey, NativeFunction, NativeFunctionsGroup, SchemaKind


class Schemas:
    """Functional, in-place and out overloads by the name of any of them."""

    def __init__(self) -> None:
        home = Path(torchgen.__file__).parent / "packaged/ATen/native"
        parsed = parse_native_yaml(str(home / "native_functions.yaml"), str(home / "tags.yaml"))
        self.functions = parsed.native_functions
        self.groups: dict[str, dict[str, NativeFunction]] = {}
        self.composite = parsed.backend_indices[DispatchKey.CompositeExplicitAutograd]
        self.cpu = parsed.backend_indices[DispatchKey.CPU]
        self.nested = parsed.backend_indices[DispatchKey.NestedTensorHPU]
        self.indices = parsed.backend_indices
        self.structured: dict[str, NativeFunctionsGroup] = {}
        for group in get_grouped_native_functions(parsed.native_functions):
            members = list(group.functions()) if isinstance(group, NativeFunctionsGroup) else [group]
            kinds = {self.kind(f): f for f in members if "generated" not in f.tags}
            for f in members:
                self.groups[str(f.func.name)] = kinds
                if isinstance(group, NativeFunctionsGroup) and group.structured:
                    self.structured[str(f.func.name)] = group

    @staticmethod
    def kind(f: NativeFunction) -> str:
        return {
            SchemaKind.functional: "functional",
            SchemaKind.inplace: "inplace",
            SchemaKind.out: "out",
            SchemaKind.mutable: "mutable",
            SchemaKind.scratch: "scratch",
        }[f.func.kind()]


@functools.cache
def table() -> Schemas:
    """Two seconds of reading, once a process."""
    return Schemas()


def wants_one_device(f: NativeFunction) -> bool:
    return f.device_check == DeviceCheckType.ExactSame
