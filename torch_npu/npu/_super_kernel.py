"""Marks around kernels that the hardware's compiler may join into one: the vendor's names, without effect here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Begins a stretch whose kernels the hardware's compiler may join into one; here it is a mark without effect.
    Raises RuntimeError for a name of nothing but spaces."""
    if scope_name is not None and not scope_name.strip():
        raise RuntimeError(
            f"torch.npu.super_kernel_scope_begin: {scope_name!r} is no name of a scope; leave it out for none"
        )
    torch.ops.npu.super_kernel_scope_begin(scope_name)


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    """Ends the stretch that `super_kernel_scope_begin` began."""
    torch.ops.npu.super_kernel_scope_end(scope_name)


@contextmanager
def super_kernel_scope(scope_name: str | None = None) -> Iterator[None]:
    """Such a stretch: `with torch.npu.super_kernel_scope("attention"): ...`."""
    super_kernel_scope_begin(scope_name)
    try:
        yield
    finally:
        super_kernel_scope_end(scope_name)
