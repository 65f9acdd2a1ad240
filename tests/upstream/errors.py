"""Wrong arguments: an error at the call, of the CPU's type; never a result, never a failed stream later."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from tests.upstream import transfer
from tests.upstream.compare import Mismatch
from tests.upstream.verdict import NoReference


def raised(op: object, arguments: tuple) -> BaseException | None:
    value, args, kwargs = arguments
    try:
        op(value, *args, **kwargs)
    except Exception as error:
        return error
    return None


def is_foreign(actual: Exception, expected: Exception) -> bool:
    """A RuntimeError that refuses no arguments: no kernel, no memory, a kernel that failed."""
    foreign = (NotImplementedError, torch.OutOfMemoryError, torch.AcceleratorError)
    return isinstance(actual, foreign) and not isinstance(expected, foreign)


def synchronize(device: str) -> None:
    module = getattr(torch, torch.device(device).type, None)
    if hasattr(module, "synchronize"):
        module.synchronize()


def judge(op: object, error_input: object, device: str) -> None:
    """Returns if the device refuses as the CPU does."""
    sample = error_input.sample_input
    arguments = (sample.input, sample.args, sample.kwargs)
    mover = transfer.to_device(device)
    moved = mover(arguments)
    expected = raised(op, pytree.tree_map(lambda x: x, arguments))
    if expected is None:
        raise NoReference("the CPU takes it")
    if not mover.touched:
        raise NoReference("no tensor in it")
    actual = raised(op, moved)
    try:
        synchronize(device)
    except Exception as late:
        raise Mismatch(f"fails after the call: {str(late)[:200]}") from late
    said = f"{type(expected).__name__} ({str(expected).strip().splitlines()[0][:120]})"
    if actual is None:
        raise Mismatch(f"no error instead of {said}")
    if is_foreign(actual, expected) or not isinstance(actual, (type(expected), error_input.error_type)):
        raise Mismatch(f"{type(actual).__name__} ({str(actual)[:120]}) instead of {said}")
