"""amp.initialize, and the scales' state_dict."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from torch_npu.contrib.apex.amp import model as models_
from torch_npu.contrib.apex.amp import optimizer as optimizers_
from torch_npu.contrib.apex.amp._amp_state import _amp_state, maybe_print
from torch_npu.contrib.apex.amp.properties import Properties, flag, properties, whole
from torch_npu.contrib.apex.amp.scaler import LossScaler

Models = torch.nn.Module | Sequence[torch.nn.Module]
Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None


def initialize(
    models: Models, optimizers: Optimizers = None, enabled: bool = True, opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None, patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None, master_weights: bool | None = None,
    loss_scale: float | str | None = None, cast_model_outputs: torch.dtype | None = None, num_losses: int = 1,
    verbosity: int = 1, min_loss_scale: float | None = None, max_loss_scale: float = 2.0**24,
    dynamic_init_scale: float = 2.0**16, scale_growth_factor: float = 2.0, scale_backoff_factor: float = 0.5,
    scale_window: int = 2000, combine_grad: bool | None = None, combine_ddp: bool | None = None,
    ddp_replica_count: int = 4, check_combined_tensors: bool | None = None,
) -> Any:  # fmt: skip
    """Prepares models and optimizers for a level of mixed precision; call it once, before wrapping for data parallel.

    Args:
        models: one or a list, float32, on the npu; changed in place.
        optimizers: one, a list, or None.
        enabled: False returns everything as it is, and amp.scale_loss does nothing.
        opt_level: "O0" float32; "O1" autocast of the calling thread from here on; "O2" half-precision weights, batch
            norms and master copies in float32; "O3" half precision.
        cast_model_type: of O2 and O3, the weights' and inputs' dtype: torch.float16 or bfloat16.
        patch_torch_functions: only with O1.
        keep_batchnorm_fp32, master_weights: of O2 and O3. All flags may be the strings "True" and "False".
        loss_scale: a number, or "dynamic": halved at overflows. The default is the level's.
        cast_model_outputs: the dtype of what the models return; float32 with O2 and O3.
        num_losses: how many loss_ids amp.scale_loss knows, each with its own scale.
        verbosity: 0 prints nothing.
        min_loss_scale, max_loss_scale, dynamic_init_scale, scale_growth_factor, scale_backoff_factor, scale_window: of
            dynamic scales; the last is the number of good steps after which a scale grows.
        combine_grad: of O1 and O2: gradients lie in one tensor a dtype, and are unscaled by one kernel.
        combine_ddp: gradients are averaged over all ranks after each scale_loss, in place of DistributedDataParallel.
        ddp_replica_count: in how many pieces that is done.
        check_combined_tensors: False trusts gradients to stay combined; else a look at each step brings them back.

    Returns: (models, optimizers), lists where lists were given; the models alone without optimizers.
    Raises: RuntimeError for options that contradict the level, for a model that is not float32, on the CPU or wrapped
    already, for an optimizer that was prepared before; ValueError for a value that an option cannot have.
    """
    _amp_state.verbosity = verbosity if isinstance(verbosity, bool) else whole("verbosity", verbosity, least=None)
    if not (flag("enabled", enabled) if isinstance(enabled, str) else enabled):
        _amp_state.end_autocast()
        _amp_state.opt_properties, _amp_state.loss_scalers = Properties(enabled=False), []
        return models if optimizers is None else (models, optimizers)
    options = dict(
        cast_model_type=cast_model_type, patch_torch_functions=patch_torch_functions, master_weights=master_weights,
        keep_batchnorm_fp32=keep_batchnorm_fp32, loss_scale=loss_scale, cast_model_outputs=cast_model_outputs,
        combine_grad=combine_grad, combine_ddp=combine_ddp, ddp_replica_count=ddp_replica_count,
        check_combined_tensors=check_combined_tensors,
    )  # fmt: skip
    chosen = properties(opt_level, options)
    whole("num_losses", num_losses)
    scales = dict(
        init_scale=dynamic_init_scale, growth=scale_growth_factor, backoff=scale_backoff_factor, window=scale_window,
        min_loss_scale=min_loss_scale, max_loss_scale=max_loss_scale,
    )  # fmt: skip
    scalers = [LossScaler(chosen.loss_scale, **scales) for _ in range(num_losses)]
    network = [models] if isinstance(models, torch.nn.Module) else list(models)
    several = [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else list(optimizers or [])
    for model in network:
        models_.check(model)
    for model in network:
        models_.prepare(model, chosen)
    for optimizer in several:
        optimizers_.prepare(optimizer, chosen)
    _amp_state.opt_properties, _amp_state.loss_scalers = chosen, scalers
    _amp_state.end_autocast()
    if chosen.patch_torch_functions:
        _amp_state.begin_autocast()
    maybe_print(f"Selected optimization level {opt_level}; loss scale {chosen.loss_scale}")
    if optimizers is None:
        return models
    return models, optimizers


def state_dict() -> dict[str, Any]:
    """The scales of all losses: {"loss_scaler0": {"loss_scale": …, "unskipped": …}, …}."""
    if _amp_state.opt_properties is None:
        raise RuntimeError("amp.state_dict() needs amp.initialize first")
    return {f"loss_scaler{index}": scaler.state_dict() for index, scaler in enumerate(_amp_state.loss_scalers)}


def load_state_dict(state: dict[str, Any]) -> None:
    """Goes on with saved scales, after amp.initialize with the same options. Warns if the number of losses differs."""
    if _amp_state.opt_properties is None:
        raise RuntimeError("amp.load_state_dict() needs amp.initialize first")
    number = len(_amp_state.loss_scalers)
    if len(state) != number:
        warnings.warn(f"the state has {len(state)} loss scales and num_losses is {number}: what both have is loaded")
    for index, scaler in enumerate(_amp_state.loss_scalers):
        if f"loss_scaler{index}" in state:
            scaler.load_state_dict(state[f"loss_scaler{index}"])
