// See group.h: making the group, launching on streams, coalescing.
#include "csrc/distributed/group.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "csrc/cann/api.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/process_device.h"
#include "csrc/distributed/joiner.h"
#include "csrc/distributed/settings.h"

namespace npu::distributed {

namespace {

recorder::Group recorded_as(const GroupOptions& options, int size) {
  static std::atomic<size_t> groups{0};
  std::vector<uint64_t> ranks = options.global_ranks_in_group;  // PyTorch leaves it empty for the whole world
  if (ranks.empty())
    for (int r = 0; r < size; ++r) ranks.push_back(static_cast<uint64_t>(r));
  return {groups++, options.group_name, options.group_desc.empty() ? "undefined" : options.group_desc,
          std::move(ranks)};
}

}  // namespace

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                   c10::intrusive_ptr<Options> options)
    : ProcessGroupHCCL(std::move(store), rank, size, std::move(options), nullptr, {}, 0) {}

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                   c10::intrusive_ptr<Options> options, std::shared_ptr<Communicator> parent,
                                   std::vector<uint32_t> ranks, uint64_t split_id)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      watched_(std::make_shared<Watched>(recorded_as(*options_, size), rank)),
      parent_(std::move(parent)),
      ranks_in_parent_(std::move(ranks)),
      split_id_(split_id) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "ProcessGroupHCCL: rank ", rank, " does not exist among ", size,
                    " ranks");
  TORCH_CHECK(device_count() > 0, "ProcessGroupHCCL needs an npu device, and there is none");
  settings();  // what the environment says wrongly is named here, not at a call later
  init();
  watch(watched_);
}

ProcessGroupHCCL::~ProcessGroupHCCL() { watched_->close(); }

void ProcessGroupHCCL::check_device(const at::Tensor& tensor, const char* what) const {
  TORCH_CHECK(tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1, "ProcessGroupHCCL: ", what,
              " must be dense tensors on an npu, not on ", tensor.defined() ? tensor.device().str() : "nothing");
  TORCH_CHECK(tensor.layout() == at::kStrided, "ProcessGroupHCCL: ", what, " must be dense tensors");
}

void ProcessGroupHCCL::check_one(const Tensors& tensors, const char* what) const {
  TORCH_CHECK_VALUE(tensors.size() == 1, "ProcessGroupHCCL: one tensor a rank is expected for ", what, ", not ",
                    tensors.size());
  check_device(tensors[0], what);
}

void ProcessGroupHCCL::check_root(int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "ProcessGroupHCCL: rank ", root, " does not exist among ", size_,
                    " ranks");
}

namespace {

std::string root_info_key(size_t number, uint64_t generation) {
  return "hccl_root_info/" + std::to_string(number) + (generation ? "/" + std::to_string(generation) : "");
}

}  // namespace

std::shared_ptr<Communicator> ProcessGroupHCCL::make_communicator(c10::DeviceIndex device, c10d::Store& store,
                                                                  const std::function<void()>& usable) {
  const NPUGuard guard(device);
  ensure_context();
  size_t number;
  uint64_t generation;
  std::string name;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Ranks use one device each, in the same order of first use: the number of the communicator is the same everywhere.
    number = devices_.size();
    generation = generation_;
    const std::string& uid = getGroupUid().empty() ? options_->group_name : getGroupUid();
    if (!uid.empty()) name = (uid.substr(0, 100) + "/") + std::to_string(number);
  }
  if (parent_ && !number && !generation)
    return std::make_shared<Communicator>(*parent_, ranks_in_parent_, split_id_, rank_, name, *options_);
  return std::make_shared<Communicator>(store, root_info_key(number, generation), rank_, size_, name, *options_,
                                        usable);
}

void ProcessGroupHCCL::check_usable() const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!closed_, "ProcessGroupHCCL: the group was destroyed");
  }
  const auto error = watched_->error();
  if (!error.empty()) C10_THROW_ERROR(DistBackendError, "ProcessGroupHCCL: the group failed before: " + error);
}

std::shared_ptr<ProcessGroupHCCL::OnDevice> ProcessGroupHCCL::on(c10::Device device, bool message) {
  const auto usable = [&]() -> std::shared_ptr<OnDevice> {
    check_usable();
    std::lock_guard<std::mutex> lock(mutex_);
    last_device_ = device.index();
    const auto found = devices_.find(device.index());
    if (found == devices_.end()) return nullptr;
    joined_on_.reset();
    return found->second;
  };
  if (auto found = usable()) return found;
  std::lock_guard<std::mutex> making(making_);
  if (auto found = usable()) return found;
  std::string to_ask;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!joined_on_, "ProcessGroupHCCL: a call on ", device,
                ", but this rank joined the group on npu:", joined_on_ ? static_cast<int>(*joined_on_) : -1,
                " when another rank's message needed it: call torch.npu.set_device before init_process_group, or pass "
                "device_id to it");
    if (message && size_ > 2 && devices_.empty()) to_ask = root_info_key(0, generation_);
  }
  if (!to_ask.empty()) ask_to_join(store_, to_ask);
  return connect(device.index(), *store_, [this] { check_usable(); });
}

std::shared_ptr<ProcessGroupHCCL::OnDevice> ProcessGroupHCCL::connect(c10::DeviceIndex device, c10d::Store& store,
                                                                      const std::function<void()>& usable) {
  auto made = std::make_shared<OnDevice>(device, options_->is_high_priority_stream || settings().high_priority,
                                         make_communicator(device, store, usable));
  usable();  // it took a while: the group may have ended
  watched_->add(made->communicator);
  std::lock_guard<std::mutex> lock(mutex_);
  return devices_.emplace(device, std::move(made)).first->second;
}

bool ProcessGroupHCCL::lacks_communicator(uint64_t generation) const {
  if (!watched_->error().empty()) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  return !closed_ && devices_.empty() && generation_ == generation;
}

c10::DeviceIndex ProcessGroupHCCL::device_to_join_on() const {
  return getBoundDeviceId() ? getBoundDeviceId()->index() : process_device();
}

void ProcessGroupHCCL::join() {
  const c10::DeviceIndex device = device_to_join_on();
  std::lock_guard<std::mutex> making(making_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_ || !devices_.empty() || device < 0) return;
  }
  const auto store = store_->clone();  // in the group's own connection the program may be waiting
  connect(device, *store, [this] {
    joining_is_over();
    check_usable();
  });
  std::lock_guard<std::mutex> lock(mutex_);
  joined_on_ = device;
}

void ProcessGroupHCCL::let_others_ask() {
  if (size_ <= 2) return;
  uint64_t generation;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    generation = generation_;
  }
  const c10::weak_intrusive_ptr<ProcessGroupHCCL> weak(
      c10::intrusive_ptr<ProcessGroupHCCL>::unsafe_reclaim_from_nonowning(this));
  join_when_asked({c10::weak_intrusive_ptr<c10d::Store>(store_), root_info_key(0, generation),
                   [weak, generation] {
                     const auto group = weak.lock();
                     return group && group->lacks_communicator(generation);
                   },
                   [weak] {
                     const auto group = weak.lock();
                     return group && group->device_to_join_on() >= 0;
                   },
                   [weak] {
                     if (const auto group = weak.lock()) group->join();
                   }});
}

c10::DeviceIndex ProcessGroupHCCL::own_device() const {
  if (getBoundDeviceId()) return getBoundDeviceId()->index();
  std::lock_guard<std::mutex> lock(mutex_);
  return last_device_ ? *last_device_ : current_device();
}

namespace {

// A call may fail on its stream while what belongs behind it is still being queued: then the stream refuses that, in the runtime's
// words and type. Who called is told the call's own error.
template <class Body>
auto as_backend_error(const std::shared_ptr<Communicator>& communicator, Body&& body) {
  try {
    return body();
  } catch (const c10::DistBackendError&) {
    throw;
  } catch (const c10::Error&) {
    if (const auto error = communicator ? communicator->async_error() : std::nullopt)
      C10_THROW_ERROR(DistBackendError, "ProcessGroupHCCL: " + *error);
    throw;
  }
}

}  // namespace

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch(Launch what, const Body& body) {
  const c10::Device device = what.tensors.at(0).device();
  for (const at::Tensor& t : what.tensors)
    TORCH_CHECK(t.device() == device, "ProcessGroupHCCL: tensors of one call are on ", device, " and ", t.device());
  const std::shared_ptr<OnDevice> place = on(device, what.lane.kind != Lane::kCollective);
  return as_backend_error(place->communicator, [&] { return launch_on(*place, std::move(what), body); });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch_on(OnDevice& place, Launch what, const Body& body) {
  const c10::Device device = what.tensors.at(0).device();
  const NPUGuard guard(device.index());
  const c10::Stream here = current_stream(device.index());
  const bool together = coalescing_.mine();
  const c10::Stream stream = what.async || together ? place.lanes.at(what.lane) : here;
  if (stream != here) {
    PooledEvent ready(device.index());
    record_event(ready.get(), here);
    wait_event(ready.get(), stream);
    // Freed by the caller, the memory stays until the stream is past its use.
    for (const at::Tensor& t : what.tensors)
      if (t.numel()) device_allocator()->recordStream(t.storage().data_ptr(), stream);
  }
  const c10::StreamGuard on_stream(stream);
  Steps steps = body(place.communicator->handle(), raw_stream(stream));
  if (together) {
    coalescing_.add(stream, std::move(steps), what.tensors, what.outputs);
    return nullptr;
  }
  steps.issue();
  if (steps.after) steps.after();
  const bool message = what.lane.kind != Lane::kCollective;
  return finish(WorkInfo{rank_,
                         what.type,
                         what.title,
                         0,
                         {stream},
                         std::move(what.outputs),
                         what.timeout == c10d::kUnsetTimeout ? options_->timeout : what.timeout,
                         what.host_waits,
                         place.communicator},
                what.tensors, message);
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::finish(WorkInfo info, const Tensors& inputs, bool message) {
  info.sequence = ++sequence_;
  // What is captured does not run now: nobody may ask its event, and a replay is the graph's.
  const bool captured = std::any_of(info.streams.begin(), info.streams.end(), is_capturing);
  auto work = c10::make_intrusive<WorkHCCL>(std::move(info));
  if (!captured) watched_->add(work, inputs, message);
  return work;
}

void ProcessGroupHCCL::startCoalescing() { coalescing_.begin(); }

void ProcessGroupHCCL::abandon_coalescing() { coalescing_.drop(); }

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::endCoalescing() {
  if (!coalescing_.end()) return nullptr;
  const auto communicator_on = [&](c10::DeviceIndex device) -> std::shared_ptr<Communicator> {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = devices_.find(device);
    return found == devices_.end() ? nullptr : found->second->communicator;
  };
  return as_backend_error(communicator_on(own_device()), [&]() -> WorkPtr {
    Coalescing::Done done = coalescing_.run();
    if (done.streams.empty()) return nullptr;
    const c10::DeviceIndex device = done.streams[0].device_index();
    const NPUGuard guard(device);
    return finish(WorkInfo{rank_, c10d::OpType::COALESCED, "hccl:coalesced", 0, std::move(done.streams),
                           std::move(done.outputs), options_->timeout, false, communicator_on(device)},
                  done.tensors, false);
  });
}

}  // namespace npu::distributed
