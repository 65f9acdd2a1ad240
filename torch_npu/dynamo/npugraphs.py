"""torch.compile(backend="npugraphs"): the operators of eager, in graphs, forward and backward. AOTAutograd makes the
two, replayed.py replays them. Called by Dynamo, through torch_npu.dynamo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.cudagraphs import find_input_mutations
from torch._dynamo.backends.debugging import boxed_nop

from torch_npu.dynamo import lengths, obstacles, streams
from torch_npu.dynamo.npugraph_ex.scope import restoring
from torch_npu.dynamo.replayed import Replayed, say

NAME = 'torch.compile(backend="npugraphs")'


def lasting_inputs(count: int) -> Sequence[int]:
    """Of a forward graph: parameters, buffers and what was marked so, while AOTAutograd compiles it."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return range(0)
    return [i for i in context.fw_metadata.static_input_indices if i < count]


def compile_module(module: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
    given = sorted(settings.pop("options", None) or ()) + sorted(settings)
    if given:
        raise ValueError(
            f'{NAME} takes no options and no mode, but was given {", ".join(given)}; backend="npugraph_ex" has '
            'options, and mode="reduce-overhead" is without a backend'
        )
    refused, names = False, obstacles.sources(module)

    def compile_graph(graph: torch.fx.GraphModule, given: list[Any], backward: bool) -> Any:
        nonlocal refused
        if backward:
            streams.refuse_gradient(graph.graph)
        streams.entering(graph.graph)
        plain = streams.leaving(graph.graph, restoring(graph.graph, boxed_nop(graph, given)))
        if refused:  # its other half said why
            return plain
        reason, device = obstacles.find(graph, names=names)
        if reason is not None:
            refused = True
            say(NAME, reason)
            return plain
        return Replayed(
            plain, name=NAME, device=device, backward=backward,
            lasting=() if backward else lasting_inputs(len(given)), mutated=find_input_mutations(graph.graph),
            lengths=lengths.of_graph(graph.graph, lengths.find(graph)),
        ).boxed()  # fmt: skip

    return aot_autograd(
        fw_compiler=lambda graph, given: compile_graph(graph, given, backward=False),
        bw_compiler=lambda graph, given: compile_graph(graph, given, backward=True),
        keep_inference_input_mutations=config.cudagraph_backend_keep_input_mutation,
    )(module, inputs)
