"""The options dump_tensor_data, data_dump_dir, data_dump_stage: each tensor of a graph into a file, at each call.

    data_dump_dir/worldsize1_global_rank0/NODE_GRAPH_CALL.pt      read by torch.load

Files are the host's work, so what is dumped runs without a graph."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

_graphs = itertools.count()


class _Dumping(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, folder: str, suffix: str) -> None:
        super().__init__(module)
        self.folder, self.suffix = folder, suffix

    def run_node(self, node: torch.fx.Node) -> Any:
        result = super().run_node(node)
        if node.op in ("placeholder", "call_function"):
            tensors = [value for value in pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]
            for place, value in enumerate(tensors):
                name = node.name if len(tensors) == 1 else f"{node.name}_{place}"
                torch.save(value.detach().cpu(), os.path.join(self.folder, f"{name}_{self.suffix}.pt"))
        return result


def dumping(module: torch.fx.GraphModule, directory: str) -> Callable[[list[Any]], Any]:
    """module's function on a list of arguments, which it empties."""
    rank, size = 0, 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    folder = os.path.join(directory, f"worldsize{size}_global_rank{rank}")
    graph, calls = next(_graphs), itertools.count()

    def run(inputs: list[Any]) -> Any:
        os.makedirs(folder, exist_ok=True)
        given = list(inputs)
        inputs.clear()
        return _Dumping(module, folder, f"{graph}_{next(calls)}").run(*given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
