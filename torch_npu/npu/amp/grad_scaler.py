"""Loss scaling for float16 training: torch.amp.GradScaler('npu') and one option more, `dynamic`."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import torch
from torch.amp.grad_scaler import _refresh_per_optimizer_state

from . import overflow
from .common import amp_definitely_not_available

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """See torch.amp.GradScaler. With ``dynamic=False`` the scale stays at `init_scale`: steps whose gradients overflow
    are still skipped, but neither they nor good ones change it."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        if enabled and amp_definitely_not_available():
            warnings.warn("torch_npu.npu.amp.GradScaler is enabled, but no NPU is available. Disabling.", stacklevel=2)
            enabled = False
        self._dynamic = dynamic
        super().__init__(
            "npu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapts the scale after a step, or sets it to `new_scale` (a number, or a float32 tensor of one element).

        With ``dynamic=False`` only `new_scale` changes it. Raises AssertionError if no step was
        looked at since the last update.
        """
        if not self._enabled or self._dynamic or new_scale is not None:
            super().update(new_scale)
            return
        self._check_scale_growth_tracker("update")
        if not any(state["found_inf_per_device"] for state in self._per_optimizer_states.values()):
            raise AssertionError("No inf checks were recorded prior to update.")
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def state_dict(self) -> dict[str, Any]:
        """torch.amp.GradScaler's state and `dynamic`; {} where the scaler is not enabled."""
        state = super().state_dict()
        return {**state, "dynamic": self._dynamic} if state else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Accepts the state of a CUDA run too; that one does not say `dynamic`, and this scaler keeps its own."""
        super().load_state_dict(state_dict)
        if self._enabled:
            self._dynamic = state_dict.get("dynamic", self._dynamic)

    get_npu_overflow_flag = staticmethod(overflow.get_npu_overflow_flag)
    clear_npu_overflow_flag = staticmethod(overflow.clear_npu_overflow_flag)
