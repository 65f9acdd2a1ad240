// The parts of torch_npu._C, and how a function is bound: `no_gil(f)` releases the GIL around f, `with_gil(f)` keeps it (f returns
// at once). Both turn c10's exceptions into PyTorch's Python types.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

namespace npu::python {

template <class F>
auto no_gil(F&& f) {
  return torch::wrap_pybind_function_no_gil(std::forward<F>(f));
}

template <class F>
auto with_gil(F&& f) {
  return torch::wrap_pybind_function(std::forward<F>(f));
}

void bind_core_limit(pybind11::module& module);
void bind_device(pybind11::module& module);
void bind_distributed(pybind11::module& module);
void bind_graph(pybind11::module& module);
void bind_host_function(pybind11::module& module);
void bind_host_kernel(pybind11::module& module);
void bind_memory(pybind11::module& module);
void bind_ops(pybind11::module& module);
void bind_checks(pybind11::module& module);
void bind_report(pybind11::module& module);

}  // namespace npu::python
