// See initialization.h.
#include "csrc/distributed/initialization.h"

#include <c10/util/Exception.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/distributed/check.h"

namespace npu::distributed {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kMeetGrace = std::chrono::seconds(5);  // HCCL's own error, which names who is missing, comes first

struct Call {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, abandoned = false;
  HcclResult result = HCCL_SUCCESS;
  HcclComm made = nullptr;
  std::string message;
};

void run(const std::shared_ptr<Call>& call, c10::DeviceIndex device, uint32_t ranks, HcclRootInfo info, uint32_t me,
         const HcclCommConfig& config) {
  HcclComm made = nullptr;
  HcclResult result = HCCL_E_INTERNAL;
  std::string message;
  try {
    const NPUGuard guard(device);
    ensure_context();
    result = cann::hccl().HcclCommInitRootInfoConfig(ranks, &info, me, &config, &made);
    if (result != HCCL_SUCCESS) message = cann::recent_message();
  } catch (const std::exception& error) {
    message = error.what();
  }
  std::unique_lock<std::mutex> lock(call->mutex);
  call->done = true, call->result = result, call->message = message, call->made = made;
  call->changed.notify_all();
  if (!call->abandoned || result != HCCL_SUCCESS) return;
  lock.unlock();
  cann::hccl().HcclCommDestroy(made);
}

}  // namespace

HcclComm initialized(const Meeting& meeting, const HcclRootInfo& info, const HcclCommConfig& config) {
  const auto call = std::make_shared<Call>();
  std::thread(run, call, current_device(), static_cast<uint32_t>(meeting.ranks.size()), info,
              static_cast<uint32_t>(meeting.me), config)
      .detach();
  const auto end = std::chrono::steady_clock::now() + meeting.limit + kMeetGrace;
  std::unique_lock<std::mutex> lock(call->mutex);
  while (!call->changed.wait_for(lock, kLook, [&] { return call->done; })) {
    try {
      lock.unlock();
      meeting.usable();
      if (std::chrono::steady_clock::now() > end)
        C10_THROW_ERROR(DistBackendError,
                        c10::str("ProcessGroupHCCL: the communicator of ranks ", c10::Join(", ", meeting.ranks),
                                 " was not made within ", static_cast<double>(meeting.limit.count()) / 1000, " s"));
      lock.lock();
    } catch (...) {
      lock.lock();
      call->abandoned = true;
      const HcclComm made = call->done && call->result == HCCL_SUCCESS ? call->made : nullptr;
      lock.unlock();
      if (made) cann::hccl().HcclCommDestroy(made);
      throw;
    }
  }
  if (call->result != HCCL_SUCCESS) throw_hccl(call->result, "HcclCommInitRootInfoConfig", call->message);
  return call->made;
}

}  // namespace npu::distributed
