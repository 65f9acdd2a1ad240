#include "csrc/core/pending_work.h"

#include <c10/util/Exception.h>
#include <time.h>

#include <algorithm>

#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace npu {
namespace {

constexpr int kSpins = 200;
constexpr long kLongestSleep = 500'000;  // nanoseconds

bool is_busy(c10::Stream stream) {
  const NPUGuard guard(stream.device_index());
  const aclrtStream raw = raw_stream(stream);
  if (!cann::acl().aclrtStreamQuery || is_capturing(stream)) return false;
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  // A stream that failed says so at the program's next synchronization; what is left on it is skipped.
  return cann::acl().aclrtStreamQuery(raw, &status) == 0 && status != ACL_STREAM_STATUS_COMPLETE;
}

bool has_passed(const PooledEvent& event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  return cann::acl().aclrtQueryEventStatus(event.get(), &status) != 0 || status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

}  // namespace

PendingWork pending_work() {
  PendingWork work;
  for (const c10::Stream stream : made_streams()) {
    if (!is_busy(stream)) continue;
    PooledEvent event(stream.device_index());
    try {
      record_event(event.get(), stream);
    } catch (const c10::Error&) {  // it failed in between
      continue;
    }
    work.push_back(std::move(event));
  }
  return work;
}

bool is_done(PendingWork& work) {
  if (!alive()) return true;
  work.erase(std::remove_if(work.begin(), work.end(), &has_passed), work.end());
  return work.empty();
}

void wait_until_done(PendingWork work) {
  long sleep = 20'000;
  for (int spins = 0; !is_done(work); ++spins) {
    if (spins < kSpins) continue;
    const timespec time{0, sleep};
    nanosleep(&time, nullptr);
    sleep = std::min(sleep * 2, kLongestSleep);
  }
}

}  // namespace npu
