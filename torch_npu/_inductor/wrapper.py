"""The Python code around the kernels of a graph on the npu: allocations, operators of torch, kernels put on the stream
that is current when the graph runs. Inductor calls it, writes the code out and keeps it in its cache on disk."""

from __future__ import annotations

import sympy
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen, pexpr
from torch._inductor.virtualized import V

from torch_npu._inductor import launch


class _Npu:
    """What the wrapper of a graph and that of a graph inside it share."""

    def expression(self, value: sympy.Expr) -> str:
        return pexpr(V.graph.sizevars.simplify(value))

    def make_allocation(self, name, device, dtype, shape, stride, allocation_shape=None, is_pinned=False) -> str:
        text = super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        return text.replace("device='npu'", f"device='npu:{device.index or 0}'") if device.type == "npu" else text

    def define_kernel(self, kernel_name, kernel_body, metadata=None, gpu=True, cpp_definition=None) -> None:
        if launch.MARK in kernel_body:
            self.imports.writeline(f"from {launch.__name__} import compile_kernel as compile_npu_kernel")
            kernel_body = kernel_body.replace("async_compile.cpp_pybinding(", "compile_npu_kernel(async_compile, ", 1)
        super().define_kernel(kernel_name, kernel_body, metadata, gpu, cpp_definition)

    def _generate_kernel_call_helper(
        self, kernel_name, call_args, *, device=None, triton=True, graph_name="", current_stream_idx=None, **rest
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        if device.type != "npu" or triton:
            super()._generate_kernel_call_helper(
                kernel_name, call_args, device=device, triton=triton, graph_name=graph_name,
                current_stream_idx=current_stream_idx, **rest,
            )  # fmt: skip
            return
        stream = PythonWrapperCodegen.write_get_raw_stream(self, device.index, graph_name)
        self.writeline(self.wrap_kernel_call(kernel_name, [stream, *call_args]))


class NpuSubgraphWrapper(_Npu, SubgraphPythonWrapperCodegen):
    pass


class NpuWrapper(_Npu, PythonWrapperCodegen):
    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return NpuSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return NpuWrapper()
