// Dropping what all streams of a device were given (aclrtDeviceTaskAbort), and who waited for it. One stream's: stream.cpp.
#include <utility>
#include <vector>

#include "acl/types.h"
#include "softnpu/race/race.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {

void Stream::abort_all(int device, int64_t deadline) {
  std::vector<std::pair<Stream*, uint64_t>> mine;
  slab<Stream>().each([&](Stream& s) {
    if (s.device() != device) return;
    s.refuse_in_callback();
    mine.emplace_back(&s, s.tail());
  });
  for (auto [s, accepted] : mine) {
    Capture::invalidate(*s, "the tasks of its device were aborted");
    s->skip_until(s->dropped_until_, accepted);  // from here on none of them makes an error
    s->skip_until(s->aborted_until_, accepted);
    s->failure(true);
    std::lock_guard lock(s->error_mutex_);
    s->owed_.clear();
  }
  // Wakes those who wait. They may go on at once: what comes now is not dropped.
  for (auto [s, accepted] : mine) s->skip_until(s->skip_until_, accepted);
  bool done = true;
  for (auto [s, accepted] : mine) {
    done = s->wait_for(accepted, deadline) && done;
    if (race::on()) race::host_waited(s);
  }
  if (!done) fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "a task of device %d still runs after the given time", device);
}

void Stream::refuse_dropped(uint64_t done) const {
  if (__builtin_expect(dropped_until_.load(std::memory_order_seq_cst) > done, 0))
    fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, "what was waited for was dropped: the tasks of device %d were aborted",
         device());
}

}  // namespace softnpu
