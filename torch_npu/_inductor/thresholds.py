"""How much Inductor fuses into one expression before it writes it to memory: of the npu's graphs, whose kernels are the
CPU's, as much as of the CPU's. A device of another name has lower thresholds.

They are settings, which Inductor reads behind each node that it lowers. So they count in one graph alone: its first
node is `as_on_cpu`, which has that graph's interpreter lower each later node under them. What the user sets stays. Who
calls it: choices.py.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch._inductor import config
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.fx.node import has_side_effect

# The setting: its value for devices that are named "cpu".
_OF_CPU = {
    "realize_opcount_threshold": "realize_cpu_opcount_threshold",
    "realize_acc_reads_threshold": "realize_cpu_acc_reads_threshold",
}


@has_side_effect
def as_on_cpu() -> None:
    if not isinstance(V.graph, GraphLowering):  # the graph is run as it is, not lowered
        return
    step = V.graph.run_node

    def under_thresholds(node: fx.Node) -> Any:
        unset = {name: getattr(config, cpus) for name, cpus in _OF_CPU.items() if getattr(config, name) is None}
        with config.patch(unset):
            return step(node)

    V.graph.run_node = under_thresholds


as_on_cpu._inductor_lowering_function = True  # type: ignore[attr-defined]


def set_in(gm: fx.GraphModule) -> None:
    first = next(node for node in gm.graph.nodes if node.op != "placeholder")
    with gm.graph.inserting_before(first):
        gm.graph.call_function(as_on_cpu)
