"""Do results have the strides that PyTorch's meta functions promise? Compiled graphs are made from that promise."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._prims_common import check_significant_strides
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from tests.upstream import transfer
from tests.upstream.compare import Mismatch
from tests.upstream.verdict import NoReference, on_cpu


def promised(run: Callable[[object], object], arguments: object) -> object:
    """The result of fake tensors, on the arguments' own device; NoReference where PyTorch promises nothing."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes: dict[int, torch.Tensor] = {}

    def fake(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return fakes.setdefault(id(leaf), mode.from_tensor(leaf.detach()))

    try:
        given = pytree.tree_map(fake, arguments)
        with mode:
            return run(given)
    except Exception as error:  # data-dependent shapes, operators without a meta function: so of the CPU's tensors
        fakes.clear()
        try:
            given = pytree.tree_map(fake, transfer.to_device("cpu")(arguments))
            with mode:
                run(given)
        except Exception:
            raise NoReference(f"{type(error).__name__}: {error}") from error
        raise Mismatch(f"fake tensors of this device alone fail: {type(error).__name__}: {error}") from error


def differ(actual: object, promise: object) -> str | None:
    """What differs between two trees of results, or None. Strides of dimensions of size 0 and 1 do not count."""
    ours, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(promise)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, PyTorch's meta function says {len(theirs)}"
    for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
            continue
        if left.layout != torch.strided or right.layout != torch.strided or left.is_quantized:
            continue
        if left.shape != right.shape:
            return f"result {index}: shape {tuple(left.shape)}, PyTorch's meta function says {tuple(right.shape)}"
        if left.dtype != right.dtype:
            return f"result {index}: {left.dtype}, PyTorch's meta function says {right.dtype}"
        if left.numel() and not check_significant_strides(left, right, only_cuda=False)[0]:
            shape = tuple(left.shape)
            return f"result {index} {shape}: strides {left.stride()}, PyTorch's meta function says {right.stride()}"
    return None


def judge(run: Callable[[object], object], moved: object, original: object) -> None:
    """Returns if right. NoReference where the CPU's own kernel fails or breaks the promise in the same way."""
    promise = promised(run, moved)
    try:
        actual = run(moved)
    except Exception:
        on_cpu(lambda: run(original))  # the argument shown in this way is singular, written to …
        raise
    found = differ(actual, promise)
    if found is None:
        return
    if differ(actual, run(original)) is None:
        raise NoReference("the CPU's kernel differs from its meta function, too")
    raise Mismatch(found)
