"""What may wait for the device lets other Python threads run: csrc/python, and PyTorch's bindings we rely on."""

from __future__ import annotations

import faulthandler
import threading
import time

import pytest
import torch

from tests.core.tools import Gate


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
    """The stream stands at a gate that another Python thread opens: a call that keeps the lock would wait for ever."""
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        CASES[name](stream)()  # whatever is made at the first use
        call = CASES[name](stream)
        gate = Gate(stream)
        if name == "Event.synchronize":
            call = _recorded(stream).synchronize
        opened: list[float] = []

        def run() -> None:
            for _ in range(3):
                time.sleep(0.01)
            opened.append(time.monotonic())
            gate.open()

        thread = threading.Thread(target=run)
        faulthandler.dump_traceback_later(60, exit=True)
        thread.start()
        call()
        end = time.monotonic()
        thread.join()
        faulthandler.cancel_dump_traceback_later()
    assert opened[0] < end, "the call did not wait"
