"""Graphs on several devices, each captured on a stream of its own device, and by PyTorch's name for any device."""

from __future__ import annotations

import torch

from tests.older import since_2_13


def test_captures_on_one_device_and_then_on_another():
    for index in (0, 1, 0):
        with torch.npu.device(index):
            x = torch.ones(3, device="npu")
            with torch.npu.graph(graph := torch.npu.NPUGraph()):
                y = x + 1
            x.fill_(5)
            graph.replay()
            assert y.device.index == index and y.tolist() == [6.0] * 3


@since_2_13("torch.accelerator.Graph")
def test_torch_accelerator_graph():
    x = torch.ones(4, device="npu")
    graph = torch.accelerator.Graph()
    with torch.Stream(device="npu"), graph:
        y = x * 3
    x.fill_(2)
    graph.replay()
    assert y.tolist() == [6] * 4
