"""The scale of one loss: fixed, or halved at an overflow and doubled after a number of good steps."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_npu.contrib.apex.amp.properties import number


class LossScaler:
    """Knows the scale and whether this step overflowed. Only a dynamic scaler looks for overflows, as in Apex."""

    def __init__(
        self, loss_scale: float | str, init_scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5,
        window: int = 2000, min_loss_scale: float | None = None, max_loss_scale: float = 2.0**24,
    ) -> None:  # fmt: skip
        self.dynamic = loss_scale == "dynamic"
        if self.dynamic:
            init_scale, most = number("dynamic_init_scale", init_scale), number("max_loss_scale", max_loss_scale)
            growth, backoff = number("scale_growth_factor", growth), number("scale_backoff_factor", backoff)
            least = 0.0 if min_loss_scale is None else number("min_loss_scale", min_loss_scale)
            steps = number("scale_window", window)  # an infinite one, which never ends, keeps the scale from growing
            if not (0 <= least <= init_scale < math.inf and 0 < init_scale and least <= most < math.inf):
                raise ValueError(
                    f"a dynamic loss scale starts above 0 at dynamic_init_scale ({init_scale}), not below "
                    f"min_loss_scale ({min_loss_scale}), which is not above max_loss_scale ({max_loss_scale})"
                )
            if not (0 < backoff <= 1 <= growth < math.inf and steps >= 1 and (steps == math.inf or steps % 1 == 0)):
                raise ValueError(
                    f"scale_backoff_factor ({backoff}) is between 0 and 1, scale_growth_factor ({growth}) 1 or more, "
                    f"scale_window ({window}) a whole number of steps"
                )
        self._scale = min(max_loss_scale, init_scale) if self.dynamic else float(loss_scale)
        self._growth, self._backoff, self._window = growth, backoff, window
        self._least, self._most, self._unskipped = min_loss_scale, max_loss_scale, 0
        self._found: torch.Tensor | None = None

    def loss_scale(self) -> float:
        """What the loss is multiplied by."""
        return self._scale

    def found_inf(self, device: torch.device) -> torch.Tensor:
        """One number that becomes 1 where a gradient is not finite."""
        if self._found is None:
            self._found = torch.zeros(1, device=device)
        return self._found

    def update_scale(self) -> bool:
        """Ends a step: must it be skipped? Waits for the gradients if the scale is dynamic."""
        overflow = self.dynamic and self._found is not None and bool(self._found.item())
        self._found = None
        if overflow:
            self._scale = self._scale * self._backoff
            self._scale = self._scale if self._least is None else max(self._least, self._scale)
            self._unskipped = 0
        else:
            self._unskipped += 1
        if self.dynamic and self._unskipped >= self._window:  # more than that where a checkpoint had a longer window
            self._scale = min(self._most, self._scale * self._growth)
            self._unskipped = 0
        return overflow

    def state_dict(self) -> dict[str, Any]:
        """{"loss_scale": number, "unskipped": number of good steps since the scale changed}."""
        return {"loss_scale": self._scale, "unskipped": self._unskipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state."""
        self._scale, self._unskipped = state["loss_scale"], state["unskipped"]
