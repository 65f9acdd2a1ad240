"""mode="reduce-overhead" and "max-autotune" on the npu: a compiled graph is captured and replayed.

Inductor's own policy for graphs asks whether the device is "cuda". This one is its successor for graphs on the npu and
leaves the rest to it. What it is not: the replays (torch_npu.dynamo.replayed). Registered with the code generator.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._dynamo.eval_frame import cached_backends
from torch._inductor import config
from torch._inductor.cudagraph_utils import CUDAGraphPolicy
from torch._inductor.output_code import CompiledFxGraph

from torch_npu._inductor import negated

_HOST = "disabling cudagraphs due to a tensor elsewhere: "
NAME = "torch.compile with triton.cudagraphs (reduce-overhead, max-autotune)"


def _obstacle(graph: CompiledFxGraph) -> str | None:
    others = sorted(graph.device_types - {"npu"})
    if others:
        _, _, said = (graph.disabled_cudagraphs_reason or "").partition(_HOST)
        return said or f"it has tensors on {' and '.join(others)}; move them to the npu"
    if len(graph.device_idxs) > 1:
        return "it uses several npus; a graph is on one: give each its own function"
    if any(
        name in getattr(graph, "source_code", "") for name in ("get_external_object_by_index", "torch.ops.streams.")
    ):
        return "it enters streams or waits for them; do that outside of it"
    reason = graph.disabled_cudagraphs_reason
    if reason is not None and "incompatible op" in reason:
        return reason.removeprefix("disabling cudagraphs due to ").strip()
    return None


def _on_host(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return node.op != "output" and isinstance(value, torch.Tensor) and value.device.type != "npu"


def refuse(lowering: Any) -> None:
    """While code is written: what compiled graphs do not show any more. Kept with them in Inductor's cache."""
    from torch_npu.dynamo import obstacles, streams

    if lowering.is_backward:
        streams.refuse_gradient(lowering.module.graph)
    node = obstacles.moved(lowering.module.graph)
    hosts = [node for node in lowering.module.graph.nodes if _on_host(node)]
    if hosts and not lowering.disable_cudagraphs_reason:
        lowering.disable_cudagraphs_reason = _HOST + obstacles.on_host(hosts[0], hosts[0].meta["val"], line=False)
    if node is not None:
        lowering.disable_cudagraphs_reason = (
            f"disabling cudagraphs due to incompatible op {node.target}: it asks for or changes an argument's storage"
        )


class NpuGraphPolicy(CUDAGraphPolicy):
    def should_wrap(self, compiled_graph: Any) -> bool:
        return "npu" not in getattr(compiled_graph, "device_types", ())

    def wrap_output(self, output_code: Any) -> Any:
        if not isinstance(output_code, CompiledFxGraph) or "npu" not in output_code.device_types:
            return output_code
        kwargs = output_code.fx_kwargs
        if kwargs["is_backward"] and kwargs["cpp_wrapper"]:
            call, saved = output_code.current_callable, frozenset(kwargs["static_input_idxs"])
            output_code.current_callable = negated.resolving(call, saved)
        if config.triton.cudagraphs:
            self._replay(output_code)
        return output_code

    def _replay(self, graph: CompiledFxGraph) -> None:
        from torch_npu._inductor import lengths
        from torch_npu.dynamo import npugraphs_entry
        from torch_npu.dynamo.replayed import Replayed, say

        # torch._dynamo.reset() resets the back ends it knows. Inductor's own forgets CUDA's graphs, this one ours.
        cached_backends.setdefault(id(npugraphs_entry), npugraphs_entry)
        reason = _obstacle(graph)
        backward = graph.fx_kwargs["is_backward"]
        if reason is not None:
            if not backward:  # its forward said it
                say(NAME, reason)
            return
        graph.current_callable = Replayed(
            graph.current_callable, name=NAME, device=next(iter(graph.device_idxs)), backward=backward,
            lasting=() if backward else graph.fx_kwargs["static_input_idxs"] or (), mutated=graph.mutated_input_idxs,
            lengths=lengths.find(getattr(graph, "source_code", "")),
        ).boxed()  # fmt: skip


def register() -> None:
    """A program that sets a policy of its own gets that."""
    if config.cudagraph_policy is not None:
        warnings.warn("torch_npu: torch._inductor.config.cudagraph_policy is set: no graphs on npu", stacklevel=2)
        return
    # The default: what is assigned counts in this thread alone, and any may compile.
    config._config["cudagraph_policy"].default = NpuGraphPolicy()  # type: ignore[attr-defined]
