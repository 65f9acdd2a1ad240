"""backend="npugraph_ex": AOTAutograd's graphs, rewritten as the options say, captured and replayed.

Called by Dynamo through torch_npu.dynamo, and by compile_fx. What it is not: what options there are (options.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.cudagraphs import find_input_mutations
from torch._dynamo.backends.debugging import boxed_nop

from torch_npu.dynamo import lengths, obstacles, streams
from torch_npu.dynamo.npugraph_ex import dump, fusions, passes
from torch_npu.dynamo.npugraph_ex.options import Options
from torch_npu.dynamo.npugraph_ex.replaying import replaying
from torch_npu.dynamo.npugraph_ex.scope import restoring
from torch_npu.dynamo.npugraphs import lasting_inputs


def _rewrite(module: torch.fx.GraphModule, inputs: Sequence[Any], options: Options) -> None:
    graph = module.graph
    if options.post_grad_custom_pre_pass is not None:
        options.post_grad_custom_pre_pass(module, inputs, options)
    if options.remove_noop_ops:
        passes.remove_noop_ops(graph)
    if options.pattern_fusion_pass:
        fusions.apply(graph)
    if options.remove_cat_ops:
        passes.remove_cat_ops(graph)
    if options.input_inplace_pass:
        passes.input_in_place(graph)
    if options.inplace_pass:
        passes.in_place(graph)
    if options.post_grad_custom_post_pass is not None:
        options.post_grad_custom_post_pass(module, inputs, options)
    graph.lint()
    module.recompile()


def compile_graph(
    module: torch.fx.GraphModule,
    inputs: list[Any],
    options: Options,
    *,
    backward: bool,
    taken: Any = None,
    names: obstacles.Names = (),
) -> Any:
    """`taken` is called with the rewritten module and what replaying() was told of it. `names`: obstacles.sources."""
    if backward:
        streams.refuse_gradient(module.graph)
    mutated = find_input_mutations(module.graph)
    reason, device = obstacles.find(module, not options.unsafe_skip_npugraph_capture_validation, names)
    if options.dump_tensor_data and options.data_dump_stage == "original":
        return dump.dumping(module, options.data_dump_dir)
    if reason is None:
        _rewrite(module, inputs, options)
    if options.dump_tensor_data:
        return dump.dumping(module, options.data_dump_dir)
    lasting: Sequence[int] = ()
    if not backward:
        lasting = lasting_inputs(len(inputs)) if options.clone_input else range(len(inputs))
    told = {"device": device, "lasting": list(lasting), "mutated": sorted(mutated), "why_not": reason}
    found = lengths.find(module)
    if taken is not None:
        taken(module, {**told, "lengths": found})
    streams.entering(module.graph)
    changed = lengths.of_graph(module.graph, found)
    plain = streams.leaving(module.graph, restoring(module.graph, boxed_nop(module, inputs)))
    return replaying(plain, options, backward=backward, lengths=changed, **told)


def compile_module(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Any = None, mode: str | None = None, **other: Any
) -> Any:
    given = dict(options or {}, **other)
    chosen = Options.read(given if mode is None else {"mode": mode, **given})
    names = obstacles.sources(module)
    return aot_autograd(
        fw_compiler=lambda graph, values: compile_graph(graph, values, chosen, backward=False, names=names),
        bw_compiler=lambda graph, values: compile_graph(graph, values, chosen, backward=True),
        keep_inference_input_mutations=True,
    )(module, inputs)
