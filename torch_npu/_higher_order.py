"""What PyTorch's higher-order operators ask of a device by its name: checkpoints with dropout in compiled graphs, and
torch.nn.attention.flex_attention. Called once, by `import torch_npu`.

A dropout in a compiled checkpoint is an operator with a generator, one for forward and one for backward, which PyTorch
seeds itself and keeps in step. So that it drops what eager drops, the forward draws from the device's generator, as
eager does, and remembers from where; the backward, whose generator then has the same seed and offset, draws from there
again. The function that does it, private to PyTorch's rng_prims, gets a successor for npu generators, once
something is imported that makes such graphs.

flex_attention checks its inputs against a list of devices that no back end can register with. That one function gets a
successor that lets npu tensors pass, when a program imports torch.nn.attention.flex_attention.
"""

from __future__ import annotations

import functools
import importlib
import threading
import warnings
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

from torch_npu import _C
from torch_npu._torch_version import DRAWS_IN_GRAPHS, register_graphsafe_rng_device_type
from torch_npu._when_imported import WhenImported

# Where the forward drew: (device, seed and offset of its own generator) → seed and offset of the device's. The backward
# takes it out; what no backward comes for goes when there are more than so many.
_drawn: dict[tuple[int, int, int], tuple[int, int]] = {}
_MOST = 1 << 16
_lock = threading.Lock()


def _draw_as_eager(others: Any) -> Any:
    @functools.wraps(others)
    def draw(op: Any, *args: Any, rng_state: Any = None, **kwargs: Any) -> Any:
        if rng_state.device.type != "npu":
            return others(op, *args, rng_state=rng_state, **kwargs)
        if _C._is_capturing():
            warnings.warn(
                "npu: a compiled checkpoint that draws random numbers is captured: replays of its backward draw others "
                'than its forward drew. Capture it uncompiled, or compile with backend="npugraphs" and do not capture',
                stacklevel=2,
            )
            return others(op, *args, rng_state=rng_state, **kwargs)
        device, step = rng_state.device.index, rng_state.get_offset()
        key = device, rng_state.initial_seed(), step
        generator = torch.npu.default_generators[device]
        with _lock:
            place = _drawn.get(key)
            if place is None:
                _drawn[key] = generator.initial_seed(), generator.get_offset()
                if len(_drawn) > _MOST:
                    del _drawn[next(iter(_drawn))]
            elif not torch._C._autograd._get_current_graph_task_keep_graph():
                del _drawn[key]
        rng_state.set_offset(step + 4)  # the next use of the same operator; offsets are multiples of four
        if place is None:
            return op(*args, **kwargs)
        current, again = generator.graphsafe_get_state(), generator.clone_state()
        again.manual_seed(place[0])
        again.set_offset(place[1])
        generator.graphsafe_set_state(again)
        try:
            return op(*args, **kwargs)
        finally:
            generator.graphsafe_set_state(current)

    return draw


def _draw_in_graphs_as_eager(_: ModuleType) -> None:
    from torch._prims import rng_prims

    rng_prims._impl_graphsafe_rng = _draw_as_eager(rng_prims._impl_graphsafe_rng)


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
    from torch._higher_order_ops.flex_attention import flex_attention

    if DRAWS_IN_GRAPHS:
        WhenImported("torch._functorch.partitioners", _draw_in_graphs_as_eager)  # it makes such operators
    register_graphsafe_rng_device_type("npu")
    flex_attention.py_impl(DispatchKey.AutocastPrivateUse1)(_autocast_flex_attention)
    WhenImported("torch.nn.attention.flex_attention", _allow_flex_attention)
