// Options of CANN's operator compiler, process-wide: torch.npu.set_option. What it is not: options of this plugin (options.h).
#pragma once

#include <string>

#include "csrc/cann/export.h"

namespace npu {

// `option` is a value of aclCompileOpt. Throws what CANN answers, and where this CANN has no compiler options.
NPU_API void set_compile_option(int option, const std::string& value);

}  // namespace npu
