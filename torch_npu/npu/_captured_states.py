"""States of a generator that are taken in one graph's capture and set in another's: told, as replays cannot have them.

A checkpoint does both. Where its forward and its backward are two graphs (make_graphed_callables), a replay of the
backward draws from where the generator is then, which is behind the forward.
"""

from __future__ import annotations

import warnings

import torch
from torch.utils.weak import WeakIdKeyDictionary

from torch_npu.npu import streams


class _Capture:
    """One capture. Other threads may take states in it, on its stream: autograd's does."""

    def __init__(self, generator: torch.Generator):
        self._generator = generator
        self.end = -1  # the generator's offset at its end

    def close(self) -> None:
        self.end = self._generator.get_offset()


_open: dict[tuple[int, int], _Capture] = {}  # by the stream
_taken = WeakIdKeyDictionary()  # state → capture


def _key(stream: torch.Stream) -> tuple[int, int]:
    return stream.device_index, stream.stream_id


def begin(stream: torch.Stream, generator: torch.Generator) -> None:
    """The stream is captured from here on; `generator` is its device's."""
    _open[_key(stream)] = _Capture(generator)


def end(stream: torch.Stream) -> None:
    """The capture ends."""
    if capture := _open.pop(_key(stream), None):
        capture.close()


def took(state: torch.Tensor) -> torch.Tensor:
    """A state was taken: the same."""
    if _open and (capture := _open.get(_key(streams.current_stream()))):
        _taken[state] = capture
    return state


def to_be_set(state: torch.Tensor) -> None:
    """A state is about to be set. Warns if the capture that it is of drew numbers behind it, and is another."""
    if not _open or not isinstance(state, torch.Tensor):
        return
    capture, source = _open.get(_key(streams.current_stream())), _taken.get(state)
    if capture is None or source is None or source is capture or state.numel() < 16:
        return
    if int.from_bytes(bytes(state[8:16].tolist()), "little") != source.end:
        warnings.warn(
            "npu: a generator's state of another graph's capture is set in this one. Replays draw from where the "
            "generator is then: what a checkpoint's forward drew, its backward cannot draw again, and gradients of "
            "dropout are those of another dropout. Capture forward and backward into one graph, or keep what draws out "
            "of the checkpoint",
            stacklevel=3,
        )
