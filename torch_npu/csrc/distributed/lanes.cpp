// See lanes.h.
#include "csrc/distributed/lanes.h"

#include <array>
#include <mutex>
#include <optional>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/stream.h"
#include "csrc/distributed/late.h"

namespace npu::distributed {
namespace {

struct Spare {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::array<std::vector<c10::Stream>, 2>> streams;  // by priority
};
Spare& spare() {
  static auto* const the = new Spare;  // leaked: groups may end after static objects
  return *the;
}

c10::Stream make_stream(c10::DeviceIndex device, bool high_priority) {
  const NPUGuard guard(device);
  ensure_context();
  const cann::Api& acl = cann::acl();
  int32_t least = 0, greatest = 0;
  if (acl.aclrtDeviceGetStreamPriorityRange) acl.aclrtDeviceGetStreamPriorityRange(&least, &greatest);
  aclrtStream raw = nullptr;
  NPU_CHECK(acl.aclrtCreateStreamWithConfig(&raw, static_cast<uint32_t>(high_priority ? greatest : least),
                                            ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  return external_stream(raw, device);
}

}  // namespace

c10::Stream Lanes::at(const Lane& lane) {
  std::lock_guard<std::mutex> mine(mutex_);
  const auto found = streams_.find(lane);
  if (found != streams_.end()) return found->second;
  std::optional<c10::Stream> stream;
  {
    Spare& s = spare();
    std::lock_guard<std::mutex> lock(s.mutex);
    auto& ours = s.streams[device_][high_priority_];
    if (!ours.empty()) stream = ours.back(), ours.pop_back();
  }
  if (!stream) stream = make_stream(device_, high_priority_);
  return streams_.emplace(lane, *stream).first->second;
}

void Lanes::abort() noexcept {
  std::lock_guard<std::mutex> mine(mutex_);
  try {
    const auto abort = LATE_ACL(aclrtStreamAbort);
    if (!abort) return;
    const NPUGuard guard(device_);
    for (const auto& [lane, stream] : streams_) {
      abort(raw_stream(stream));
      // Its error is the works', which have been told; left there, whoever synchronizes the device next would be told instead.
      (void)cann::acl().aclrtSynchronizeStream(raw_stream(stream));
    }
  } catch (...) {  // a device that is lost has no streams to abort
  }
}

Lanes::~Lanes() {
  Spare& s = spare();
  for (const auto& [lane, stream] : streams_) {
    try {
      if (!query_stream(stream)) continue;  // somebody else would stand behind what is still queued
    } catch (...) {                         // it failed, or the device is gone
      continue;
    }
    std::lock_guard<std::mutex> lock(s.mutex);
    s.streams[device_][high_priority_].push_back(stream);
  }
}

}  // namespace npu::distributed
