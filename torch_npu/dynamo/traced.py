"""What Dynamo knows of torch.npu while it traces a function: calls whose results are constants, autocast, and what
ends a graph. Its own lists have the same of torch.cuda. Called once, when Dynamo has been imported (_compile.py).
What it is not: streams and events (streams.py)."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._dynamo import trace_rules
from torch._dynamo.variables import torch as known
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.ctx_manager import AutocastModeVariable

from torch_npu import npu

# Of the machine, so the same in all calls.
LASTING = (
    npu.device_count,
    npu.get_device_capability,
    npu.get_device_name,
    npu.get_soc_version,
    npu.is_available,
    npu.is_bf16_supported,
)
# Asked again before each call; another answer compiles the function again.
GUARDED = (npu.current_device, npu.is_initialized)
# A call ends the graph and says so where breaks are logged, without Dynamo's warning of C++ that it does not know.
ENDING = (npu.synchronize, npu.set_device, npu.init, npu.get_device_properties, npu.default_stream, npu.utilization)
ENDING_FILES = (npu.memory, npu.random)


def _autocast(_: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    given = inspect.signature(npu.amp.autocast).bind(*args, **kwargs)
    given.apply_defaults()
    return AutocastModeVariable.create(torch.amp.autocast_mode.autocast, ("npu",), dict(given.arguments))


def _only_when_called() -> None:
    """Functions of torch.npu are traced where a compiled function calls them, and never for themselves, as those of
    torch.cuda: reading a random state, or the current device, behind a graph's end is no graph."""
    trace_rules.add(npu.__name__)
    inlined = getattr(trace_rules, "BUILTIN_INLINE_WHEN_CALLED", trace_rules.get_mod_inlinelist())  # before torch 2.13
    inlined.add(trace_rules._module_dir(npu))


def register() -> None:
    _only_when_called()
    known.constant_fold_functions.update(dict.fromkeys(LASTING + GUARDED))
    known.constant_fold_functions_need_guards.update(dict.fromkeys(GUARDED))
    known.TorchInGraphFunctionVariable._get_handlers()[npu.amp.autocast] = _autocast
    for function in (*LASTING, *GUARDED, npu.amp.autocast):
        torch._dynamo.allow_in_graph(function)
    for function in ENDING:
        torch._dynamo.disallow_in_graph(torch._dynamo.allow_in_graph(function))
    trace_rules.FORCE_SKIP_FILES.update(module.__file__ for module in ENDING_FILES)
