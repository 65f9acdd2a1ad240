"""Optimizers that count their steps on the host: a graph would have the number of the captured step in each replay, so
their step is refused in a capture. What PyTorch does for its own devices (Optimizer's health check), by its own hook.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch.optim import ASGD, Adafactor, Adam, Adamax, NAdam, Optimizer, RAdam
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from torch_npu import _C

_COUNT = Adam, NAdam, RAdam, Adamax, ASGD, Adafactor  # of torch.optim, those whose update depends on the step's number


def _look(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not isinstance(optimizer, _COUNT) or not _C._is_capturing():
        return
    for group in optimizer.param_groups:
        on_device = group.get("capturable") or group.get("fused")
        if not on_device and any(p.grad is not None and p.device.type == "npu" for p in group["params"]):
            name = type(optimizer).__name__
            how = f"make it with {name}(..., capturable=True)" if "capturable" in group else "step outside the graph"
            raise RuntimeError(
                f"Attempting NPU graph capture of step() for an instance of {name} but param_groups' capturable is "
                f"False: each replay would repeat the number of this step. {how[0].upper()}{how[1:]}"
            )


NOT_REFUSED = RemovableHandle(OrderedDict())


def refused() -> RemovableHandle:
    """From here on until the handle's remove()."""
    return register_optimizer_step_pre_hook(_look)
