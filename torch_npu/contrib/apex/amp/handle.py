"""amp.scale_loss: a loss times its scale on the way in, gradients divided by it on the way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch

from torch_npu.contrib.apex.amp._amp_state import _amp_state
from torch_npu.contrib.apex.amp.optimizer import Gradients, Stash


@contextlib.contextmanager
def scale_loss(
    loss: torch.Tensor, optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer], loss_id: int = 0,
    model: torch.nn.Module | None = None, delay_unscale: bool = False, delay_overflow_check: bool = False,
) -> Iterator[torch.Tensor]:  # fmt: skip
    """`with amp.scale_loss(loss, optimizer) as scaled_loss: scaled_loss.backward()`.

    After the block the gradients of amp.master_params(optimizer) are true ones; if one of them is not finite and the
    scale is dynamic, the scale is halved and the next optimizer.step() does nothing.

    Args:
        loss: a tensor without dimensions.
        optimizers: one, or several, whose parameters the loss reaches.
        loss_id: which of initialize's num_losses.
        model: unused, as in Apex.
        delay_unscale: leaves the gradients scaled, for more backward passes before a step.
        delay_overflow_check: looks for overflows at a later block.

    Raises: RuntimeError before amp.initialize, for an optimizer that was not given to it and within another block of
    the same optimizer; ValueError for a loss_id that num_losses does not have. If the block itself raises, gradients
    are what they were before it.
    """
    properties = _amp_state.opt_properties
    if properties is None:
        raise RuntimeError(
            "Invoked 'with amp.scale_loss`, but internal Amp state has not been initialized. "
            "model, optimizer = amp.initialize(model, optimizer, opt_level=...) must be called "
            "before `with amp.scale_loss`."
        )
    if not properties.enabled:
        yield loss
        return
    several = [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else list(optimizers)
    for optimizer in several:
        if not hasattr(optimizer, "_amp_stash"):
            raise RuntimeError("amp.scale_loss was given an optimizer that amp.initialize was not: give it to both")
    number = len(_amp_state.loss_scalers)
    if loss_id not in range(number):
        raise ValueError(f"loss_id is {loss_id}, and amp.initialize was given num_losses={number}: they count from 0")
    scaler = _amp_state.loss_scalers[loss_id]
    stashes = [optimizer._amp_stash for optimizer in several]
    begun: list[tuple[Stash, Gradients]] = []
    try:
        for stash in stashes:
            seen = stash.gradients()
            if not delay_unscale:
                stash.before_backward()
            begun.append((stash, seen))
        with torch.autocast("npu", enabled=False):
            yield loss.float() * scaler.loss_scale()
    except BaseException:
        for stash, seen in begun:
            if delay_unscale:
                stash.scaled = stash.scaled or stash.gradients() != seen
            else:
                stash.abandon_backward()
        raise
    if delay_unscale:
        for stash in stashes:
            stash.scaled = True
        return
    for stash in stashes:
        stash.after_backward(scaler)
    if not delay_overflow_check and scaler.update_scale():
        for stash in stashes:
            stash.skip = (
                f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}"
            )
