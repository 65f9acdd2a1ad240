// See coalescing.h.
#include "csrc/distributed/coalescing.h"

#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "csrc/cann/api.h"
#include "csrc/core/device.h"
#include "csrc/core/event.h"
#include "csrc/core/stream.h"
#include "csrc/distributed/check.h"

namespace npu::distributed {
namespace {

// HcclGroupStart with its end, which is also owed when a call in between was refused.
class HcclGroup {
 public:
  HcclGroup() : end_(HCCL_OPTIONAL(HcclGroupEnd)) { HCCL_CHECK(HCCL_OPTIONAL(HcclGroupStart)()); }
  ~HcclGroup() {
    if (open_) end_();
  }
  HcclGroup(const HcclGroup&) = delete;
  void end() {
    open_ = false;
    const HcclResult result = end_();
    if (result != HCCL_SUCCESS) throw_hccl(result, "HcclGroupEnd");
  }

 private:
  decltype(&::HcclGroupEnd) end_;
  bool open_ = true;
};

}  // namespace

void Coalescing::begin() {
  std::thread::id nobody;
  TORCH_CHECK(mine() || owner_.compare_exchange_strong(nobody, std::this_thread::get_id()),
              "ProcessGroupHCCL: another thread is coalescing calls of this group");
  ++depth_;
}

void Coalescing::add(Call call) {
  const c10::Device device = call.stream.device();
  TORCH_CHECK(calls_.empty() || calls_[0].stream.device() == device,
              "ProcessGroupHCCL: calls that are coalesced are on ", calls_.empty() ? device : calls_[0].stream.device(),
              " and ", device, ": a block for each device");
  calls_.push_back(std::move(call));
}

std::optional<Coalescing::Calls> Coalescing::end() {
  TORCH_CHECK(mine(), "ProcessGroupHCCL: endCoalescing without startCoalescing before it");
  if (--depth_) return {};
  Calls calls = std::exchange(calls_, {});  // before another thread may begin
  owner_.store({});
  return calls;
}

void Coalescing::drop() {
  if (!mine()) return;
  calls_.clear();
  depth_ = 0;
  owner_.store({});
}

void Coalescing::drop_inner(size_t calls_before) {
  if (!mine()) return;
  calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(std::min(calls_before, calls_.size())), calls_.end());
  if (--depth_ == 0) owner_.store({});
}

Communicators communicators_of(const Coalescing::Calls& calls) {
  Communicators all;
  for (const Coalescing::Call& call : calls)
    if (std::find(all.begin(), all.end(), call.communicator) == all.end()) all.push_back(call.communicator);
  return all;
}

Queued queue(const Coalescing::Calls& calls) {
  Queued done;
  for (const Coalescing::Call& call : calls) {
    if (std::find(done.streams.begin(), done.streams.end(), call.stream) == done.streams.end())
      done.streams.push_back(call.stream);
    done.tensors.insert(done.tensors.end(), call.tensors.begin(), call.tensors.end());
    done.outputs.insert(done.outputs.end(), call.outputs.begin(), call.outputs.end());
    done.messages &= call.message;
  }
  const c10::DeviceIndex device = done.streams[0].device_index();
  const NPUGuard guard(device);
  // What the program queued since the calls were made comes before them, too: they begin here.
  const c10::Stream here = current_stream(device);
  PooledEvent ready(device);
  record_event(ready.get(), here);
  for (const c10::Stream& stream : done.streams)
    if (stream != here) wait_event(ready.get(), stream);
  {
    HcclGroup group;
    for (const Coalescing::Call& call : calls) {
      const c10::StreamGuard on_stream(call.stream);
      call.steps.issue();
    }
    group.end();
  }
  for (const Coalescing::Call& call : calls) {
    const c10::StreamGuard on_stream(call.stream);
    if (call.steps.after) call.steps.after();
  }
  return done;
}

}  // namespace npu::distributed
