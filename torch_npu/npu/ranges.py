"""torch.npu.mstx: points and ranges that a program names, for a profiler's trace (torch.cuda.nvtx's counterpart).

With nobody recording a call costs little and keeps nothing. With a stream, the range has a place there, too: from
where the stream comes to its start to where it comes to its end.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

from torch_npu import _C

_open = threading.local()  # of each thread, a stack of range_push by domain


def _address(stream: Any) -> int | None:
    if stream is None:
        return None
    if not hasattr(stream, "npu_stream"):
        raise TypeError(f"mstx: stream is {type(stream).__name__}; it must be a torch.npu.Stream or None")
    return stream.npu_stream


def _text(message: Any, name: str = "message") -> str:
    if not isinstance(message, str):
        raise TypeError(f"mstx: {name} is {type(message).__name__}; it must be a str")
    try:
        message.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"mstx: {name} is {message!r}, which has no UTF-8; it must be text") from error
    return message


def _number(range_id: Any) -> int:
    if not isinstance(range_id, int) or isinstance(range_id, bool):
        raise TypeError(f"mstx: range_id is {type(range_id).__name__}; it must be a number that range_start returned")
    if not 0 <= range_id < 1 << 64:
        raise ValueError(f"mstx: range_id is {range_id}; it must be a number that range_start returned")
    return range_id


def _stack(domain: str) -> list[int]:
    domain = _text(domain, "domain")
    stacks = _open.__dict__.setdefault("stacks", {})
    return stacks.setdefault(domain, [])


class emit_mstx:  # noqa: N801  (named as torch.autograd.profiler.emit_nvtx, which it is for the NPU)
    """A range for each operator within the block, those of backward in their threads, too: for a profiler that does
    not know PyTorch's operators, as msprof.

    Its message is `aten::mm, seq = 3, sizes = [[2, 4], [4, 8]]`: the number joins an operator to its backward, whose
    own has the same. The range has a place in the current stream, around the operator's kernels.

    Args:
        enabled (bool): False does nothing.
        record_shapes (bool): the sizes of the operator's tensors, [] for what is none.

    Raises RuntimeError where it is entered twice, and where a profile of PyTorch's records in the thread: that one has
    the operators already. Source: torch.autograd.profiler.emit_nvtx."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.entered, self.record_shapes = enabled, False, record_shapes

    def __enter__(self) -> emit_mstx | None:
        if not self.enabled:
            return None
        if self.entered or torch.autograd._profiler_enabled():
            raise RuntimeError(
                "emit_mstx: a profile of PyTorch's, or another emit_mstx, is recording in this thread, and PyTorch has "
                "one at a time; leave that one out, or its `with` block before this one"
            )
        torch.npu.synchronize()
        config = ProfilerConfig(
            ProfilerState.PRIVATEUSE1, self.record_shapes, False, False, False, False, _ExperimentalConfig()
        )
        torch.autograd._enable_profiler(config, set())
        self.entered = True
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            try:
                torch.npu.synchronize()
            finally:
                torch.autograd._disable_profiler()
                self.entered = False


class _Itself:
    """An attribute of a class that is the class."""

    def __get__(self, instance: Any, owner: type) -> type:
        return owner


class mstx:  # noqa: N801  (the vendor's name)
    """Names points and ranges of a program for a profiler's trace: mark, range_start and range_end, range_push and
    range_pop, annotate (a block), mstx_range (a decorator), emit_mstx (each operator in a block). Nothing is made of
    the class.

    Each takes a `domain`, by which profilers choose, and but for the ends a `stream`: the range then has a place in its
    order, too. They are seen where something records: torch_npu.profiler with mstx=True, or msprof.
    Raises TypeError for a message or domain that is no text, a stream or range_id that is none, ValueError for a
    text that has no UTF-8 and a number out of range. Source: the vendor's mstx."""

    mstx = _Itself()  # the vendor's torch.npu.mstx is a module that has the class
    emit_mstx = emit_mstx

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """A point in time, and in the stream's order."""
        _C._mstx_mark(_text(message), _address(stream), _text(domain, "domain"))

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begins a range that any thread may end; returns its number."""
        return _C._mstx_range_start(_text(message), _address(stream), _text(domain, "domain"))

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        """Ends the range that range_start of the same domain numbered so, in any thread; an unknown number is
        ignored."""
        _C._mstx_range_end(_number(range_id), _text(domain, "domain"))

    @staticmethod
    def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begins a range inside the thread's others; returns how many it lies in."""
        stack = _stack(domain)
        stack.append(mstx.range_start(message, stream, domain))
        return len(stack) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """Ends the thread's innermost range of the domain; returns how many it lay in, -1 if there was none."""
        stack = _stack(domain)
        if not stack:
            return -1
        mstx.range_end(stack.pop(), domain)
        return len(stack)

    @staticmethod
    @contextmanager
    def annotate(message: str, stream: Any = None, domain: str = "default") -> Iterator[None]:
        """A range around a block or a function: `with mstx.annotate("load"):` or `@mstx.annotate("load")`."""
        number = mstx.range_start(message, stream, domain)
        try:
            yield
        finally:
            mstx.range_end(number, domain)

    @staticmethod
    def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Callable[[Callable], Callable]:
        """A decorator: each call is a range."""

        def around(function: Callable) -> Callable:
            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                with mstx.annotate(message, stream, domain):
                    return function(*args, **kwargs)

            return call

        return around
