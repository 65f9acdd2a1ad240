"""Refusals of wrong options, in torch.optim's words, and of options that a formula has not.

Called by the optimizers' constructors, add_param_group and load_state_dict.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

# They choose how torch.optim computes, not what.
HARMLESS = {"params", "foreach", "fused", "capturable", "differentiable"}


@functools.cache
def _options() -> frozenset[str]:
    """The options of all optimizers of torch.optim. Another name in a group is the program's or a scheduler's."""
    kinds = [k for k in vars(torch.optim).values() if isinstance(k, type) and issubclass(k, torch.optim.Optimizer)]
    return frozenset(name for kind in kinds for name in inspect.signature(kind).parameters) - HARMLESS


def known(label: str, group: dict[str, Any], defaults: dict[str, Any], decoupled: bool) -> None:
    """ValueError for an option of torch.optim that is set in the group and that `defaults` do not have.

    `decoupled` says whether the optimizer's weight decay is: torch.optim.AdamW's groups say that theirs is.
    """
    for name in sorted((_options() & group.keys()) - defaults.keys()):
        value = group[name]
        if name == "decoupled_weight_decay":
            if bool(value) != decoupled and group.get("weight_decay", 0) != 0:
                raise ValueError(
                    f"{label} has {'' if decoupled else 'no '}decoupled weight decay, but the group says "
                    f"decoupled_weight_decay={value}: use {'NpuFusedAdam' if decoupled else 'NpuFusedAdamW'}"
                )
        elif value:
            raise ValueError(
                f"{label} has no option {name}, but the group says {name}={value}: "
                "use torch.optim's optimizer, or set it to False"
            )


def not_negative(label: str, value: float, upper: float = float("inf")) -> None:
    """ValueError `Invalid <label>: <value>` unless 0 <= value <= upper."""
    if not 0.0 <= value <= upper:
        raise ValueError(f"Invalid {label}: {value}")


def coefficient(label: str, value: float) -> None:
    """ValueError `Invalid <label>: <value>` for a coefficient of a moving average outside [0, 1)."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"Invalid {label}: {value}")


def adam(lr: float, betas: tuple[float, float], eps: float, weight_decay: float = 0) -> None:
    """What all forms of Adam refuse."""
    not_negative("learning rate", lr)
    not_negative("epsilon value", eps)
    for index, beta in enumerate(betas):
        coefficient(f"beta parameter at index {index}", beta)
    not_negative("weight_decay value", weight_decay)
