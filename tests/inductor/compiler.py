"""What the tests of compiled functions share: how they compile, and the comparison with the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """g++ is called by this process, one call after the other: no pool of processes that each import torch."""
    from torch._inductor import config

    with config.patch(compile_threads=1):
        yield
    torch._dynamo.reset()


def on(device: str, values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to(device).requires_grad_(t.requires_grad), values)


def same_as_cpu(function: Callable[..., Any], *args: Any, device: str = "npu", compiled: Any = None, **how: Any) -> Any:
    """Compares values, dtypes and strides of the compiled function on the npu with those of the function on the CPU."""
    expected = function(*args)
    found = (compiled or torch.compile(function, fullgraph=True))(*on(device, args))
    for ours, theirs in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        assert ours.device == torch.device(device) if ":" in device else ours.device.type == device
        torch.testing.assert_close(ours.cpu(), theirs, **how)
        assert ours.stride() == theirs.stride()
    return found
