"""The program that calls the operators of sources/launches.asc, under either torch_npu: python launched.py LIBRARY"""

from __future__ import annotations

import os
import sys

import torch

import torch_npu

FORMS = ("by_stream_object", "by_stream", "by_waiting", "queued", "queued_by_waiting")


def between_other_work(operator) -> None:
    """What is before it on the stream is done when it runs, what is after it sees its result; on other streams, too."""
    for size in (1, 256, 257, 5000):
        x, y = torch.randn(2, size)
        a, b = x.npu(), y.npu()
        assert torch.equal((operator(a * 2, b) - 1).cpu(), x * 2 + y - 1), size
        torch.npu.synchronize()
        with torch.npu.stream(torch.npu.Stream()):
            out = operator(a, b + 1)
            torch.npu.current_stream().synchronize()
        assert torch.equal(out.cpu(), x + (y + 1)), size


def captured(operator) -> None:
    x, y = torch.randn(2, 600)
    a, b = x.npu(), y.npu()
    operator(a, b)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = operator(a, b) * 2
    for _ in range(2):
        a.copy_(x := torch.randn(600))
        graph.replay()
        assert torch.equal(out.cpu(), (x + y) * 2)


if __name__ == "__main__":
    torch.ops.load_library(sys.argv[1])
    for form in FORMS:
        between_other_work(getattr(torch.ops.launches, form))
    vendor = "vendor" in torch_npu.__file__
    if not (vendor and os.environ.get("TASK_QUEUE_ENABLE") == "2"):  # its graphs refuse that queue
        captured(torch.ops.launches.queued)
        captured(torch.ops.launches.by_stream)
    assert torch.ops.launches.queued(*torch.empty(2, 3, device="meta")).shape == (3,)
    print("AS WANTED, vendor" if vendor else "AS WANTED")
