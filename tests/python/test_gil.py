"""What may wait for the device lets other Python threads run: csrc/python, and PyTorch's bindings we rely on."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from tests.core.tools import busy

WAIT = 0.25


def _recorded(stream):
    return stream.record_event(torch.npu.Event())


def _tensor(stream):
    with torch.npu.stream(stream):
        return torch.zeros(4, device="npu")


CASES = {
    "torch.npu.synchronize": lambda stream: torch.npu.synchronize,
    "torch.accelerator.synchronize": lambda stream: torch.accelerator.synchronize,
    "Stream.synchronize": lambda stream: stream.synchronize,
    "Event.synchronize": lambda stream: _recorded(stream).synchronize,
    "empty_cache": lambda stream: (_tensor(stream), torch.npu.empty_cache)[1],
    "Tensor.item": lambda stream: _tensor(stream)[0].item,
    "Tensor.cpu": lambda stream: _tensor(stream).cpu,
    "Tensor.tolist": lambda stream: _tensor(stream).tolist,
    "Tensor.copy_": lambda stream: lambda: _tensor(stream).copy_(torch.ones(4)),
    "Tensor.npu": lambda stream: lambda: torch.ones(4).npu(),
    "Tensor.__bool__": lambda stream: lambda: bool(_tensor(stream).all()),
}


@pytest.mark.parametrize("name", CASES)
def test_other_threads_run_meanwhile(name):
    stream = torch.npu.Stream()
    busy(stream, 0)
    with torch.npu.stream(stream):
        CASES[name](stream)()  # whatever is made at the first use
        ticks: list[float] = []
        stop = threading.Event()

        def tick() -> None:
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.005)

        thread = threading.Thread(target=tick)
        call = CASES[name](stream)
        busy(stream, WAIT)
        if name == "Event.synchronize":
            call = _recorded(stream).synchronize
        thread.start()
        begin = time.monotonic()
        call()
        end = time.monotonic()
        stop.set()
        thread.join()
    assert end - begin > WAIT / 2, "the call did not wait"
    longest = max(later - earlier for earlier, later in zip([begin, *ticks], [*ticks, end], strict=True))
    assert longest < WAIT / 2, f"no other thread ran for {longest:.3f} s"
