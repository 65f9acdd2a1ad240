// See group.h: making the group, launching on streams, coalescing.
#include "csrc/distributed/group.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "csrc/cann/api.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/recovery.h"
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

ProcessGroupHCCL::~ProcessGroupHCCL() { release_resources(); }

void ProcessGroupHCCL::release_resources() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  mailbox_.close();
  watched_->close();
}

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

// A call may fail on its stream while what belongs behind it is still being queued: then the stream refuses that, in the runtime's
// words and type. Who called is told the call's own error.
template <class Body>
auto as_backend_error(const Communicators& communicators, Body&& body) {
  try {
    return body();
  } catch (const c10::DistBackendError&) {
    throw;
  } catch (const c10::Error&) {
    for (const auto& c : communicators)
      if (const auto error = c->async_error()) C10_THROW_ERROR(DistBackendError, "ProcessGroupHCCL: " + *error);
    throw;
  }
}

bool same_as_any(const at::Tensor& tensor, const ProcessGroupHCCL::Tensors& others) {
  return std::any_of(others.begin(), others.end(), [&](const at::Tensor& o) { return o.is_same(tensor); });
}

// After a restart of the device a call reads no unsafe memory, as no operator does; what it writes as a whole is safe.
void heed_unsafe(c10d::OpType type, const ProcessGroupHCCL::Tensors& tensors,
                 const ProcessGroupHCCL::Tensors& outputs) {
  if (C10_LIKELY(!refuses_unsafe())) return;
  using c10d::OpType;
  const bool reads_outputs = type == OpType::ALLREDUCE || type == OpType::REDUCE || type == OpType::SEND;
  for (const at::Tensor& t : tensors) {
    if (reads_outputs || !same_as_any(t, outputs)) {
      refuse_unsafe(t);
    } else if (t.is_non_overlapping_and_dense() && t.nbytes() == t.storage().nbytes()) {
      set_safe(t.storage().data_ptr());
    } else {
      refuse_unsafe(t);
    }
  }
}

}  // namespace

c10::DeviceIndex ProcessGroupHCCL::Launch::device() const {
  const c10::Device device = tensors.at(0).device();
  for (const at::Tensor& t : tensors)
    TORCH_CHECK(t.device() == device, "ProcessGroupHCCL: tensors of one call are on ", device, " and ", t.device());
  return device.index();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch(Launch what, const Body& body) {
  heed_unsafe(what.type, what.tensors, what.outputs);
  const auto communicator = whole(what.device());
  return as_backend_error({communicator}, [&] { return launch_over(communicator, std::move(what), body); });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch_message(Launch what, const MessageBody& body) {
  heed_unsafe(what.type, what.tensors, what.outputs);
  const auto communicator = with(what.device(), what.lane.peer);
  const uint32_t peer = communicator->number_of(what.lane.peer);
  return as_backend_error({communicator}, [&] {
    return launch_over(communicator, std::move(what),
                       [&](HcclComm comm, aclrtStream stream) { return body(comm, peer, stream); });
  });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch_over(const std::shared_ptr<Communicator>& communicator, Launch what,
                                                        const Body& body) {
  const std::shared_ptr<OnDevice> place = on(what.device());
  const c10::Device device = what.tensors.at(0).device();
  const NPUGuard guard(device.index());
  const c10::Stream here = current_stream(device.index());
  const bool together = coalescing_.mine(), message = what.lane.kind != Lane::kCollective;
  const c10::Stream stream = what.async || together ? place->lanes.at(what.lane) : here;
  if (stream != here) {
    PooledEvent ready(device.index());
    record_event(ready.get(), here);
    wait_event(ready.get(), stream);
    // Freed by the caller, the memory stays until the stream is past its use.
    for (const at::Tensor& t : what.tensors)
      if (t.numel()) device_allocator()->recordStream(t.storage().data_ptr(), stream);
  }
  const c10::StreamGuard on_stream(stream);
  Steps steps = body(communicator->handle(), raw_stream(stream));
  if (together) {
    coalescing_.add({stream, std::move(steps), what.tensors, what.outputs, communicator, message});
    return nullptr;
  }
  steps.issue();
  if (steps.after) steps.after();
  return finish(WorkInfo{rank_,
                         what.type,
                         what.title,
                         0,
                         {stream},
                         std::move(what.outputs),
                         what.timeout == c10d::kUnsetTimeout ? options_->timeout : what.timeout,
                         what.host_waits,
                         {communicator}},
                what.tensors, message);
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::finish(WorkInfo info, const Tensors& inputs, bool message) {
  info.sequence = ++(message ? messages_ : sequence_);
  // What is captured does not run now: nobody may ask its event, and a replay is the graph's.
  const bool captured = std::any_of(info.streams.begin(), info.streams.end(), is_capturing);
  auto work = c10::make_intrusive<WorkHCCL>(std::move(info));
  if (!captured) watched_->add(work, inputs, message);
  return work;
}

void ProcessGroupHCCL::startCoalescing() { coalescing_.begin(); }

void ProcessGroupHCCL::abandon_coalescing() { coalescing_.drop(); }

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::endCoalescing() {
  const std::optional<Coalescing::Calls> calls = coalescing_.end();
  if (!calls || calls->empty()) return nullptr;
  const Communicators communicators = communicators_of(*calls);
  return as_backend_error(communicators, [&] {
    Queued done = queue(*calls);
    const NPUGuard guard(done.streams[0].device_index());
    return finish(WorkInfo{rank_, c10d::OpType::COALESCED, "hccl:coalesced", 0, std::move(done.streams),
                           std::move(done.outputs), options_->timeout, false, communicators},
                  done.tensors, done.messages);
  });
}

}  // namespace npu::distributed
