"""The same argument, laid out or marked in another way: lazily conjugated or negated, expanded, permuted, at an offset.

A kernel must read what a tensor means, not what its storage holds. Every layout but `expanded` keeps the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.utils import _pytree as pytree


def conjugated(x: torch.Tensor) -> torch.Tensor | None:
    return x.conj().resolve_conj().conj() if x.is_complex() and x.dtype != torch.complex32 else None


def negated(x: torch.Tensor) -> torch.Tensor | None:
    signed = x.dtype != torch.bool and (x.is_floating_point() or x.is_complex() or torch.iinfo(x.dtype).min < 0)
    return torch._neg_view(x.neg()) if signed else None


def expanded(x: torch.Tensor) -> torch.Tensor | None:
    """One slice of the first dimension that has several, repeated with stride 0."""
    for dim, size in enumerate(x.shape):
        if size > 1:
            return x.narrow(dim, 0, 1).contiguous().expand_as(x)
    return None


def permuted(x: torch.Tensor) -> torch.Tensor | None:
    if x.dim() < 2 or x.numel() < 2:
        return None
    backwards = tuple(reversed(range(x.dim())))
    return x.permute(backwards).contiguous().permute(backwards)


def channels_last(x: torch.Tensor) -> torch.Tensor | None:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats else None


def offset(x: torch.Tensor) -> torch.Tensor | None:
    """Every second element of a larger storage, from the third on."""
    if x.numel() == 0:
        return None
    strides, step = [], 2
    for size in reversed(x.shape):
        strides.insert(0, step)
        step *= size
    storage = torch.zeros(3 + step, dtype=x.dtype)
    return storage.as_strided(x.shape, strides, 3).copy_(x)


VIEWS = {f.__name__: f for f in (conjugated, negated, expanded, permuted, channels_last, offset)}
LAYOUTS = ("expanded", "permuted", "channels_last", "offset")  # those that strides show


def of(arguments: object) -> Iterator[tuple[str, object]]:
    """Name → the arguments, each dense CPU tensor shown that way where it can be; only names that change one."""
    for name, view in VIEWS.items():
        changed = False

        def show(leaf: object, view: Callable = view) -> object:
            nonlocal changed
            if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_quantized:
                return leaf
            if leaf.is_conj() or leaf.is_neg():
                return leaf
            with torch.no_grad():
                shown = view(leaf.detach())
            changed |= shown is not None
            return leaf if shown is None else shown

        result = pytree.tree_map(show, arguments)
        if changed:
            yield name, result
