// The tiered mode's middle: the clients of one host talk to it over a local socket, it to the server over one connection.
// It understands frames, not requests. It runs in the launcher of the host (torch_npu_run).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "csrc/cann/export.h"

namespace npu::distributed::store {

class NPU_API Proxy {
 public:
  // Clients find it by the id of the process it runs in. Throws std::runtime_error where the server cannot be reached.
  Proxy(const std::string& host, uint16_t port, std::chrono::milliseconds timeout);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

 private:
  struct Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace npu::distributed::store
