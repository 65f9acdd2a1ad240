// Counts of operators that ran on the CPU because npu has no kernel for them. Who reads it: csrc/python (torch.npu.fallback_counts).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "csrc/cann/export.h"

namespace c10 {
class OperatorHandle;
}

namespace npu {

// Operator name with overload -> times. Thread-safe copy.
NPU_API std::map<std::string, int64_t> fallback_counts();
NPU_API void reset_fallback_counts();

// Counts one call, warns at the first of an operator, throws where TORCH_NPU_FALLBACK_CPU_DISABLE=1 forbids it.
void count_fallback(const c10::OperatorHandle& op);

}  // namespace npu
