// The plugin's environment variables, read once when the NPU is initialized and checked there: a wrong value is one error that
// names the variable, its value and what it may be. docs/env.yaml describes each. Not here: the allocator's configuration
// (allocator_config.h) and which CANN (csrc/cann/root.h).
#pragma once

#include <cstdint>
#include <string>

#include "csrc/cann/export.h"

namespace npu {

struct Options {
  bool launch_blocking = false;      // ASCEND_LAUNCH_BLOCKING: every operator waits for its end
  int streams_per_device = 32;       // STREAMS_PER_DEVICE
  bool memory_caching = true;        // PYTORCH_NO_NPU_MEMORY_CACHING=1 turns it off
  int32_t device_sync_timeout = -1;  // ACL_DEVICE_SYNC_TIMEOUT, milliseconds here; -1 waits for ever
  int32_t stream_sync_timeout = -1;  // ACL_STREAM_TIMEOUT, milliseconds
  bool forbid_fallback = false;      // TORCH_NPU_FALLBACK_CPU_DISABLE: an operator without an npu kernel is an error
  std::string acl_config;            // TORCH_ACL_INIT_CONFIG_PATH: a file for aclInit
};

// Throws ValueError. Read again only after a failure.
NPU_API const Options& options();

}  // namespace npu
