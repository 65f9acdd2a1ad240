"""What a level does to a model: its weights' dtype, what goes in and out, what state_dict shows. For frontend.py."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from torch_npu.contrib.apex.amp.properties import Properties

HALVES = (torch.float16, torch.bfloat16)


def applied(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """`value` with all its floating-point tensors changed, in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.is_floating_point() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(applied(change, item) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(applied(change, item) for item in value)
    if isinstance(value, Mapping):
        changed = {name: applied(change, item) for name, item in value.items()}
        return changed if type(value) is dict else type(value)(changed)
    return value


def check(model: torch.nn.Module) -> None:
    """Raises RuntimeError for a model that is wrapped for data parallel already, on the CPU, or not in float32."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.parallel.DataParallel):
        raise RuntimeError(
            f"Incoming model is an instance of {type(model).__name__}. Parallel wrappers should only be applied to the "
            "model(s) AFTER the model(s) have been returned from amp.initialize."
        )
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and (parameter.dtype != torch.float32 or parameter.device.type != "npu"):
            raise RuntimeError(
                f"Found param {name} with type {parameter.dtype} on {parameter.device}, expected float32 on the npu: "
                "amp.initialize takes a float32 model that has been moved, and casts it itself"
            )


def cast(model: torch.nn.Module, dtype: torch.dtype, keep_batchnorm: bool) -> None:
    """Casts parameters and buffers in place; without those of batch norms if keep_batchnorm."""
    for module in model.modules():
        if keep_batchnorm and isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.affine:
            continue
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype)
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.to(dtype)
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                setattr(module, name, buffer.to(dtype))


class _CastForward:
    """A model's forward that casts what goes in and what comes out. Of a copied or pickled model it is the copy's."""

    def __init__(self, forward: Callable[..., Any], inputs: torch.dtype | None, outputs: torch.dtype | None) -> None:
        functools.update_wrapper(self, getattr(forward, "__func__", forward))
        del self.__wrapped__  # of the class, not of the model: inspect would show its self
        self._forward, self._inputs, self._outputs = forward, inputs, outputs
        self.__signature__ = inspect.signature(forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._inputs is not None:
            args, kwargs = applied(lambda t: t.to(self._inputs), (args, kwargs))
        result = self._forward(*args, **kwargs)
        return result if self._outputs is None else applied(lambda t: t.to(self._outputs), result)


def patch_forward(model: torch.nn.Module, inputs: torch.dtype | None, outputs: torch.dtype | None) -> None:
    """Casts what goes into model.forward and what comes out."""
    model.forward = _CastForward(model.forward, inputs, outputs)


def float_state_dict(model: torch.nn.Module, state: dict[str, Any], prefix: str, local: Any) -> None:
    """A state_dict hook: half-precision weights are saved as float32, so that O2's checkpoints fit any level."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.dtype in HALVES:
            state[name] = value.float()


def prepare(model: torch.nn.Module, properties: Properties) -> None:
    """Makes the model what the level says."""
    dtype = properties.cast_model_type
    if dtype is not None and dtype != torch.float32:
        cast(model, dtype, bool(properties.keep_batchnorm_fp32))
        patch_forward(model, dtype, properties.cast_model_outputs or torch.float32)
        model.register_state_dict_post_hook(float_state_dict)
    elif dtype == torch.float32:
        patch_forward(model, dtype, properties.cast_model_outputs)
    elif properties.cast_model_outputs is not None:
        patch_forward(model, None, properties.cast_model_outputs)
