"""Graphs: work that is captured once and replayed at the same addresses, without the cost of giving it out anew.

    x = torch.zeros(8, device="npu")
    with torch.npu.graph(graph := torch.npu.NPUGraph()):
        y = model(x)
    x.copy_(batch)
    graph.replay()          # y holds model(batch)

What a capture cannot hold is an error when it is met: reading a value on the host, waiting for a stream, operators that
run on the CPU. `torch.accelerator.Graph` is the same under PyTorch's common name. MemPool and use_mem_pool keep a
program's allocations apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch.utils import _pytree as pytree

from torch_npu import _C
from torch_npu.npu import _captured_states, _captures, _refused, streams
from torch_npu.npu._graph_updates import Updates
from torch_npu.npu._npugraph_handlers import NpuGraphOpHandler, register_npu_graph_handler
from torch_npu.npu._npugraph_handlers.record import DispatchCapture
from torch_npu.npu._super_kernel import super_kernel_scope, super_kernel_scope_begin, super_kernel_scope_end
from torch_npu.npu._task_groups import (
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
)
from torch_npu.npu.devices import synchronize
from torch_npu.npu.memory import empty_cache
from torch_npu.npu.pools import MemPool, use_mem_pool

__all__ = [
    "MemPool",
    "NPUGraph",
    "NpuGraphOpHandler",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "make_graphed_callables",
    "npugraph_mark_step_begin",
    "register_npu_graph_handler",
    "super_kernel_scope",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
    "use_mem_pool",
]


# ACL_ERROR_RT_STREAM_CAPTURED, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED
_WAITED = (107027, 507903)


class NPUGraph(_C._NPUGraph):
    """Captured work. `with torch.npu.graph(NPUGraph()): ...` captures, `replay()` runs it again.

    `auto_dispatch_capture` is what torch.npu.graph was given. Who calls capture_begin and capture_end sets it before,
    and enters `graph_dispatch_mode` around both.
    """

    auto_dispatch_capture = False
    _dispatch: DispatchCapture | None = None
    _updates: Updates | None = None

    @property
    def graph_dispatch_mode(self) -> DispatchCapture:
        """The mode in which calls that can be updated are captured. `graph_dispatch_records` has them, each with
        `op_cache_entry`, `args`, `kwargs`, `handle` and `event`, for updates by hand on `update_stream`.
        """
        if self._dispatch is None:
            self._dispatch = DispatchCapture()
        return self._dispatch

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Begins to capture the work of the current stream. See torch.npu.graph."""
        if pool is not None and not (isinstance(pool, tuple) and len(pool) == 2):
            raise TypeError(
                f"torch.npu.graph: pool is what torch.npu.graph_pool_handle() or a graph's pool() returns, not {pool!r}"
            )
        super().capture_begin(pool, capture_error_mode)
        if self._dispatch is not None:
            self._dispatch.begin()

    def capture_end(self) -> None:
        """Ends the capture."""
        super().capture_end()
        mode = self._dispatch
        if self.auto_dispatch_capture or (mode is not None and (mode.records or mode.abandoned)):
            self._updates = Updates(self.graph_dispatch_mode.records, self.graph_dispatch_mode.abandoned)

    def update(self, cpu_update_input: Sequence[dict[str, Any]]) -> None:
        """Makes calls of the graph anew, with other arguments on the host, for one replay: the next, or one that waits.

        The graph was captured with `auto_dispatch_capture=True`; its calls of operators with a handler
        (`register_npu_graph_handler`; CANN's attention for decoding has one) are changed in the order of the capture:
        `cpu_update_input` has a dict for each, or one for all, from an argument's name to its value:

            with torch.npu.graph(graph := torch.npu.NPUGraph(), auto_dispatch_capture=True):
                out, _ = torch_npu.npu_fused_infer_attention_score(q, k, v, actual_seq_lengths_kv=[1, 1], ...)
            graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [5, 9]}])
            graph.replay()

        An empty dict leaves its call as it is. **Each replay takes one update**, and waits until it comes, from another
        thread if need be. Raises RuntimeError if nothing was captured that way, TypeError and ValueError for what does
        not fit, and what the operator refuses; then all calls stay as they were.
        """
        if self._updates is None:
            raise RuntimeError(
                "NPUGraph.update: the graph has no calls that can change: capture it with "
                "torch.npu.graph(graph, auto_dispatch_capture=True)"
            )
        self._updates.update(cpu_update_input)

    def replay(self) -> None:
        """Queues the captured work on the current stream."""
        updates = self._updates
        if updates is None:
            super().replay()
        else:
            updates.replay(super().replay)

    def reset(self) -> None:
        """Drops what was captured, and its memory."""
        self._updates = self._dispatch = None
        super().reset()


NPUGraph.__module__ = "torch.npu"
NPUGraph.super_kernel_optimize = _refused.method("NPUGraph.super_kernel_optimize")
_captures.listen()  # of torch.accelerator.Graph, too


def graph_pool_handle() -> tuple[int, int]:
    """The id of a new memory pool, which several graphs may share: `torch.npu.graph(g, pool=handle)`."""
    return _C._new_pool_id()


def npugraph_mark_step_begin() -> None:
    """Says that a new step of training or inference begins: what functions compiled with graphs (backend="npugraphs",
    mode="reduce-overhead") returned before it is not needed any more. Without it they keep what is still held.
    """
    from torch_npu.dynamo import steps

    steps.mark_step_begin()


class graph:
    """A context in which the work of `stream` is captured into `npu_graph`.

    `pool` is a `graph_pool_handle()` or another graph's `pool()`; graphs that share one must be replayed in the order
    they were captured. `capture_error_mode` is "global", "thread_local" or "relaxed". Without `stream` the stream is
    `graph.default_capture_stream`, made at the first capture; other devices have one each. With `auto_dispatch_capture`
    calls of operators that take lengths on the host can be given others before each replay: `NPUGraph.update`.
    """

    default_capture_stream: torch.Stream | None = None
    _of_other_devices: ClassVar[dict[int, torch.Stream]] = {}

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: tuple[int, int] | None = None,
        stream: torch.Stream | None = None,
        auto_dispatch_capture: bool | str = False,
        capture_error_mode: str = "global",
    ):
        if isinstance(auto_dispatch_capture, str):  # torch.cuda.graph has the mode in this place
            auto_dispatch_capture, capture_error_mode = False, auto_dispatch_capture
        if not isinstance(auto_dispatch_capture, bool):
            raise TypeError(f"torch.npu.graph: auto_dispatch_capture is a bool, not {auto_dispatch_capture!r}")
        if stream is None:
            stream = graph._default_stream()
        self.npu_graph, self.pool, self.mode = npu_graph, pool, capture_error_mode
        self.stream, self.context = stream, streams.stream(stream)
        self.auto_dispatch_capture = auto_dispatch_capture

    @staticmethod
    def _default_stream() -> torch.Stream:
        """Of the current device: on another's stream nothing of this one would be captured."""
        if graph.default_capture_stream is None:
            graph.default_capture_stream = streams.Stream()
        device = streams.current_stream().device_index
        if graph.default_capture_stream.device_index == device:
            return graph.default_capture_stream
        if device not in graph._of_other_devices:
            graph._of_other_devices[device] = streams.Stream()
        return graph._of_other_devices[device]

    def __enter__(self) -> None:
        synchronize()  # what the graph uses must be there
        empty_cache()
        self.context.__enter__()
        try:
            if isinstance(self.npu_graph, NPUGraph):
                self.npu_graph.auto_dispatch_capture = self.auto_dispatch_capture
            self.npu_graph.capture_begin(self.pool, self.mode)
        except BaseException as error:
            self.context.__exit__(type(error), error, error.__traceback__)
            raise
        _captured_states.begin(self.stream, _C._default_generator(self.stream.device_index))
        if self.auto_dispatch_capture:
            self.npu_graph.graph_dispatch_mode.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self.auto_dispatch_capture:
            self.npu_graph.graph_dispatch_mode.__exit__(kind, error, traceback)
        _captured_states.end(self.stream)
        try:
            self.npu_graph.capture_end()
        except RuntimeError as consequence:
            if error is None:
                raise
            # What was raised inside is the cause. Of a wait it says all that is to be said.
            if getattr(error, "error_code", None) not in _WAITED:
                error.add_note(str(consequence))
        finally:
            self.context.__exit__(kind, error, traceback)


def _read(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.stride(), tensor.is_conj(), tensor.is_neg()


def _put(static: torch.Tensor, given: torch.Tensor) -> None:
    """Nothing to do for the static tensor itself; another view of its memory is read before that is written."""
    if _read(static) != _read(given):
        static.copy_(given.clone() if static.data_ptr() == given.data_ptr() else given)


class _Graphed(torch.autograd.Function):
    """Runs a captured forward, and in backward a captured backward."""

    @staticmethod
    def forward(ctx: Any, run: _Capture, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.run = run
        for static, given in zip(run.inputs, inputs, strict=True):
            _put(static, given)
        run.forward_graph.replay()
        return tuple(out.detach() for out in run.outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        run = ctx.run
        for static, given in zip(run.output_gradients, gradients, strict=True):
            if static is not None and given is not None:
                _put(static, given)
        run.backward_graph.replay()
        return None, *(g if g is None else g.detach() for g in run.input_gradients)


class _Capture:
    """One callable's two graphs, with the tensors they read and write."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], warmups: int, allow_unused: bool):
        module = function if isinstance(function, torch.nn.Module) else None
        if module is not None and any(b.requires_grad for b in module.buffers()):
            raise RuntimeError("make_graphed_callables: buffers must not require gradients")
        flat, self.input_tree = pytree.tree_flatten(arguments)
        if not all(isinstance(x, torch.Tensor) for x in flat):
            raise TypeError("make_graphed_callables: all sample arguments must be tensors")
        self.parameters = tuple(module.parameters()) if module is not None else ()
        self.inputs = (*flat, *self.parameters)
        self.wanted = [x for x in self.inputs if x.requires_grad]
        self.function, self.arguments, self.allow_unused = function, arguments, allow_unused
        self.input_gradients: list[torch.Tensor | None] = [None] * len(self.inputs)
        side = streams.Stream()
        side.wait_stream(streams.current_stream())
        with streams.stream(side):
            for _ in range(warmups):
                outputs = [o for o in pytree.tree_leaves(function(*arguments)) if o.requires_grad]
                if outputs and self.wanted:
                    self.gradients_of(outputs, [torch.ones_like(o) for o in outputs])
                del outputs
        streams.current_stream().wait_stream(side)

    def gradients_of(self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> Sequence[Any]:
        return torch.autograd.grad(outputs, self.wanted, given, only_inputs=True, allow_unused=self.allow_unused)

    def capture_forward(self, pool: tuple[int, int]) -> None:
        self.forward_graph = NPUGraph()
        with graph(self.forward_graph, pool=pool):
            result = self.function(*self.arguments)
        self.outputs, self.output_tree = pytree.tree_flatten(result)

    def capture_backward(self, pool: tuple[int, int]) -> None:
        self.backward_graph = NPUGraph()
        self.output_gradients = [torch.empty_like(o) if o.requires_grad else None for o in self.outputs]
        live = [o for o in self.outputs if o.requires_grad]
        if live and self.wanted:
            with graph(self.backward_graph, pool=pool):
                found = iter(self.gradients_of(live, [g for g in self.output_gradients if g is not None]))
            self.input_gradients = [next(found) if x.requires_grad else None for x in self.inputs]
        self.outputs = [o.detach() for o in self.outputs]  # the captured autograd graph has done its work

    def __call__(self, *arguments: Any) -> Any:
        flat, tree = pytree.tree_flatten(arguments)
        if tree != self.input_tree:
            raise TypeError(f"this graph was captured with arguments {self.input_tree}, not {tree}")
        for index, (static, given) in enumerate(zip(self.inputs, flat, strict=False)):
            if given.shape != static.shape or given.dtype != static.dtype:
                raise ValueError(
                    f"argument {index} of a graph must be {static.dtype} of shape {tuple(static.shape)} as at its "
                    f"capture, not {given.dtype} of shape {tuple(given.shape)}"
                )
        return pytree.tree_unflatten(_Graphed.apply(self, *flat, *self.parameters), self.output_tree)


def make_graphed_callables(
    callables: Callable[..., Any] | tuple[Callable[..., Any], ...],
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Callables (functions or modules) whose forward and backward are graphs; a module is changed in place.

    `sample_args` has the tensors of one call (a tuple of such tuples for a tuple of callables); later calls take
    tensors of the same shapes and dtypes. A module in the other of train() and eval() runs as before.
    """
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables: autocast's cache must be off: autocast(..., cache_enabled=False)")
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if not all(isinstance(sample, tuple | list) for sample in samples):
        raise TypeError("make_graphed_callables: sample_args is a tuple of one call's arguments, as (x,)")
    samples = tuple(map(tuple, samples))
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables, but sample_args for {len(samples)}")
    pool = graph_pool_handle() if pool is None else pool
    synchronize()
    captures = [
        _Capture(f, args, num_warmup_iters, allow_unused_input) for f, args in zip(functions, samples, strict=True)
    ]
    for capture in captures:
        capture.capture_forward(pool)
    for capture in reversed(captures):  # memory that one backward frees the next may use
        capture.capture_backward(pool)
    graphed = tuple(_with_graph(f, c) for f, c in zip(functions, captures, strict=True))
    return graphed[0] if single else graphed


def _with_graph(function: Callable[..., Any], capture: _Capture) -> Callable[..., Any]:
    if not isinstance(function, torch.nn.Module):
        return capture
    plain, mode = function.forward, function.training

    def forward(*arguments: Any, **keywords: Any) -> Any:
        if function.training is mode and not keywords:
            return capture(*arguments)
        return plain(*arguments, **keywords)

    function.forward = forward  # type: ignore[method-assign]
    return function
