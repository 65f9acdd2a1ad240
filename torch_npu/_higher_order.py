"""What PyTorch's higher-order operators ask of a device by its name: checkpoints with dropout in compiled graphs, and
torch.nn.attention.flex_attention. Called once, by `import torch_npu`; nothing of PyTorch's is replaced at import.

flex_attention checks its inputs against a list of devices that no back end can register with. That one function gets a
successor that lets npu tensors pass, when a program imports torch.nn.attention.flex_attention.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

from torch_npu._when_imported import WhenImported


def _autocast_flex_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> Any:
    # By the module's name: as an attribute of its package it is the operator.
    module = importlib.import_module("torch._higher_order_ops.flex_attention")
    dtype = torch.get_autocast_dtype("npu")
    query, key, value = (module._autocast_cast(tensor, "npu", dtype) for tensor in (query, key, value))
    with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutocastPrivateUse1)):
        return module.flex_attention(query, key, value, *rest)


def _allow_flex_attention(module: ModuleType) -> None:
    others = module._validate_device

    @functools.wraps(others)
    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "npu":
            others(query, key, value)

    module._validate_device = validate_device


def register() -> None:
    from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type
    from torch._higher_order_ops.flex_attention import flex_attention

    register_graphsafe_rng_device_type("npu")
    flex_attention.py_impl(DispatchKey.AutocastPrivateUse1)(_autocast_flex_attention)
    WhenImported("torch.nn.attention.flex_attention", _allow_flex_attention)
