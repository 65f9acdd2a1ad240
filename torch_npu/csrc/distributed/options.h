// ProcessGroupHCCL.Options: c10d's, and what HCCL takes for a communicator (`hccl_config`, by the vendor's names).
// What it is not: TORCH_HCCL_* (settings.h). Each group copies its options when it is made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "csrc/cann/export.h"
#include "csrc/core/torch_version.h"

namespace npu::distributed {

using HcclSettings = std::map<std::string, std::variant<int64_t, std::string>>;

struct NPU_API GroupOptions : HasDescription<c10d::Backend::Options> {
  GroupOptions() : HasDescription<c10d::Backend::Options>("hccl") {}
  bool is_high_priority_stream = false;
  HcclSettings hccl_config;
};

// Throws ValueError or TypeError naming the setting and what it takes.
NPU_API void check_hccl_config(const HcclSettings& config);

}  // namespace npu::distributed
