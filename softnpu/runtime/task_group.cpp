#include "softnpu/runtime/task_group.h"

#include <algorithm>
#include <utility>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/graph.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {

size_t TaskGroup::add(const Work& work) {
  std::lock_guard lock(mutex_);
  names_.emplace_back(work.name());
  costs_.push_back(work.cost());
  return names_.size() - 1;
}

void TaskGroup::set_ready() noexcept {
  std::lock_guard lock(mutex_);
  ready_ = true;
}

bool TaskGroup::ready() const noexcept {
  std::lock_guard lock(mutex_);
  return ready_;
}

std::shared_ptr<TaskList> TaskGroup::now() const noexcept {
  std::lock_guard lock(mutex_);
  return now_;
}

Cost TaskGroup::cost(size_t at) const noexcept {
  std::lock_guard lock(mutex_);
  return costs_[at];
}

// Blocking tasks and host callbacks belong to threads of their own: one of them never takes the place of a kernel.
void TaskGroup::require_alike(TaskList& tasks) const {
  std::lock_guard lock(mutex_);  // another update may raise costs
  const size_t count = tasks.tasks.size();
  if (count != names_.size())
    fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED,
         "the update has %zu tasks and the group %zu: issue the calls that were captured, with tensors of the same "
         "layout, and all of them on the stream that is updated; a call that was refused is missing",
         count, names_.size());
  for (size_t i = 0; i < count; ++i) {
    const Work& work = tasks.tasks[i];
    const bool same = names_[i] == work.name();
    if (same && (work.cost() <= Cost::kWide) == (costs_[i] <= Cost::kWide)) continue;
    fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED,
         "task %zu of the update is %s and of the group %s: issue the same operators in the same order", i, work.name(),
         names_[i].c_str());
  }
}

void TaskGroup::raise_costs(TaskList& tasks) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < costs_.size(); ++i) costs_[i] = std::max(costs_[i], tasks.tasks[i].cost());
}

// On the stream: what was replaced is dropped there, or with the last replay that has taken it.
struct TaskGroup::Change {
  std::shared_ptr<TaskGroup> group;
  std::shared_ptr<TaskList> tasks;

  static int run(void* state) noexcept {
    auto& self = *static_cast<Change*>(state);
    std::shared_ptr<TaskList> former = self.tasks;  // dropped without the lock
    std::lock_guard lock(self.group->mutex_);
    self.group->now_.swap(former);
    return 0;
  }
  static void drop(void* state) noexcept { delete static_cast<Change*>(state); }
};

void TaskGroup::update(const std::shared_ptr<TaskGroup>& group, std::shared_ptr<TaskList> tasks, Stream& stream) {
  group->require_alike(*tasks);
  group->raise_costs(*tasks);
  stream.submit(Work(
      {Change::run, Change::drop, new Change{group, std::move(tasks)}, "aclmdlRICaptureTaskUpdateEnd", Cost::kTiny}));
}

void* new_group_handle(std::shared_ptr<TaskGroup> group) {
  TaskGroupHandle* h = slab<TaskGroupHandle>().take();
  std::lock_guard lock(h->mutex);
  h->group = std::move(group);
  return slab<TaskGroupHandle>().publish(h);
}

std::shared_ptr<TaskGroup> group_of(void* handle) {
  TaskGroupHandle& h = slab<TaskGroupHandle>().get(handle);
  std::lock_guard lock(h.mutex);
  if (slab<TaskGroupHandle>().find(handle) != &h)
    fail(ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live task group", handle);
  return h.group;
}

void drop_group_handle(void* handle) noexcept {
  try {
    TaskGroupHandle& h = slab<TaskGroupHandle>().remove(handle);
    {
      std::lock_guard lock(h.mutex);
      h.group.reset();
    }
    slab<TaskGroupHandle>().recycle(&h);
  } catch (const Error&) {  // its graph has been destroyed before
  }
}

}  // namespace softnpu
