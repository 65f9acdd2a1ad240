// The events and ranges that PyTorch's older profilers ask of a device: torch.autograd.profiler.profile(use_device="npu") without kineto
// measures each operator by two events on its stream. What it is not: kineto.cpp; ranges by operator (emit.cpp).
#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <vector>

#include "csrc/cann/mspti.h"
#include "csrc/core/device.h"
#include "csrc/core/device_wait.h"
#include "csrc/core/event.h"
#include "csrc/core/stream.h"

namespace npu::profiler {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

thread_local std::vector<mstxRangeId> ranges;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const c10::DeviceIndex current = current_device();
    if (device) *device = current;
    const aclrtEvent made = create_event(current, true);
    *event = ProfilerVoidEventStub(made, [current](void* e) { destroy_event(static_cast<aclrtEvent>(e), current); });
    if (cpu_ns) *cpu_ns = c10::getTime();
    record_event(made, current_stream(current));
  }
  float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
    synchronize_event(static_cast<aclrtEvent>(from->get()));
    synchronize_event(static_cast<aclrtEvent>(to->get()));
    const double ms = elapsed_ms(static_cast<aclrtEvent>(from->get()), static_cast<aclrtEvent>(to->get()));
    return static_cast<float>(ms * 1000);  // microseconds
  }
  void mark(const char* name) const override {
    if (auto* mark = cann::mspti().mstxMarkA) mark(name, current_raw_stream());
  }
  void rangePush(const char* name) const override {
    auto* start = cann::mspti().mstxRangeStartA;
    ranges.push_back(start ? start(name, current_raw_stream()) : 0);
  }
  void rangePop() const override {
    if (ranges.empty()) return;
    if (auto* end = cann::mspti().mstxRangeEnd) end(ranges.back());
    ranges.pop_back();
  }
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> visit) const override {
    const c10::DeviceIndex before = current_device();
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
      set_device(i);
      visit(i);
    }
    set_device(before);
  }
  void synchronize() const override { wait_for_device(current_device()); }
};

const bool stubs_registered =
    (torch::profiler::impl::registerPrivateUse1Methods(new Stubs), true);  // leaked, as PyTorch asks

}  // namespace
}  // namespace npu::profiler
