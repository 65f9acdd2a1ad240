// Task groups: operators of a captured graph whose calls are made anew between its replays, with other arguments. What the calls
// allocate comes from a pool of the group's own, which lives as long as its graph. What it is not: the capture (graph.h).
//     begin_task_group(s); f(x, 3, out); const auto group = end_task_group(s);      // s is captured
//     begin_update(other, group); f(x, 4, out); end_update(other);                   // a replay ordered behind `other` has 4
#pragma once

#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "csrc/cann/export.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/pinned_use.h"

namespace npu {

class NPU_API TaskGroup {
 public:
  TaskGroup(aclrtTaskGrp raw, c10::DeviceIndex device) : device_(device), raw_(raw) {}
  ~TaskGroup() { close({}); }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  aclrtTaskGrp raw() const;  // null when its graph is gone
  c10::DeviceIndex device() const { return device_; }
  // Its pool, held once more: the caller drops it. Made at the first update.
  c10::MempoolId_t hold_pool();
  // Its graph is gone, which was replayed on these streams.
  void close(const std::vector<c10::Stream>& replayed_on) noexcept;
  // Its updates' use of pinned memory, until the graph is gone.
  const std::shared_ptr<PinnedUse>& pinned() const { return pinned_; }

 private:
  const c10::DeviceIndex device_;
  mutable std::mutex lock_;
  aclrtTaskGrp raw_;
  std::optional<c10::MempoolId_t> pool_;
  const std::shared_ptr<PinnedUse> pinned_ = std::make_shared<PinnedUse>();
};

NPU_API void begin_task_group(c10::Stream stream);
NPU_API std::shared_ptr<TaskGroup> end_task_group(c10::Stream stream);
NPU_API void begin_update(c10::Stream stream, const std::shared_ptr<TaskGroup>& group);
NPU_API void end_update(c10::Stream stream);
// Whether the stream is between the two: what it is given is recorded. Cost while no stream is: one load.
NPU_API bool is_updating(c10::Stream stream) noexcept;
// Which group; null: none.
std::shared_ptr<TaskGroup> updated_group(c10::Stream stream);
// Whether any thread updates.
NPU_API bool any_updating() noexcept;

}  // namespace npu
