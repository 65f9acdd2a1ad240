#include "csrc/core/task_group.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <map>
#include <utility>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/cann/library.h"
#include "csrc/core/graph.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace npu {
namespace {

// CANN's functions, which older ones have not.
struct Functions {
  decltype(&::aclmdlRICaptureTaskGrpBegin) begin_group = nullptr;
  decltype(&::aclmdlRICaptureTaskGrpEnd) end_group = nullptr;
  decltype(&::aclmdlRICaptureTaskUpdateBegin) begin_update = nullptr;
  decltype(&::aclmdlRICaptureTaskUpdateEnd) end_update = nullptr;
};

const Functions& functions() {
  static const Functions found = [] {
    Functions f;
    const auto find = [](auto& function, const char* name) {
      function =
          reinterpret_cast<std::decay_t<decltype(function)>>(cann::find_symbol(cann::open_library("ascendcl"), name));
    };
    find(f.begin_group, "aclmdlRICaptureTaskGrpBegin");
    find(f.end_group, "aclmdlRICaptureTaskGrpEnd");
    find(f.begin_update, "aclmdlRICaptureTaskUpdateBegin");
    find(f.end_update, "aclmdlRICaptureTaskUpdateEnd");
    return f;
  }();
  TORCH_CHECK_NOT_IMPLEMENTED(found.begin_group && found.end_group && found.begin_update && found.end_update,
                              "npu: this CANN cannot update tasks of graphs (aclmdlRICaptureTaskUpdateBegin and its ",
                              "like are missing): install a newer one");
  return found;
}

struct Update {
  std::shared_ptr<TaskGroup> group;
  c10::MempoolId_t pool;
};
using StreamOf = std::pair<c10::DeviceIndex, c10::StreamId>;

StreamOf key_of(c10::Stream stream) { return {stream.device_index(), stream.id()}; }

struct Updates {
  void put(c10::Stream stream, const Update& update) {
    const std::lock_guard<std::mutex> guard(lock);
    under_way[key_of(stream)] = update;
    count.store(under_way.size(), std::memory_order_release);
  }
  std::optional<Update> remove(c10::Stream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    auto node = under_way.extract(key_of(stream));
    count.store(under_way.size(), std::memory_order_release);
    return node ? std::optional<Update>(std::move(node.mapped())) : std::nullopt;
  }

  std::mutex lock;
  std::map<StreamOf, Update> under_way;
  std::atomic<size_t> count{0};
};

Updates& updates() {
  static auto* const all = new Updates();
  return *all;
}

void leave_pool(const Update& update) {
  memory::end_allocate_to(update.group->device(), update.pool);
  memory::drop_pool(update.group->device(), update.pool);
}

}  // namespace

aclrtTaskGrp TaskGroup::raw() const {
  const std::lock_guard<std::mutex> lock(lock_);
  return raw_;
}

c10::MempoolId_t TaskGroup::hold_pool() {
  const std::lock_guard<std::mutex> lock(lock_);
  TORCH_CHECK(raw_, "npu: the graph of this task group was reset, or is gone: use the handle of its next capture");
  if (!pool_) {
    pool_ = memory::new_pool_id(true);
    memory::hold_pool(device_, *pool_);
  }
  memory::hold_pool(device_, *pool_);
  return *pool_;
}

void TaskGroup::close(const std::vector<c10::Stream>& replayed_on) noexcept {
  std::optional<c10::MempoolId_t> pool;
  {
    const std::lock_guard<std::mutex> lock(lock_);
    raw_ = nullptr;
    pool.swap(pool_);
  }
  try {
    pinned_->end(replayed_on);
    if (pool && alive()) memory::drop_pool(device_, *pool);
  } catch (const std::exception& error) {
    TORCH_WARN("npu: the memory of a task group could not be released: ", error.what());
  }
}

void begin_task_group(c10::Stream stream) {
  TORCH_CHECK(capturing_graph(stream), "npu: graph_task_group_begin: the stream is not captured by torch.npu.graph: ",
              "call it inside of `with torch.npu.graph(...)`, with torch.npu.current_stream()");
  const NPUGuard guard(stream.device_index());
  NPU_CHECK(functions().begin_group(raw_stream(stream)));
}

std::shared_ptr<TaskGroup> end_task_group(c10::Stream stream) {
  Graph* const graph = capturing_graph(stream);
  TORCH_CHECK(graph, "npu: graph_task_group_end: the stream is not captured by torch.npu.graph: call it in the ",
              "capture that graph_task_group_begin was called in");
  const NPUGuard guard(stream.device_index());
  aclrtTaskGrp raw = nullptr;
  NPU_CHECK(functions().end_group(raw_stream(stream), &raw));
  auto group = std::make_shared<TaskGroup>(raw, stream.device_index());
  graph->keep_group(group);
  return group;
}

void begin_update(c10::Stream stream, const std::shared_ptr<TaskGroup>& group) {
  const Functions& cann = functions();
  TORCH_CHECK(stream.device_index() == group->device(),
              "npu: graph_task_update_begin: the graph is on npu:", static_cast<int>(group->device()),
              ", the stream on npu:", static_cast<int>(stream.device_index()));
  const NPUGuard guard(stream.device_index());
  TORCH_CHECK(!is_updating(stream), "npu: graph_task_update_begin: the stream updates a task group already: call ",
              "graph_task_update_end first");
  const Update update{group, group->hold_pool()};
  try {
    // Before it begins: of what is freed from then on no event may fall into it.
    memory::begin_allocate_to(group->device(), update.pool, true,
                              [id = stream.id()](c10::StreamId other) { return other == id; });
  } catch (...) {
    memory::drop_pool(group->device(), update.pool);
    throw;
  }
  updates().put(stream,
                update);  // before it begins: no other thread may take the stream for one that runs what it is given
  const int status = cann.begin_update(raw_stream(stream), group->raw());
  if (status != 0) {
    updates().remove(stream);
    leave_pool(update);
    cann::throw_status(status, "aclmdlRICaptureTaskUpdateBegin");
  }
}

void end_update(c10::Stream stream) {
  const NPUGuard guard(stream.device_index());
  TORCH_CHECK(is_updating(stream), "npu: graph_task_update_end: the stream updates no task group: call ",
              "graph_task_update_begin first");
  const int status = functions().end_update(raw_stream(stream));
  if (const auto update = updates().remove(stream)) leave_pool(*update);
  if (status != 0) cann::throw_status(status, "aclmdlRICaptureTaskUpdateEnd");
}

bool any_updating() noexcept { return updates().count.load(std::memory_order_acquire) != 0; }

std::shared_ptr<TaskGroup> updated_group(c10::Stream stream) {
  if (C10_LIKELY(!any_updating())) return nullptr;
  Updates& all = updates();
  const std::lock_guard<std::mutex> lock(all.lock);
  const auto found = all.under_way.find(key_of(stream));
  return found == all.under_way.end() ? nullptr : found->second.group;
}

bool is_updating(c10::Stream stream) noexcept { return updated_group(stream) != nullptr; }

}  // namespace npu
