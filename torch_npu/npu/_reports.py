"""What torch_npu.print_npugraph_tensor and save_npugraph_tensor write, by a thread of their own: streams hand the
values over and go on (csrc/ops/npu/report.h). torch.npu.synchronize() waits until all of it is written.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import threading
import traceback
from pathlib import Path

import torch

from torch_npu import _C


def start() -> None:
    """Called once, before the first report."""
    thread = threading.Thread(target=write_all, name="npu reports", daemon=True)
    thread.start()
    atexit.register(end, thread)


def end(thread: threading.Thread) -> None:
    with contextlib.suppress(RuntimeError):  # of a device that failed: what it handed over is written
        torch.npu.synchronize()
    _C._close_reports()
    thread.join()


def write_all() -> None:
    while (report := _C._next_report()) is not None:
        kind, values, text, overwrite, device = report
        try:
            if kind == 0:
                printed(values[0], text)
            else:
                saved(values[0] if kind == 1 else values, text, overwrite, device)
        except Exception:  # a file or a stream that takes nothing more is no reason to write no other
            traceback.print_exc()


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
