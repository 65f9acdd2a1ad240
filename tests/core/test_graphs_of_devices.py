"""Graphs on several devices: each is captured on a stream of its own device."""

from __future__ import annotations

import torch


def test_captures_on_one_device_and_then_on_another():
    for index in (0, 1, 0):
        with torch.npu.device(index):
            x = torch.ones(3, device="npu")
            with torch.npu.graph(graph := torch.npu.NPUGraph()):
                y = x + 1
            x.fill_(5)
            graph.replay()
            assert y.device.index == index and y.tolist() == [6.0] * 3
