"""The switch of transfer_to_npu: everything it changes is listed in three places.

- C++ (torch_npu._C._cuda_alias_enable): the CUDA dispatch key and guard, see csrc/ops/cuda_alias.h.
- `redirected`: built-in functions that take "cuda" for "npu" in place, see csrc/python/redirect.h.
- `facade`, `patches`: attributes that are added or replaced; `replaced()` lists them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch_npu._C as _C

from . import facade, patches, redirected
from ._attributes import Attributes

__all__ = ["disable", "disabled", "enable", "is_enabled", "replaced"]

_attributes = Attributes()


def is_enabled() -> bool:
    return _C._cuda_alias_enabled()


def enable() -> None:
    """Raises RuntimeError, and changes nothing, where PyTorch has CUDA of its own."""
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


def disable() -> None:
    """Restores every attribute and removes every registration. Tensors made meanwhile are npu tensors and stay so."""
    _attributes.restore()
    _C._cuda_alias_disable()


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """A block in which "cuda" means CUDA. For the whole process: other threads see it too."""
    was_enabled = is_enabled()
    disable()
    try:
        yield
    finally:
        if was_enabled:
            enable()


def replaced() -> list[str]:
    """Names of the attributes of torch that are added or replaced at this moment."""
    return _attributes.names()
