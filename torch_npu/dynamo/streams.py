"""torch.npu's streams and events in functions compiled with fullgraph=True, as Dynamo knows those of torch.cuda:
the graph holds their waits and records, and its nodes say which stream they were written for. Without fullgraph they
end the graph, and eager does what they say. Called once, when Dynamo has been imported (_compile.py).

What it is not: their execution. Inductor's code enters the streams (_inductor/wrapper.py); a graph that is run operator
by operator does by `entering`, and is not captured (obstacles.py)."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import graph_bytecode_inputs as objects
from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.ctx_manager import NullContextVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.streams import EventVariable, StreamContextVariable, StreamVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch._guards import TracingContext
from torch.utils import _pytree as pytree

from torch_npu import npu

Handler = Callable[..., VariableTracker]


_known: weakref.WeakSet[TracingContext] = weakref.WeakSet()


def known() -> bool:
    """Has the function that is being compiled streams or events of its own or of the program's?"""
    context = TracingContext.try_get()
    if len(objects.index_to_bytecode_constructor) > 1 and context is not None:  # the first is the call's stream
        _known.add(context)  # until its backward is compiled, when another function may have been traced
    return context in _known


class NpuStreamVariable(StreamVariable):
    """A stream that a compiled function asked torch.npu for. What leaves the function is a torch.npu.Stream."""

    _cpython_type = npu.Stream
    _device_handle_attr = "npu_stream"

    def reconstruct(self, codegen: Any) -> None:
        codegen.add_push_null(lambda: codegen.load_import_from(__name__, "found"))
        codegen.append_output(codegen.create_load_const(self.user_object_index))
        codegen.extend_output(create_call_function(1, False))


@torch._dynamo.disable
def found(index: int) -> npu.Stream:
    stream = objects.get_external_object_by_index(index)
    if isinstance(stream, npu.Stream):
        return stream
    return npu.Stream(stream_id=stream.stream_id, device_index=stream.device_index)


@torch._dynamo.disable
def make(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(npu, kind)(*args, **kwargs)


def _made(kind: type) -> Handler:
    """Makes the object while the function is traced, as an example, and anew at each call."""

    def handle(_: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        given = TupleVariable(list(args))
        named = ConstDictVariable({VariableTracker.build(tx, key): value for key, value in kwargs.items()})
        example = kind(*given.as_python_constant(), **named.as_python_constant())

        def construct(_: int, codegen: Any) -> None:
            codegen.add_push_null(lambda: codegen.load_import_from(objects.__name__, "stash_graph_created_object"))
            codegen.add_push_null(lambda: codegen.load_import_from(__name__, "make"))
            codegen.append_output(codegen.create_load_const(kind.__name__))
            codegen(given)
            codegen(named)
            codegen.extend_output(create_call_function(3, False))
            codegen.extend_output(create_call_function(1, False))

        index = objects.register_graph_created_object(example, construct)
        proxy = tx.output.create_proxy("call_function", objects.get_external_object_by_index, (index,), {})
        variable = EventVariable if kind is npu.Event else NpuStreamVariable
        return variable(wrap_fx_proxy(tx=tx, proxy=proxy).proxy, example, index)

    return handle


def _current_stream(self: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    handle = TorchInGraphFunctionVariable._get_handlers()[torch.accelerator.current_stream]
    stream = handle(self, tx, *args, **kwargs)
    return NpuStreamVariable(stream.proxy, stream.value, stream.user_object_index)


def _stream(_: Any, tx: Any, stream: VariableTracker) -> VariableTracker:
    return StreamContextVariable.create(tx, stream)


def _stream_or_none(self: Any, tx: Any, stream: VariableTracker) -> VariableTracker:
    if stream.is_python_constant() and stream.as_python_constant() is None:
        return NullContextVariable()
    return _in_full_graphs("stream", _stream)(self, tx, stream)


def _in_full_graphs(name: str, handler: Handler) -> Handler:
    def handle(self: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if not (tx.one_graph or tx.error_on_graph_break):
            unimplemented(
                gb_type="Stream or event of torch.npu",
                context=f"torch.npu.{name}",
                explanation=f"torch.npu.{name} ends the graph, so that eager does what it says.",
                hints=["With fullgraph=True streams and events stay in the graph."],
            )
        return handler(self, tx, *args, **kwargs)

    return handle


def register() -> None:
    handlers = {
        npu.Stream: _in_full_graphs("Stream", _made(npu.Stream)),
        npu.Event: _in_full_graphs("Event", _made(npu.Event)),
        npu.current_stream: _in_full_graphs("current_stream", _current_stream),
        npu.stream: _stream_or_none,
    }
    for function, handler in handlers.items():
        TorchInGraphFunctionVariable._get_handlers()[function] = handler
        torch._dynamo.allow_in_graph(function)


def used(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """A node that was written for another stream than the call's, or that is a wait or a record."""
    from torch._inductor.fx_passes.control_dependencies import control_deps

    for node in graph.nodes:
        if _of(node) is not None or node.target is control_deps or getattr(node.target, "namespace", "") == "streams":
            return node
    return None


def refuse_gradient(backward: torch.fx.Graph) -> None:
    """PyTorch waits between the operators of a backward's graph, not for what the graph is given, nor for its results;
    and the streams that a function makes itself are gone when it runs."""
    if any(_of(node) is not None for node in backward.nodes):
        raise NotImplementedError(
            "torch.compile on npu: with fullgraph=True, the gradient of operators on streams that are entered inside "
            "the function is not implemented: leave fullgraph=True out, or enter the stream around the call"
        )


def _of(node: torch.fx.Node) -> int | None:
    return (node.meta.get("custom") or {}).get("stream")


def _enter(index: int) -> None:
    torch.accelerator.set_stream(objects.get_external_object_by_index(index))


def _reads(index: int, values: list[Any]) -> None:
    stream = objects.get_external_object_by_index(index)
    for value in pytree.tree_leaves(values):
        if isinstance(value, torch.Tensor) and value.device.type == "npu":
            value.record_stream(stream)


def entering(graph: torch.fx.Graph) -> None:
    """Puts into the graph where another stream becomes the current one, as its nodes say, and where memory of one
    stream is read on another: in eager the program holds such a tensor, a graph drops it behind the node that reads
    it last. See `leaving`."""
    current = objects.CURRENT_STREAM_INDEX
    made: dict[torch.fx.Node, int] = {}  # on which stream
    for node in list(graph.nodes):
        if node.op not in ("call_function", "output"):
            continue
        wanted = objects.CURRENT_STREAM_INDEX if node.op == "output" else _of(node)
        wanted = objects.CURRENT_STREAM_INDEX if wanted is None else wanted
        if node.target is operator.getitem:
            made[node] = made.get(node.args[0], objects.CURRENT_STREAM_INDEX)
            continue
        made[node] = wanted
        others = [arg for arg in node.all_input_nodes if made.get(arg, objects.CURRENT_STREAM_INDEX) != wanted]
        if others and node.op != "output":
            with graph.inserting_before(node):
                graph.call_function(_reads, (wanted, others))
        if wanted != current:
            with graph.inserting_before(node):
                graph.call_function(_enter, (wanted,))
            current = wanted


def leaving(graph: torch.fx.Graph, function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """`function`, which runs the graph: its caller's stream is the current one again behind an error, too."""
    if not graph.find_nodes(op="call_function", target=_enter):
        return function

    def left(inputs: list[Any]) -> Any:
        current = torch.accelerator.current_stream()
        try:
            return function(inputs)
        finally:
            torch.accelerator.set_stream(current)

    left._boxed_call = True  # type: ignore[attr-defined]
    return left
