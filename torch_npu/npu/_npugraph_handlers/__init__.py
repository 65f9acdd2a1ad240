"""Operators whose arguments on the host may change between replays of a graph: which, and how (npugraph_handler)."""

from torch_npu.npu._npugraph_handlers.npugraph_handler import NpuGraphOpHandler, register_npu_graph_handler

__all__ = ["NpuGraphOpHandler", "register_npu_graph_handler"]
