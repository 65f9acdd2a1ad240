"""Refusals of wrong options, in torch.optim's words. Called by the optimizers' constructors."""

from __future__ import annotations


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
