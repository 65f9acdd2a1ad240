// A task group: tasks of a captured graph that may be replaced between its replays, and while one is in flight. A replay comes to a
// group's first task and takes the tasks that are the group's then, all of them; so an update counts from where its stream and the
// replay's are ordered, as any other work. What it is not: it records nothing (capture.h). Who calls it: capture.cpp, graph.cpp,
// api_graph.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Stream;
struct TaskList;

class TaskGroup {
 public:
  explicit TaskGroup(int device) : device_(device) {}

  int device() const noexcept { return device_; }

  // While it is captured: one task more. Returns its number in the group.
  size_t add(const Work& work);
  // The capture has ended well: from here on it may be updated.
  void set_ready() noexcept;
  bool ready() const noexcept;

  // What its tasks are now; null: as they were captured.
  std::shared_ptr<TaskList> now() const noexcept;
  // How its task is to be queued: as the heaviest that it has been, since it may be replaced while it is in a queue.
  Cost cost(size_t at) const noexcept;

  // Puts the change to `tasks` on the stream, where it happens. Throws unless they are the same operators in the same order.
  static void update(const std::shared_ptr<TaskGroup>& group, std::shared_ptr<TaskList> tasks, Stream& stream);

 private:
  void require_alike(TaskList& tasks) const;
  void raise_costs(TaskList& tasks);
  struct Change;

  const int device_;
  mutable std::mutex mutex_;
  bool ready_ = false;
  std::vector<std::string> names_;
  std::vector<Cost> costs_;
  std::shared_ptr<TaskList> now_;
};

// What a handle names.
struct TaskGroupHandle {
  static constexpr uint8_t kMagic = 0x57;
  static constexpr uint32_t kMaxCount = 1 << 20;
  static constexpr const char* kNoun = "task group";

  std::mutex mutex;
  std::shared_ptr<TaskGroup> group;
};

void* new_group_handle(std::shared_ptr<TaskGroup> group);
// Throws for a handle whose graph is gone.
std::shared_ptr<TaskGroup> group_of(void* handle);
// Does nothing for a handle that is stale.
void drop_group_handle(void* handle) noexcept;

}  // namespace softnpu
