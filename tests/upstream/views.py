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
    storage = torch.zeros(3 + step, dtype=x.dtype, device=x.device)
    return storage.as_strided(x.shape, strides, 3).copy_(x)


VIEWS = {f.__name__: f for f in (conjugated, negated, expanded, permuted, channels_last, offset)}
LAYOUTS = ("expanded", "permuted", "channels_last", "offset")  # those that strides show


def shown(arguments: object, view: Callable) -> object | None:
    """The arguments, each dense CPU tensor shown that way where it can be; None if that changes none."""
    changed = False

    def show(leaf: object) -> object:
        nonlocal changed
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_quantized:
            return leaf
        if leaf.is_conj() or leaf.is_neg() or leaf.is_meta:
            return leaf
        with torch.no_grad():
            found = view(leaf.detach())
        if found is None:
            return leaf
        changed = True
        return found.requires_grad_(leaf.requires_grad)

    result = pytree.tree_map(show, arguments)
    return result if changed else None


def of(arguments: object) -> Iterator[tuple[str, object]]:
    """Name → the arguments shown that way; only names that change one."""
    for name, view in VIEWS.items():
        if (laid := shown(arguments, view)) is not None:
            yield name, laid
