"""What is changed in a graph on the npu before Inductor lowers it. Run by Inductor's post_grad passes, for such
graphs alone."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codecache import BypassFxGraphCache
from torch._inductor.custom_graph_pass import CustomGraphModulePass, get_hash_for_files
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import parallel_num_threads
from torch.utils._python_dispatch import _disable_current_modes

from torch_npu import _C
from torch_npu._inductor import attention, choices, decompositions, negated, operands
from torch_npu.dynamo import obstacles, streams

aten, prims = torch.ops.aten, torch.ops.prims


# Lowered by Inductor itself, without a kernel.
_LOWERED = {aten._assert_scalar.default, prims.inductor_seeds.default}
_DRAWN = (prims.inductor_random.default, prims.inductor_randint.default)


def as_operators(gm: torch.fx.GraphModule) -> None:
    """On CANN, which runs no kernel that Inductor's C++ generator makes, and with config.disable_cpp_codegen: each node
    is an operator of the npu, also those that later passes write. With the latter, random numbers stay Inductor's."""
    _keep_constants(gm)
    runs = _C._runs_host_kernels()

    def mark(node: torch.fx.Node) -> None:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            if node.target in _DRAWN:
                if runs:
                    return
                raise NotImplementedError(
                    "torch.compile on CANN: random numbers of Inductor's own are a kernel for the processor; set "
                    "torch._inductor.config.fallback_random = True, which draws eager's"
                )
            if node.target not in _LOWERED:
                node.meta["should_fallback"] = True

    for node in gm.graph.nodes:
        mark(node)
    gm._register_create_node_hook(mark)


def _keep_constants(gm: torch.fx.GraphModule) -> None:
    """Inductor writes a number or a short vector that is a constant into a kernel, as text, and gives no constant to an
    operator other than lift_fresh_copy: that one makes each of them a tensor, a vector as a matrix of one row."""
    graph = gm.graph
    for lifted in graph.find_nodes(op="call_function", target=aten.lift_fresh_copy.default):
        lifted.target = aten.clone.default
    for node in graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(node.target)(gm)
        # What is longer is memory already: not copied, a model's weights may be among them.
        if not isinstance(value, torch.Tensor) or not (value.dim() == 0 or GraphLowering.can_inline_constant(value)):
            continue
        meta, short = node.meta.get("val"), GraphLowering.can_inline_constant(value)
        users = list(node.users)
        if short:
            name = f"{node.name}_row"
            with _disable_current_modes():
                gm.register_buffer(name, value.detach().unsqueeze(0), persistent=False)
            node.target = name
        if meta is not None:
            node.meta["val"] = meta.unsqueeze(0) if short else meta
        made: dict[Any, torch.fx.Node] = {}  # by stream: nobody waits for a constant
        for user in users:
            custom = user.meta.get("custom", {})
            stream = custom.get("stream")
            if stream not in made:
                made[stream] = _copied(node, short, meta, custom)
            user.replace_input_with(node, made[stream])


def _copied(node: torch.fx.Node, row: bool, meta: Any, custom: dict[str, Any]) -> torch.fx.Node:
    """A constant as memory; of a matrix of one `row`, that row."""
    graph = node.graph
    with graph.inserting_after(node):
        found = graph.call_function(aten.lift_fresh_copy.default, (node,))
    found.meta["custom"] = custom
    if meta is not None:
        found.meta["val"] = node.meta["val"]
    if row:
        with graph.inserting_after(found):
            found = graph.call_function(aten.select.int, (found, 0, 0))
        found.meta["custom"] = custom
        if meta is not None:
            found.meta["val"] = meta
    return found


def refuse_without_host_kernels() -> None:
    """Raises NotImplementedError on CANN for a kernel that was written all the same."""
    if not _C._runs_host_kernels():
        raise NotImplementedError(
            "torch.compile on CANN: Inductor wrote a kernel for the processor, which only the software NPU runs, "
            'between the operators of this function. Use backend="npugraphs", which replays graphs, or "aot_eager"'
        )


def _flatten_arg_reduction(node: torch.fx.Node) -> None:
    """argmax(x) → argmax(x.reshape(-1), 0). For devices that are not "cpu" Inductor counts in the order of the memory
    where several dimensions are reduced at once: another index for a transposed tensor, without an error."""
    x: Any = node.args[0]
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keepdim = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
    value = x.meta["val"]
    if dim is not None or value.dim() < 2:
        return
    graph = node.graph
    with graph.inserting_before(node):
        flat = graph.call_function(aten.reshape.default, (x, [-1]))
        flat.meta["val"] = value.reshape(-1)
        found = graph.call_function(node.target, (flat, 0))
        found.meta.update(node.meta)
        found.meta["val"] = node.meta["val"].reshape([])
        if keepdim:
            found = graph.call_function(aten.reshape.default, (found, [1] * value.dim()))
            found.meta.update(node.meta)
    node.replace_all_uses_with(found)
    graph.erase_node(node)


def _on_npu(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


def _refuse_limits(graph: torch.fx.Graph) -> None:
    if any(str(node.target) == "npu._limit_core_num_begin.default" for node in graph.nodes):
        raise NotImplementedError(
            "torch.npu.npugraph_ex.scope.limit_core_num: Inductor reorders and joins operators, so a limit for some of "
            'them has no place; compile with backend="npugraph_ex" or "npugraphs", or put the compiled function inside'
        )


def _keep_streams(gm: torch.fx.GraphModule) -> None:
    """What this and later passes write beside a node is of the stream that the node was written for."""

    def mark(node: torch.fx.Node) -> None:
        beside = getattr(node.graph._insert, "__self__", None)  # node.graph.inserting_before(beside)
        if isinstance(beside, torch.fx.Node) and beside.meta.get("custom"):
            node.meta.setdefault("custom", beside.meta["custom"])

    if streams.used(gm.graph) is not None:
        gm._register_create_node_hook(mark)


class NpuGraphPass(CustomGraphModulePass):
    def __call__(self, gm: torch.fx.GraphModule) -> None:
        _refuse_limits(gm.graph)
        _keep_streams(gm)
        for target in (aten.argmax.default, aten.argmin.default):
            for node in gm.graph.find_nodes(op="call_function", target=target):
                if _on_npu(node):
                    _flatten_arg_reduction(node)
        for target in attention.DENSE:
            for node in gm.graph.find_nodes(op="call_function", target=target):
                if _on_npu(node.args[0]):
                    attention.make_dense(gm, node)
        decompositions.pass_numbers(gm)
        if config.disable_cpp_codegen or not _C._runs_host_kernels():
            as_operators(gm)
        else:
            negated.turn(gm)
            operands.place(gm)
            choices.make(gm)
        gm.recompile()

    def uuid(self) -> Any:
        # Part of the key of Inductor's cache on disk: whatever generates code here, for which library, and for how many
        # threads, which Inductor puts there for the CPU's kernels alone: they have room for so many partial sums.
        if streams.known():  # which nodes were written for which is said beside the graph
            raise BypassFxGraphCache("the streams of a compiled function are in no key")
        from torch_npu._inductor import (
            cpp_wrapper,
            graphs,
            kernels,
            launch,
            layouts,
            op_overrides,
            scheduling,
            thresholds,
            waits,
            wrapper,
        )

        written = (attention, choices, decompositions, kernels, launch, negated, op_overrides, operands, scheduling)
        modules = (*written, cpp_wrapper, graphs, layouts, obstacles, thresholds, waits, wrapper)
        files = get_hash_for_files((__file__, *(str(module.__file__) for module in modules)))
        try:
            runs = _C._runs_host_kernels()
        except RuntimeError:  # asked of the CPU's graphs, too, on machines where no library of CANN can be loaded
            runs = None
        return files, runs, None if config.cpp.dynamic_threads else parallel_num_threads()
