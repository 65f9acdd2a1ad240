"""Optimizers that count their steps on the host: a graph would have the number of the captured step in each replay, so
their step is refused in a capture. What PyTorch does for its own devices (Optimizer's health check), by its own hook.
"""

from __future__ import annotations

from typing import Any

from torch.optim import ASGD, Adafactor, Adagrad, Adam, Adamax, NAdam, Optimizer, RAdam
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from torch_npu import _C

_COUNT = Adam, NAdam, RAdam, Adamax, ASGD, Adafactor  # of torch.optim, those whose update depends on the step's number


def _counts(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    """Does the update depend on a number on the host? Our own optimizers say so by an attribute."""
    if isinstance(optimizer, Adagrad):
        return group["lr_decay"] != 0
    return isinstance(optimizer, _COUNT) or getattr(optimizer, "_counts_on_host", False)


def _look(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if not _C._is_capturing():
        return
    for group in optimizer.param_groups:
        on_device = group.get("capturable") or group.get("fused")
        if not on_device and _counts(optimizer, group) and any(p.device.type == "npu" for p in group["params"]):
            name = type(optimizer).__name__
            how = f"make it with {name}(..., capturable=True)" if "capturable" in group else "step outside the graph"
            raise RuntimeError(
                f"Attempting NPU graph capture of step() for an instance of {name} but param_groups' capturable is "
                f"False: each replay would repeat the number of this step. {how[0].upper()}{how[1:]}"
            )


def refused() -> RemovableHandle:
    """From here on until the handle's remove(): for as long as a capture goes on."""
    return register_optimizer_step_pre_hook(_look)
