"""The options of amp.initialize: what a level means, and which combinations are refused. No effects."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import torch


@dataclass
class Properties:
    """Options of a level; None: the level does not say."""

    enabled: bool = True
    opt_level: str = "O1"
    cast_model_type: torch.dtype | None = None
    patch_torch_functions: bool = False
    keep_batchnorm_fp32: bool | None = None
    master_weights: bool | None = None
    loss_scale: float | str = 1.0
    cast_model_outputs: torch.dtype | None = None
    combine_grad: bool | None = None
    combine_ddp: bool | None = None
    ddp_replica_count: int = 4
    check_combined_tensors: bool | None = None


LEVELS: dict[str, dict[str, Any]] = {
    "O0": {"cast_model_type": torch.float32, "master_weights": False, "loss_scale": 1.0},
    "O1": {"patch_torch_functions": True, "loss_scale": "dynamic"},
    "O2": {
        "cast_model_type": torch.float16, "keep_batchnorm_fp32": True, "master_weights": True, "loss_scale": "dynamic",
    },
    "O3": {
        "cast_model_type": torch.float16, "keep_batchnorm_fp32": False, "master_weights": False, "loss_scale": 1.0,
    },
}  # fmt: skip

FLAGS = [field.name for field in fields(Properties) if field.type.startswith("bool") and field.name != "enabled"]

CASTS = (torch.float16, torch.bfloat16, torch.float32)
DTYPES = {"cast_model_type": CASTS, "cast_model_outputs": (*CASTS, torch.float64)}


def flag(name: str, value: Any) -> bool:
    """True, False and their names, as command lines give them."""
    if value in (True, "True"):
        return True
    if value in (False, "False"):
        return False
    raise ValueError(f"{name} is True or False, not {value!r}")


def _scale(value: Any) -> float:
    """A fixed loss scale, which command lines give as text."""
    try:
        scale = float(value)
    except (TypeError, ValueError):
        scale = math.nan
    if isinstance(value, bool) or not 0 < scale < math.inf:
        raise ValueError(f'loss_scale is a number above 0, or "dynamic", not {value!r}')
    return scale


def whole(name: str, value: Any, least: int | None = 1) -> int:
    """A whole number of at least `least`. Raises: ValueError, as for text and for True."""
    if isinstance(value, bool) or not isinstance(value, Integral) or (least is not None and value < least):
        raise ValueError(f"{name} is a whole number{'' if least is None else f', {least} or more'}, not {value!r}")
    return int(value)


def number(name: str, value: Any) -> float:
    """A number. Raises: ValueError, as for text and for True."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} is a number, not {value!r}")
    return float(value)


def properties(opt_level: str, options: dict[str, Any]) -> Properties:
    """The level's options, changed by those that are not None.

    Raises: RuntimeError for another level and for options that contradict it; ValueError for a wrong value.
    """
    if opt_level not in LEVELS:
        raise RuntimeError(
            f"Unexpected optimization level {opt_level}. Options are 'O0', 'O1', 'O2', 'O3'. "
            "Note that in `O0`, `O1`, etc., the prefix O is the letter O, not the number zero."
        )
    given = {name: value for name, value in options.items() if value is not None}
    for name in FLAGS:
        if name in given:
            given[name] = flag(name, given[name])
    if given.get("loss_scale", "dynamic") != "dynamic":
        given["loss_scale"] = _scale(given["loss_scale"])
    for name, dtypes in DTYPES.items():
        if name in given and not (isinstance(given[name], torch.dtype) and given[name] in dtypes):
            raise ValueError(f"{name} is one of {', '.join(map(str, dtypes))}, not {given[name]!r}")
    if "ddp_replica_count" in given:
        given["ddp_replica_count"] = whole("ddp_replica_count", given["ddp_replica_count"])
    if opt_level == "O1":
        for name in ("cast_model_type", "keep_batchnorm_fp32", "master_weights"):
            if given.get(name):
                raise RuntimeError(
                    f"{name}: O1 inserts casts around Torch functions, weights stay FP32; O2 has half weights"
                )
    elif given.get("patch_torch_functions"):
        raise RuntimeError("patch_torch_functions=True should only be set by selecting opt_level='O1'.")
    if given.get("combine_ddp"):
        given["combine_grad"] = True  # what is sent is the combined gradients
    if given.get("combine_grad") and opt_level not in ("O1", "O2"):
        raise RuntimeError("combine_grad=True should only be set with opt_level O1 or O2.")
    result = Properties(opt_level=opt_level, **(LEVELS[opt_level] | given))
    if opt_level == "O2" and result.combine_grad and not result.master_weights:
        raise RuntimeError("With opt_level O2, master_weights should be True when combine_grad is True")
    return result
