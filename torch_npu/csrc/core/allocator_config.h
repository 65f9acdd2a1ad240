// PYTORCH_NPU_ALLOC_CONF (or PYTORCH_ALLOC_CONF): "key:value,key:value". The keys PyTorch shares between its back ends are kept by
// c10's AcceleratorAllocatorConfig, ours here. A wrong key or value is a ValueError that names it. docs/memory.md lists them.
// Who calls it: the allocator, when the device is initialized; csrc/python, for torch.npu.memory._set_allocator_settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "csrc/cann/export.h"
#include "csrc/core/torch_version.h"

namespace npu {

// c10's settings as the hot path reads them; refreshed whenever they change.
struct Tuning {
  std::atomic<size_t> max_split_size{SIZE_MAX};
  std::atomic<size_t> max_non_split_rounding{20 << 20};
  std::atomic<size_t> large_segment{20 << 20};
  std::atomic<double> garbage_collection_threshold{0};
  std::atomic<bool> expandable_segments{false};
  std::atomic<bool> roundup_power2{false};
};
extern Tuning tuning;

// Reads the environment at the first call. Throws; asking again throws again.
void load_allocator_config();

// Replaces the settings named. Throws if one is wrong.
NPU_API void set_allocator_config(const std::string& text);

// per_process_memory_fraction, 1 unless set.
double configured_memory_fraction();

}  // namespace npu
