// What Python asks of the operators.
#include "csrc/ops/fallback.h"
#include "csrc/python/bind.h"

namespace npu::python {

void bind_ops(pybind11::module& module) {
  module.def("_fallback_counts", with_gil(&fallback_counts));
  module.def("_reset_fallback_counts", with_gil(&reset_fallback_counts));
}

}  // namespace npu::python
