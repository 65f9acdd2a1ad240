#include "csrc/core/lifecycle.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <mutex>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/options.h"

namespace npu {
namespace detail {
std::atomic<Life> life{Life::kNotBegun};
}

namespace {

std::mutex& lock() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

// Runs in the child, on its only thread. Takes no lock: another thread of the parent may have held any.
void forked() noexcept {
  Life ready = Life::kReady;
  detail::life.compare_exchange_strong(ready, Life::kForked);
  detail::forget_thread_state();
}

void begin() {
  const cann::Api& acl = cann::acl();
  const std::lock_guard<std::mutex> guard(lock());
  if (alive()) return;
  options();  // a wrong variable is reported before anything is opened
  cann::load_operators();
  const int status = acl.aclInit(options().acl_config.empty() ? nullptr : options().acl_config.c_str());
  if (status != 0 && status != ACL_ERROR_REPEAT_INITIALIZE) cann::throw_status(status, "aclInit");
  static const bool registered = pthread_atfork(nullptr, nullptr, &forked) == 0;
  TORCH_CHECK(registered, "npu: pthread_atfork failed");
  detail::life.store(Life::kReady, std::memory_order_release);
}

}  // namespace

void initialize() {
  switch (detail::life.load(std::memory_order_acquire)) {
    case Life::kReady:
      return;
    case Life::kNotBegun:
      return begin();
    case Life::kForked:
      TORCH_CHECK(
          false,
          "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' "
          "start method: torch.multiprocessing.get_context(\"spawn\"), or multiprocessing_context=\"spawn\" of a "
          "DataLoader");
    case Life::kFinalized:
      TORCH_CHECK(false, "npu: the process is exiting: the device was finalized");
  }
}

bool in_bad_fork() noexcept { return detail::life.load(std::memory_order_acquire) == Life::kForked; }

void drain() noexcept {
  if (alive()) detail::drain_devices();
}

void finalize() noexcept {
  if (!alive()) return;
  detail::drain_devices();
  detail::life.store(Life::kFinalized, std::memory_order_release);
  cann::acl().aclFinalize();  // its status has nobody to go to
}

}  // namespace npu
