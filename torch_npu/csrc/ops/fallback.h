// Counts of operators that ran on the CPU because npu has no kernel for them. Who reads it: csrc/python (torch.npu.fallback_counts).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "csrc/cann/export.h"

namespace npu {

// Operator name with overload -> times. Thread-safe copy.
NPU_API std::map<std::string, int64_t> fallback_counts();
NPU_API void reset_fallback_counts();

}  // namespace npu
