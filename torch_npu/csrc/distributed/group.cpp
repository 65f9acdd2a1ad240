// See group.h: making the group, launching on streams, coalescing, ending.
#include "csrc/distributed/group.h"

#include <c10/core/StreamGuard.h>

#include "csrc/cann/api.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/distributed/check.h"

namespace npu::distributed {

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                   c10::intrusive_ptr<Options> options)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      watched_(std::make_shared<Watched>()) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "ProcessGroupHCCL: rank ", rank, " does not exist among ", size,
                    " ranks");
  TORCH_CHECK(device_count() > 0, "ProcessGroupHCCL needs an npu device, and there is none");
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

ProcessGroupHCCL::OnDevice& ProcessGroupHCCL::on(c10::Device device) {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!closed_, "ProcessGroupHCCL: the group was destroyed");
  const auto error = watched_->error();
  if (!error.empty()) C10_THROW_ERROR(DistBackendError, "ProcessGroupHCCL: the group failed before: " + error);
  last_device_ = device.index();
  const auto found = devices_.find(device.index());
  if (found != devices_.end()) return found->second;
  const NPUGuard guard(device.index());
  ensure_context();
  OnDevice made;
  // Ranks use one device each, in the same order of first use: the number of the communicator is the same everywhere.
  const std::string key = "hccl_root_info/" + std::to_string(devices_.size());
  std::string name = getGroupUid().empty() ? "" : getGroupUid() + "/" + std::to_string(devices_.size());
  if (name.size() > 100) name.resize(100);
  made.communicator = std::make_shared<Communicator>(*store_, key, rank_, size_, name, options_->timeout);
  for (int lane = 0; lane < kLanes; ++lane)
    made.streams.push_back(stream_from_pool(device.index(), options_->is_high_priority_stream ? -1 : 0));
  watched_->add(made.communicator);
  return devices_.emplace(device.index(), std::move(made)).first->second;
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch(Launch what, const Body& body) {
  const c10::Device device = what.tensors.at(0).device();
  for (const at::Tensor& t : what.tensors)
    TORCH_CHECK(t.device() == device, "ProcessGroupHCCL: tensors of one call are on ", device, " and ", t.device());
  OnDevice& place = on(device);
  const NPUGuard guard(device.index());
  const c10::Stream here = current_stream(device.index());
  const Lane lane = coalescing_ ? kCollective : what.lane;
  const c10::Stream stream = what.async || coalescing_ ? place.streams[lane] : here;
  if (stream != here) {
    PooledEvent ready(device.index());
    record_event(ready.get(), here);
    wait_event(ready.get(), stream);
    // Freed by the caller, the memory stays until the stream is past its use.
    for (const at::Tensor& t : what.tensors)
      if (t.numel()) device_allocator()->recordStream(t.storage().data_ptr(), stream);
  }
  const c10::StreamGuard on_stream(stream);
  if (coalescing_ && !coalesced_on_) {
    HCCL_CHECK(HCCL_OPTIONAL(HcclGroupStart)());
    coalesced_on_ = stream;
  }
  After after = body(place.communicator->handle(), raw_stream(stream));
  if (coalescing_) {
    if (after) coalesced_after_.push_back(std::move(after));
    coalesced_outputs_.insert(coalesced_outputs_.end(), what.outputs.begin(), what.outputs.end());
    return nullptr;
  }
  if (after) after();
  auto work = c10::make_intrusive<WorkHCCL>(
      WorkInfo{rank_, what.type, what.title, ++sequence_, stream, std::move(what.outputs),
               what.timeout == c10d::kUnsetTimeout ? options_->timeout : what.timeout, what.host_waits});
  watched_->add(work);
  return work;
}

void ProcessGroupHCCL::startCoalescing() {
  TORCH_CHECK(!coalescing_, "ProcessGroupHCCL: coalescing was started already");
  coalescing_ = true;
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::endCoalescing() {
  coalescing_ = false;
  if (!coalesced_on_) return nullptr;
  const c10::Stream stream = *coalesced_on_;
  coalesced_on_.reset();
  const auto after = std::move(coalesced_after_);
  auto outputs = std::move(coalesced_outputs_);
  coalesced_after_.clear();
  coalesced_outputs_.clear();
  const NPUGuard guard(stream.device_index());
  const c10::StreamGuard on_stream(stream);
  HCCL_CHECK(HCCL_OPTIONAL(HcclGroupEnd)());
  for (const After& step : after) step();
  auto work = c10::make_intrusive<WorkHCCL>(WorkInfo{rank_, c10d::OpType::COALESCED, "hccl:coalesced", ++sequence_,
                                                     stream, std::move(outputs), options_->timeout, false});
  watched_->add(work);
  return work;
}

void ProcessGroupHCCL::eagerConnectSingleDevice(at::Device device) { on(device); }

c10d::ErrorType ProcessGroupHCCL::getError() {
  return watched_->error().empty() ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroupHCCL::shutdown() {
  // What is queued must not find its communicator gone on a real device; here it would keep it alive.
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
  }
  if (watched_->error().empty()) watched_->wait_for_all();
  abort();
}

void ProcessGroupHCCL::abort() {
  watched_->close();
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  devices_.clear();
}

std::string ProcessGroupHCCL::hccl_comm_name(int device) {
  char name[COMM_NAME_MAX_LENGTH] = {};
  HCCL_CHECK(HCCL_OPTIONAL(HcclGetCommName)(
      on(c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device))).communicator->handle(),
      name));
  return name;
}

}  // namespace npu::distributed
