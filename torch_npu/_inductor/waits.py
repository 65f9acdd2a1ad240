"""Waits for streams and records of events between the kernels of a graph: the kernels before one are launched before
it, those behind it, behind. By itself Inductor keeps the order of the values that PyTorch passes through a wait: not of
those that an event stands for, and of none where no kernel is on a stream of its own. Who calls it: scheduling.py.
"""

from __future__ import annotations

from typing import Any

from torch._inductor import ir
from torch._inductor.dependencies import WeakDep


def _waits(node: Any) -> bool:
    return getattr(getattr(node.node, "op_overload", None), "namespace", "") == "streams"


def present(nodes: list[Any]) -> bool:
    return any(map(_waits, nodes))


def order(scheduler: Any, nodes: list[Any]) -> None:
    """Before kernels are joined or moved: none passes a wait or a record. The nodes are in the program's order."""
    if not present(nodes):
        return
    last, since = None, []  # the wait or record before, and what came behind it
    for node in nodes:
        waits = _waits(node)
        for before in since if waits else ():
            _comes_behind(node, before)
        if last is not None:
            _comes_behind(node, last)
        if waits:
            last, since = node, []
        else:
            since.append(node)
    scheduler.compute_ancestors()


def _comes_behind(node: Any, before: Any) -> None:
    """For the order alone: what `before` has written does not live longer for it."""
    node.add_fake_dep(WeakDep(before.get_outputs()[0].get_name(), node.get_name(), is_fake=True))


def place(scheduler: Any) -> None:
    """Before code is written: the kernels that Inductor has collected are written out before an operator that is of a
    device, so a wait, which has no tensor, is given one."""
    devices = [node.get_device() for node in scheduler.nodes]
    npu = next((device for device in devices if device is not None and device.type == "npu"), None)
    for node, device in zip(scheduler.nodes, devices, strict=True):
        buffer = node.node
        if device is None and isinstance(buffer, ir.Buffer) and isinstance(buffer.layout, ir.NoneLayout):
            buffer.layout = ir.NoneLayout(device=npu)
