"""The NPU's own operators as names: `torch_npu.npu_swiglu` is `torch.ops.npu.npu_swiglu` with a docstring.

A name is made when it is first asked for: importing torch_npu makes none. The operators are rows of ops/npu.yaml.
Names of data types (`torch_npu.float4_e2m1fn_x2`) are numbers, _data_types.py.
The packages that a program may use without importing them (torch_npu.optim) are imported in the same way.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from torch_npu._data_types import DATA_TYPES

PACKAGES = ("contrib", "optim", "profiler", "utils")


def find(name: str) -> Any:
    """`torch_npu.<name>` where the module has no such attribute yet; AttributeError if there is no such operator."""
    if name.startswith("__"):
        raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")
    if name in PACKAGES:
        return importlib.import_module(f"torch_npu.{name}")
    if name in DATA_TYPES:
        return DATA_TYPES[name]
    from torch_npu._operator_docs import MISSING, NAMES, doc

    if name not in NAMES:
        why = f": {MISSING[name]}" if name in MISSING else ""
        raise AttributeError(f"module 'torch_npu' has no attribute {name!r}{why}")
    operator = getattr(torch.ops.npu, name)
    operator.__doc__ = doc(name)
    setattr(sys.modules["torch_npu"], name, operator)
    return operator


def names() -> list[str]:
    """dir(torch_npu): what is there, the packages and the operators."""
    from torch_npu._operator_docs import NAMES

    return sorted({*vars(sys.modules["torch_npu"]), *PACKAGES, *DATA_TYPES, *NAMES})
