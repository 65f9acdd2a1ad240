// What Python asks of the operators.
#include "csrc/cann/packages.h"
#include "csrc/core/compile_option.h"
#include "csrc/core/sync_debug.h"
#include "csrc/ops/fallback.h"
#include "csrc/ops/params.h"
#include "csrc/python/bind.h"

namespace npu::python {

void bind_ops(pybind11::module& module) {
  module.def("_fallback_counts", with_gil(&fallback_counts));
  module.def("_set_allow_hf32", with_gil(&set_allow_hf32));
  module.def("_set_sync_debug_mode", with_gil([](int mode) { detail::sync_debug = static_cast<SyncDebug>(mode); }));
  module.def("_package_libraries", no_gil(&cann::package_libraries));
  module.def("_set_compile_option",
             no_gil([](int option, const std::string& value) { set_compile_option(option, value); }));
  module.def("_reset_fallback_counts", with_gil(&reset_fallback_counts));
}

}  // namespace npu::python
