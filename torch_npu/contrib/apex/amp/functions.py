"""Functions of the user's own under O1: which precision they take. Outside O1 they are as they were."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_npu.contrib.apex.amp.model import HALVES, applied


def _wrapped(fn: Callable[..., Any], choose: Callable[[list[torch.dtype]], torch.dtype]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def cast(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled("npu"):
            return fn(*args, **kwargs)
        seen: list[torch.dtype] = []
        applied(lambda t: seen.append(t.dtype) or t, (args, kwargs))
        dtype = choose(seen)
        args, kwargs = applied(lambda t: t.to(dtype) if t.dtype != torch.float64 else t, (args, kwargs))
        with torch.autocast("npu", enabled=False):
            return fn(*args, **kwargs)

    return cast


def half_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with its floating-point tensors cast to float16."""
    return _wrapped(fn, lambda seen: torch.get_autocast_dtype("npu"))


def float_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with its floating-point tensors cast to float32."""
    return _wrapped(fn, lambda seen: torch.float32)


def promote_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with its floating-point tensors cast to the widest type among them."""
    return _wrapped(fn, lambda seen: torch.float32 if set(seen) - set(HALVES) else (seen or [torch.float32])[0])


def register_half_function(module: Any, name: str) -> None:
    """Makes module.name a half_function; before amp.initialize. Raises: ValueError if there is no such name."""
    _register(module, name, half_function)


def register_float_function(module: Any, name: str) -> None:
    """Makes module.name a float_function; before amp.initialize. Raises: ValueError if there is no such name."""
    _register(module, name, float_function)


def register_promote_function(module: Any, name: str) -> None:
    """Makes module.name a promote_function; before amp.initialize. Raises: ValueError if there is no such name."""
    _register(module, name, promote_function)


def _register(module: Any, name: str, wrap: Callable[..., Any]) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.")
    setattr(module, name, wrap(getattr(module, name)))


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """A block in which O1 casts nothing."""
    with torch.autocast("npu", enabled=False):
        yield
