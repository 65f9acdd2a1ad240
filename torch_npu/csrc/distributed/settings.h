// TORCH_HCCL_* as the vendor names them (HCCL_* where its older name is still taken). Read once.
#pragma once

#include <chrono>

namespace npu::distributed {

struct Settings {
  bool blocking_wait;  // TORCH_HCCL_BLOCKING_WAIT: wait() blocks the host
  bool tear_down;      // TORCH_HCCL_ASYNC_ERROR_HANDLING: a failed group ends the process if the program does not
  std::chrono::milliseconds
      exec_timeout;  // HCCL_EXEC_TIMEOUT, in seconds there: of every collective; 0: the group's alone
};
const Settings& settings();

}  // namespace npu::distributed
