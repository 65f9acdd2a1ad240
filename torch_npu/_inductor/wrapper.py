"""The Python code around the kernels of a graph on the npu: allocations, operators of torch, kernels put on the stream
that is current when the graph runs. Inductor calls it, writes the code out and keeps it in its cache on disk."""

from __future__ import annotations

import dataclasses

import sympy
from torch._dynamo.graph_bytecode_inputs import CURRENT_STREAM_INDEX
from torch._inductor import config, ir
from torch._inductor.codegen.wrapper import (
    EnterCudaStreamContextLine,
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
    pexpr,
)
from torch._inductor.virtualized import V

from torch_npu._inductor import launch, negated


@dataclasses.dataclass
class EnterStreamLine(EnterCudaStreamContextLine):
    """Enters a stream of the program; index 0 is the stream of the call. What a device guard declares for a GPU."""

    name: str

    def codegen(self, code) -> None:
        code.writeline(f"with {self.name}:")
        code.do_indent()


class _Npu:
    """What the wrapper of a graph and that of a graph inside it share."""

    def expression(self, value: sympy.Expr) -> str:
        return pexpr(V.graph.sizevars.simplify(value))

    def make_allocation(self, name, device, dtype, shape, stride, allocation_shape=None, is_pinned=False) -> str:
        text = super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        if device.type != "npu":
            return text
        plain, options = f"{name} = empty_strided(", f", device='npu', dtype={dtype})"
        if plain not in text or options not in text:
            return text.replace("device='npu'", f"device='npu:{device.index or 0}'")
        found = "from torch_npu._C import _empty_strided as empty_strided_npu"
        if not self.imports.contains(found):
            self.imports.writeline(found)
        text = text.replace(plain, f"{name} = empty_strided_npu(", 1)
        return text.replace(options, f", {dtype}, {device.index or 0})", 1)

    def codegen_inputs(self) -> None:
        super().codegen_inputs()
        for name, value in self.get_graph_inputs().items():
            if negated.is_tangent(name) and isinstance(value, ir.TensorBox) and value.get_device().type == "npu":
                self.prefix.writeline(f"{name} = {name}.resolve_neg()")

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
        if V.graph.scheduler._multi_stream_nodes:
            stream = f"get_raw_stream({device.index})"
        self.writeline(self.wrap_kernel_call(kernel_name, [stream, *call_args]))

    def codegen_cuda_stream_enter(self, stream_idx: int) -> EnterStreamLine:
        V.graph.scheduler.flush()  # kernels of the stream before: the generator collects several
        found = "from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index"
        if not self.imports.contains(found):
            self.imports.writeline(found)
        line = EnterStreamLine(stream_idx, self._stream(stream_idx))
        self.writeline(line)
        return line

    def _stream(self, stream_idx: int) -> str:
        index = V.graph.scheduler.stream_idx_to_user_obj_idx.get(stream_idx, CURRENT_STREAM_INDEX)
        return f"get_external_object_by_index({index})"

    def memory_plan_reuse(self) -> None:
        # A buffer of one stream may be read on another, behind whose kernels it must not be given to the next.
        with config.patch(allow_buffer_reuse=config.allow_buffer_reuse and not V.graph.scheduler._multi_stream_nodes):
            super().memory_plan_reuse()

    def _leaving(self, name: str) -> str:
        """Its memory is used again behind the kernels of other streams that use it, too."""
        scheduler = V.graph.scheduler
        buffer = V.graph.try_get_buffer(name)
        if not scheduler._multi_stream_nodes or (buffer is not None and not buffer.has_tensor_output()):
            return ""  # several results are a tuple, each of which has a name of its own

        def real(buffer: str) -> str:  # what waits for a stream counts as writing what is read behind it
            return scheduler.mutation_real_name.get(buffer, buffer)

        users = {
            stream
            for node, stream in scheduler.node_to_stream.items()
            if any(real(used.name) == real(name) for used in node.read_writes.reads_and_writes())
        }
        # Not get_buf_stream, for which a buffer is of the stream that waited for it last.
        objects = (self._stream(stream) for stream in sorted(users - {scheduler.buff_to_stream.get(name, 0)}))
        return "".join(f"{name}.record_stream({found}); " for found in objects)

    def make_buffer_free(self, buffer) -> str:
        return self._leaving(buffer.get_name()) + super().make_buffer_free(buffer)

    def make_free_by_names(self, names_to_del) -> str:
        return "".join(map(self._leaving, names_to_del)) + super().make_free_by_names(names_to_del)

    def codegen_cuda_stream_exit(self) -> None:
        V.graph.scheduler.flush()
        super().codegen_cuda_stream_exit()


class NpuSubgraphWrapper(_Npu, SubgraphPythonWrapperCodegen):
    pass


class NpuWrapper(_Npu, PythonWrapperCodegen):
    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return NpuSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return NpuWrapper()
