"""Public names of torch_npu have a docstring of their own: functions, classes, their public methods and properties."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

torch_npu = pytest.importorskip("torch_npu")

MODULES = [
    "torch_npu",
    "torch_npu.contrib",
    "torch_npu.contrib.apex",
    "torch_npu.contrib.apex.amp",
    "torch_npu.contrib.apex.multi_tensor_apply",
    "torch_npu.contrib.apex.normalization",
    "torch_npu.contrib.apex.optimizers",
    "torch_npu.contrib.apex.parallel",
    "torch_npu.contrib.function",
    "torch_npu.contrib.module",
    "torch_npu.contrib.transfer_to_npu",
    "torch_npu.distributed",
    "torch_npu.distributed.run",
    "torch_npu.npu",
    "torch_npu.npu.amp",
    "torch_npu.npu.amp.autocast_mode",
    "torch_npu.npu.autocast_utils",
    "torch_npu.npu.comm",
    "torch_npu.npu.devices",
    "torch_npu.npu.dump",
    "torch_npu.npu.graphs",
    "torch_npu.npu.memory",
    "torch_npu.npu.npu_config",
    "torch_npu.npu.random",
    "torch_npu.npu.streams",
    "torch_npu.npu.tensor_types",
    "torch_npu.npu.utils",
    "torch_npu.optim",
    "torch_npu.utils",
    "torch_npu.utils.compare",
    "torch_npu.utils.profiler",
    "torch_npu._C._distributed_c10d",
]


def names(module: ModuleType) -> list[str]:
    return getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]


def undocumented(name: str, thing: object) -> Iterator[str]:
    """`thing` and its public members, where ours and without a docstring."""
    if inspect.isclass(thing):
        if not (thing.__dict__.get("__doc__") or "").strip():
            yield name
        for member, value in vars(thing).items():
            if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
                yield from undocumented(f"{name}.{member}", value)
            elif inspect.isclass(value) and value.__module__.startswith("torch_npu"):
                yield from undocumented(f"{name}.{member}", value)
    elif (inspect.isroutine(thing) or isinstance(thing, property)) and not told(thing):
        yield name


def told(thing: object) -> str:
    """The docstring without the signature that pybind11 writes by itself."""
    text = getattr(thing, "__doc__", None) or ""
    lines = [line for line in text.strip().splitlines() if "self: torch_npu._C" not in line and ") -> " not in line]
    return "".join(lines).strip()


@pytest.mark.parametrize("name", MODULES)
def test_public_names_have_docstrings(name):
    module = importlib.import_module(name)
    if name.endswith("transfer_to_npu"):
        module.disable()  # its import enables it, for the other tests of this process, too
    missing = []
    for public in names(module):
        thing = getattr(module, public)
        if (getattr(thing, "__module__", None) or "").startswith("torch_npu"):
            missing += undocumented(public, thing)
    assert missing == []
