// TORCH_HCCL_* as the vendor names them (HCCL_* where its older name is still taken, TORCH_FR_* where it is PyTorch's). Read once.
#pragma once

#include <chrono>
#include <string>

namespace npu::distributed {

struct Settings {
  bool blocking_wait;  // TORCH_HCCL_BLOCKING_WAIT: wait() blocks the host
  bool tear_down;      // TORCH_HCCL_ASYNC_ERROR_HANDLING: a failed group ends the process if the program does not
  std::chrono::milliseconds
      exec_timeout;  // HCCL_EXEC_TIMEOUT, in seconds there: of every collective; 0: the group's alone
  std::chrono::milliseconds connect_timeout;  // HCCL_CONNECT_TIMEOUT, in seconds there: of a group's first call
  bool high_priority;        // TORCH_HCCL_HIGH_PRIORITY: groups' streams have high priority, whatever their options say
  size_t trace_buffer_size;  // TORCH_HCCL_TRACE_BUFFER_SIZE: calls that the flight recorder keeps; 0: it is off
  bool trace_cpp_stack;      // TORCH_HCCL_TRACE_CPP_STACK
  bool dump_on_timeout;      // TORCH_HCCL_DUMP_ON_TIMEOUT
  std::string trace_file;    // TORCH_HCCL_DEBUG_INFO_TEMP_FILE: the rank is appended
};
const Settings& settings();

}  // namespace npu::distributed
