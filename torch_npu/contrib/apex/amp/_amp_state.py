"""What amp.initialize leaves for the other calls: the properties and the loss scalers of this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


class AmpState:
    """One a process, as in Apex: a second initialize replaces it."""

    def __init__(self) -> None:
        self.verbosity = 1
        self.opt_properties: Any = None  # None: initialize was not called
        self.loss_scalers: list[Any] = []
        self.autocast: tuple[bool, torch.dtype, bool] | None = None  # what O1 has replaced: enabled, dtype, cache

    def begin_autocast(self) -> None:
        """O1: from here on, of this thread, until the next initialize."""
        self.autocast = (
            torch.is_autocast_enabled("npu"), torch.get_autocast_dtype("npu"), torch.is_autocast_cache_enabled(),
        )  # fmt: skip
        torch.set_autocast_dtype("npu", torch.float16)
        torch.set_autocast_enabled("npu", True)
        torch.set_autocast_cache_enabled(False)  # no block ends, so nothing would empty the cache after a step

    def end_autocast(self) -> None:
        """What an earlier O1 has set is as it was before."""
        if self.autocast is not None:
            enabled, dtype, cache = self.autocast
            torch.set_autocast_enabled("npu", enabled)
            torch.set_autocast_dtype("npu", dtype)
            torch.set_autocast_cache_enabled(cache)
            self.autocast = None


_amp_state = AmpState()


def maybe_print(message: str) -> None:
    """Prints unless verbosity is 0; of several ranks only the first prints."""
    ranks = torch.distributed.is_available() and torch.distributed.is_initialized()
    if _amp_state.verbosity > 0 and (not ranks or torch.distributed.get_rank() == 0):
        print(message, flush=True)


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.nn.Parameter]:
    """The parameters that `optimizer` updates: with O2 the float32 copies. For clipping: clip_grad_norm_ of them."""
    for group in optimizer.param_groups:
        yield from group["params"]
