"""Inductor's C++ generator for graphs on the npu: CppScheduling, with the settings it needs under a device's name
that is not "cpu", and kernels that tell how much work they are.

The settings (CURES) are patched while a graph with npu tensors is scheduled and its code is generated, by methods of
that graph's scheduler; other graphs keep theirs. Who calls it: Inductor's scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling, KernelGroup
from torch._inductor.utils import parallel_num_threads, sympy_product
from torch._inductor.virtualized import V

from torch_npu._inductor import graphs, launch, waits
from torch_npu._inductor.cpp_wrapper import NpuKernelName
from torch_npu._inductor.kernels import NpuKernelProxy
from torch_npu._inductor.passes import refuse_without_host_kernels

# Fusion that reorders loops reads a loop group as (elements, elements reduced), which the C++ generator's is not:
# TypeError. A device without a name of its own has "cuda_backend"; only by "cpp" have the generator's values a type
# (indirect indexing). A fusion that is tried by the clock needs Triton.
CURES = {
    "loop_ordering_after_fusion": False,
    "loop_reindexing_after_fusion": False,
    "loop_index_inversion_in_fusion": False,
    "benchmark_fusion": False,
    "cuda_backend": "cpp",
}
# As many elements as are computed at the call (launch.TINY) are not shared by threads: to wake one takes longer.
# Inductor's own bound is for each thread.
_CHUNK = "cpp.min_chunk_size"
_ITS_CHUNK = 512
# Of a graph that enters streams: a buffer may still be read on one when the next kernel is put on another.
ON_STREAMS = {"inplace_buffers": False}
# The steps of a scheduler in which they count.
_STEPS = ("fuse_nodes", "merge_loops", "codegen")
# Those that sort a graph's nodes so that fewer parts of it cannot be captured: a wait would go first.
_SORTS = ("maybe_reorder_for_minimizing_partition", "reorder_for_partition_with_simple_dependency")


def cures() -> dict[str, Any]:
    chunk = config.cpp.min_chunk_size
    if chunk == _ITS_CHUNK:  # else the user's
        chunk = max(chunk, launch.TINY // parallel_num_threads())
    return {**CURES, _CHUNK: chunk}


def _cured(scheduler: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if V.graph.cpp_wrapper and scheduler._multi_stream_nodes:
            raise NotImplementedError(
                "torch.compile on npu: with cpp_wrapper, a stream that is entered inside a compiled function is not "
                "implemented; enter it around the call"
            )
        if step.__name__ == "fuse_nodes":
            waits.order(scheduler, *args)
        elif step.__name__ == "codegen":
            waits.place(scheduler)
            graphs.refuse(V.graph)
        with config.patch({**cures(), **(ON_STREAMS if scheduler._multi_stream_nodes else {})}):
            return step(*args, **kwargs)

    return call


def _unless_waits(sort: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    return lambda nodes: nodes if waits.present(nodes) else sort(nodes)


class NpuKernelGroup(KernelGroup):
    """One kernel: called with how many elements it computes, known only at the call where shapes are dynamic."""

    def call_kernel(self, wrapper: Any, kernel_name: str) -> None:
        work = sympy.Integer(0)
        for node in self.scheduled_nodes:
            work += sum(sympy_product(part) for part in node.get_ranges()[:1])
            if node.is_reduction():
                work += sympy_product([*node.get_ranges()[0], *node.get_ranges()[1]])
        _, call_args, arg_types = self.args.cpp_argdefs()
        if V.graph.cpp_wrapper:
            kernel_name = NpuKernelName(kernel_name)
            kernel_name.wide = wrapper.wide_kernels[kernel_name]
            kernel_name.by_value = [by_value(arg) for arg in call_args]
        wrapper.generate_kernel_call(
            kernel_name,
            [wrapper.expression(work), *call_args],
            triton=False,
            arg_types=["int64_t", *arg_types],
            device=self.scheduled_nodes[0].get_device(),
        )


def by_value(arg: str) -> bool:
    """Is the argument a number in the memory of the CPU? The kernel runs later and takes what it is at the call."""
    buffer = V.graph.try_get_buffer(arg)
    device = buffer.get_device() if buffer is not None and hasattr(buffer, "get_device") else None
    return device is not None and device.type == "cpu" and not buffer.get_size()


class NpuScheduling(CppScheduling):
    kernel_proxy_cls = NpuKernelProxy

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        if scheduler is not None:
            for step in _STEPS:
                setattr(scheduler, step, _cured(scheduler, getattr(scheduler, step)))
            for sort in _SORTS:
                setattr(scheduler, sort, _unless_waits(getattr(scheduler, sort)))
            # config.combo_kernels, several kernels in one: Inductor leaves the CPU's alone, which the generator needs.
            scheduler.create_combo_kernel_nodes = lambda num_ck_nodes: None

    def reset_kernel_group(self) -> None:
        self.kernel_group = NpuKernelGroup()

    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> str:
        refuse_without_host_kernels()
        if V.graph.cpp_wrapper:
            name = super().define_kernel(launch.kernel_source(src_code), nodes, kernel_args)
            V.graph.wrapper_code.wide_kernels[name] = launch.is_wide(src_code)
            return name
        _, call_args, _ = (kernel_args or self.kernel_group.args).cpp_argdefs()
        numbers = [by_value(arg) for arg in call_args]
        return super().define_kernel(launch.task_source(src_code, numbers), nodes, kernel_args)
