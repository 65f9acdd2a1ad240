"""The switch of transfer_to_npu: everything it changes is listed in three places.

- C++ (torch_npu._C._cuda_alias_enable): the CUDA dispatch key and guard, see csrc/ops/cuda_alias.h.
- `redirected`: built-in functions that take "cuda" for "npu" in place, see csrc/python/redirect.h.
- `facade`, `patches`: attributes that are added or replaced; `replaced()` lists them.

`rewrite` is apart from it: modules rewritten as they are imported, for those who ask.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

import torch_npu._C as _C
from torch_npu._hints import warn_of_cuda_devices

from . import facade, patches, redirected, rewrite
from ._attributes import Attributes

__all__ = ["disable", "disabled", "enable", "is_enabled", "replaced", "rewrite_modules"]

_attributes = Attributes()


def is_enabled() -> bool:
    """Whether "cuda" means the npu in this process now."""
    return _C._cuda_alias_enabled()


def enable() -> None:
    """Lets "cuda" mean the npu, in this process. Enabling twice is enabling once."""
    if is_enabled():
        return
    _C._cuda_alias_enable()
    try:
        redirected.install()
        facade.install(_attributes)
        patches.install(_attributes)
    except BaseException:
        disable()
        raise
    _forget_rules()
    warn_of_cuda_devices()


def disable() -> None:
    """Restores every attribute and removes every registration. Tensors made meanwhile are npu tensors and stay so, and
    modules that were rewritten stay rewritten."""
    rewrite.stop()
    _attributes.restore()
    _C._cuda_alias_disable()
    _forget_rules()


def _forget_rules() -> None:
    """What Python has concluded from the registrations and functions as they were. Under a trace each operator keeps
    which kernel a dispatch key leads to; of one that is gone, it would call PyTorch's refusal to differentiate. Dynamo,
    once imported, finds torch's functions by hash; that of a built-in one is its C function's address, which
    `redirected` changes."""
    for operator in torch._ops.get_cached_ops():
        operator._dispatch_cache.clear()
    if rules := sys.modules.get("torch._dynamo.trace_rules"):
        rules.clear_lru_cache()
    if torch_variables := sys.modules.get("torch._dynamo.variables.torch"):
        handlers = torch_variables.TorchInGraphFunctionVariable._get_handlers()
        folded = (torch_variables.constant_fold_functions, torch_variables.constant_fold_functions_need_guards)
        for known in (handlers, *folded):
            rows = list(known.items())
            known.clear()
            known.update(rows)


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """A block in which "cuda" means CUDA. For the whole process: other threads see it too."""
    was_enabled, rewriting = is_enabled(), rewrite.active()
    disable()
    try:
        yield
    finally:
        if was_enabled:
            enable()
        if rewriting is not None:
            sys.meta_path.insert(0, rewriting)


def replaced() -> list[str]:
    """Names of the attributes of torch that are added or replaced at this moment."""
    return _attributes.names()


def rewrite_modules(*packages: str) -> None:
    """Rewrites, in memory, the modules imported from now on as pytorch_gpu2npu would: those of these packages, or all
    that are not installed. For scripts that compare names, as in `backend == "nccl"` or `device.type == "cuda"`."""
    rewrite.start(packages)
