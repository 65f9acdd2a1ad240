"""Layouts of images: as eager has them.

Inductor gives convolutions channels-last tensors: by their sizes, as is quicker on GPUs, and on the CPU always, where
the result has that layout too. The npu's convolution takes both, is no quicker with either, and returns rows: each
tensor would be turned round before and behind it, and the weights in every step.

Inductor decides it by a graph's convolutions before it lowers the first node. So it sees them under another name, which
the graph's first node takes back. What the user forces stays. Who calls it: choices.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.fx.node import has_side_effect

_CONVOLUTION = torch.ops.aten.convolution.default


def convolution(*args: Any) -> Any:
    return _CONVOLUTION(*args)


@has_side_effect
def as_in_eager() -> None:
    if isinstance(V.graph, GraphLowering):  # else the graph is run as it is
        for node in V.graph.graph.find_nodes(op="call_function", target=convolution):
            node.target = _CONVOLUTION


as_in_eager._inductor_lowering_function = True  # type: ignore[attr-defined]


def keep_in(gm: fx.GraphModule) -> None:
    found = gm.graph.find_nodes(op="call_function", target=_CONVOLUTION)
    for node in found:
        node.target = convolution
    if found:
        first = next(node for node in gm.graph.nodes if node.op != "placeholder")
        with gm.graph.inserting_before(first):
            gm.graph.call_function(as_in_eager)
