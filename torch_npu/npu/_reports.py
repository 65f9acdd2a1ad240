"""What torch_npu.print_npugraph_tensor and save_npugraph_tensor write. csrc/python/report.cpp calls both functions on a
thread of the runtime, when the stream or a replayed graph has come so far; the stream waits until they return.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import torch


def printed(value: torch.Tensor, name: str | None) -> None:
    """`name=tensor(…), shape=(2, 3), dtype=torch.float32`."""
    head = "" if name is None else f"{name}="
    print(f"{head}{value}, shape={tuple(value.shape)}, dtype={value.dtype}", flush=True)  # noqa: T201


def saved(value: torch.Tensor | list[torch.Tensor], path: str | None, overwrite: bool, device: int) -> None:
    """`tensor.pt` becomes `tensor_device_0_0.pt`, with the first number that is free, or `tensor_device_0.pt`."""
    file = Path(path or f"tensor_{datetime.datetime.now():%Y%m%d_%H%M%S_%f}.pt")
    stem = f"{file.stem}_device_{device}"
    if overwrite:
        torch.save(value, file.with_name(f"{stem}{file.suffix}"))
        return
    number = 0
    while True:
        try:
            with open(file.with_name(f"{stem}_{number}{file.suffix}"), "xb") as free:
                torch.save(value, free)
                return
        except FileExistsError:
            number += 1
