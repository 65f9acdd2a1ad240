"""torch.compile's default backend, Inductor, on the npu: what its registries ask of a device, by Inductor's own C++
generator.

The software NPU's device memory is the processor's, so the kernels are those Inductor makes for the CPU; they run as
tasks of the current stream. CANN on an Ascend server exports no place for such kernels: there each node of a
graph is an operator of CANN (passes.py). Imported by torch_npu._compile, when torch._inductor.compile_fx is.
"""

from __future__ import annotations


def register() -> None:
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides

    from torch_npu._inductor import decompositions, graphs
    from torch_npu._inductor.cpp_wrapper import NpuCppWrapper
    from torch_npu._inductor.op_overrides import NpuOpOverrides
    from torch_npu._inductor.passes import NpuGraphPass
    from torch_npu._inductor.scheduling import NpuScheduling
    from torch_npu._inductor.wrapper import NpuWrapper

    register_device_op_overrides("npu", NpuOpOverrides())
    register_backend_for_device("npu", NpuScheduling, NpuWrapper, NpuCppWrapper, device_custom_pass=NpuGraphPass())
    decompositions.register()
    graphs.register()
