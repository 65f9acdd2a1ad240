"""The C++ around the kernels of a graph on the npu: cpp_wrapper, and the models of AOTInductor. Inductor's own for the
CPU, whose kernels are put on the stream instead of called, and whose operators are libtorch_npu.so's.

What it is not: the functions that a model calls there (torch_npu/csrc/inductor). Inductor calls it and compiles the
text.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.cpp_utils import cexpr
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.virtualized import V

import torch_npu
from torch_npu import _C
from torch_npu._inductor import launch

HEADERS = Path(torch_npu.__file__).absolute().parent / "include"

# Puts a kernel on the stream: npu_launch<numbers by value, wide>(name, kernel, device, elements, arguments...).
_LAUNCH = f"""
template <class ByValue, bool wide, class... P, class... A>
static void npu_launch(const char* name, void (*kernel)(P...), int32_t device, int64_t work, A... args) {{
    using Task = NpuTask<ByValue, P...>;
    const int cost = wide ? 2 : work <= {launch.TINY} ? 0 : 1;
    NPU_CALL(aoti_torch_npu_launch, device, Task::run, Task::drop, npu_task<ByValue>(kernel, args...), name, cost);
}}
"""


class _Relocated(str):
    """The name of a device whose header, which Inductor compiles in advance, does not lie among PyTorch's."""

    def split(self, *_: Any, **__: Any) -> list[str]:
        import torch.utils.cpp_extension

        among = Path(torch.utils.cpp_extension.include_paths()[0]) / "torch/csrc/inductor/aoti_include"
        return [os.path.relpath(HEADERS / "torch_npu/csrc/inductor/npu", among.resolve())]


class NpuCppWrapper(CppWrapperCpu):
    def __init__(self) -> None:
        self.device = "npu"
        self.wide_kernels: dict[str, bool] = {}
        super().__init__()
        if V.graph.aot_mode:
            V.graph.device_type = _Relocated(V.graph.device_type)

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None) -> NpuCppWrapper:
        if not _C._runs_host_kernels():
            raise NotImplementedError(
                "torch.compile on CANN: cpp_wrapper and AOTInductor are made for the software NPU alone; the Python "
                "wrapper (the default) calls the operators of CANN"
            )
        return NpuCppWrapper()

    @staticmethod
    def get_device_include_path_jit(device: str) -> str:
        if device != "npu":
            return CppWrapperCpu.get_device_include_path_jit(device)
        lines = [
            "#include <torch/csrc/inductor/cpp_wrapper/common.h>",
            f'#include "{HEADERS}/torch_npu/csrc/inductor/runtime.h"',
            f'#include "{HEADERS}/torch_npu/csrc/inductor/shims.h"',
        ]
        return "\n".join(lines) + launch.TASK + _LAUNCH

    @staticmethod
    def get_device_include_path_aot(device: str) -> str:
        if device != "npu":
            return CppWrapperCpu.get_device_include_path_aot(device)
        name = _Relocated(device).split(":")[0]
        return f"#include <torch/csrc/inductor/aoti_include/{name}.h>\n" + launch.TASK + _LAUNCH

    def add_device_include(self, device: str) -> None:
        if "npu" not in self.included_devices:  # before any other: it says how PyTorch's model is compiled
            super().add_device_include("npu")
        super().add_device_include(device)

    def expression(self, value: Any) -> str:
        return cexpr(V.graph.sizevars.simplify(value))

    def codegen_device(self, device: torch.device) -> str:
        if device.type != "npu":
            return super().codegen_device(device)
        self.used_cached_devices.add("privateuse1")
        index = self.codegen_device_idx(device, str(device.index or 0))
        return f"cached_torch_device_type_privateuse1, {index}"

    def _codegen_entry_impl_prologue(self) -> None:
        super()._codegen_entry_impl_prologue()
        self.prefix.splice_aot("NpuStreamGuard stream_guard(stream, this->device_idx_);")

    def _write_input_unpacking(self) -> None:
        super()._write_input_unpacking()
        for index, (name, value) in enumerate(V.graph.graph_inputs.items()):
            if isinstance(value, ir.TensorBox) and value.get_device().type == "npu":
                self.prefix.writeline_aot(f"npu_require({name}, {index}, this->device_idx_);")
            elif isinstance(value, ir.TensorBox):
                self.prefix.writeline_aot(f"npu_require_host({name}, {index});")

    def define_kernel(self, kernel_name, kernel_body, metadata=None, gpu=True, cpp_definition=None) -> None:
        if launch.asks_for_flag(kernel_body):  # a kernel of the CPU, whose flag would be that of the npu's in this file
            kernel_body = launch.kernel_source(kernel_body)
        super().define_kernel(kernel_name, kernel_body, metadata, gpu, cpp_definition)

    def _generate_kernel_call_helper(self, kernel_name, call_args, *, device=None, arg_types=None, **rest) -> None:
        device = device or V.graph.get_current_device_or_throw()
        if device.type != "npu":
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, arg_types=arg_types, **rest)
            return
        index = self.codegen_device_idx(device, str(device.index or 0))
        values = [
            f"({kind})({arg}.data_ptr())" if "*" in kind else str(arg)
            for arg, kind in zip(call_args, arg_types, strict=True)
        ]
        numbers = f"{launch.by_value_type(kernel_name.by_value)}, {str(kernel_name.wide).lower()}"
        self.writeline(f'npu_launch<{numbers}>("{kernel_name}", {kernel_name}, {index}, {", ".join(values)});')

    def generate_fallback_kernel_with_runtime_lookup_aot(self, op_overload, raw_args, output_args, raw_outputs) -> None:
        for arg in raw_args:
            if isinstance(arg, torch.device) and arg.type == "npu":
                raise NotImplementedError(
                    f"AOTInductor on npu: {op_overload} is given a device, which PyTorch's executor of such operators "
                    "does not know; make the tensor before and give it as an argument"
                )
        super().generate_fallback_kernel_with_runtime_lookup_aot(op_overload, raw_args, output_args, raw_outputs)

    @staticmethod
    def _compatible_with_cpp_boxed_dispatch(op: torch._ops.OpOverload) -> bool:
        """Also of operators that return numbers beside tensors, as npu_fusion_attention."""
        returns = [r for r in op._schema.returns if not isinstance(r.real_type, torch.IntType)]
        schema = SimpleNamespace(arguments=op._schema.arguments, returns=returns)
        return CppWrapperCpu._compatible_with_cpp_boxed_dispatch(SimpleNamespace(_schema=schema))

    def _generate_fallback_kernel_jit(
        self, buf_name, python_name, get_args, op_overload, raw_args, outputs, raw
    ) -> None:
        # An operator's results that are no tensors are numbers in the text already.
        tensors = [None if isinstance(name, str) and not name.isidentifier() else name for name in outputs]
        super()._generate_fallback_kernel_jit(buf_name, python_name, get_args, op_overload, raw_args, tensors, raw)

    def _generate_end_jit(self, result: Any) -> None:
        self.device = "cpu"  # by whose compiler settings the text is compiled
        try:
            super()._generate_end_jit(result)
        finally:
            self.device = "npu"


class NpuKernelName(str):
    """The name of a kernel at one of its calls, with what that must know."""

    wide: bool
    by_value: list[bool]
