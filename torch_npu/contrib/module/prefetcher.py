"""The next batch is copied to the device while the model computes."""

from __future__ import annotations

from collections.abc import Iterable

import torch


class Prefetcher:
    """Copies batches (input, target) ahead, on a stream of its own.

    Args:
        loader: gives pairs of tensors on the host.
        stream: the stream for copies; a new one by default.
    """

    def __init__(self, loader: Iterable, stream: torch.Stream | None = None) -> None:
        self.loader, self.stream = iter(loader), stream if stream is not None else torch.npu.Stream()
        self.preload()

    def preload(self) -> None:
        """Begins to copy the next batch; (None, None) follows the last."""
        self.next_input, self.next_target = next(self.loader, (None, None))
        if self.next_input is not None:
            with torch.npu.stream(self.stream):
                self.next_input = self.next_input.npu(non_blocking=True)
                self.next_target = self.next_target.npu(non_blocking=True)

    def next(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The batch on the device, ready for the current stream; (None, None) at the end."""
        current = torch.npu.current_stream()
        current.wait_stream(self.stream)
        batch = self.next_input, self.next_target
        for tensor in (tensor for tensor in batch if tensor is not None):
            tensor.record_stream(current)
        if batch[0] is not None:
            self.preload()
        return batch
