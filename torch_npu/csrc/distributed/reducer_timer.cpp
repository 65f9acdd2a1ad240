// How DistributedDataParallel measures its phases on npu: an event a phase on the current stream. PyTorch finds it by the device
// type when a model of that device is wrapped. What it is not: used by anything but DDP's logging data.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>
#include <memory>

#include "csrc/core/event.h"
#include "csrc/core/stream.h"

namespace npu::distributed {
namespace {

class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device device) : device_(device.index()) {}
  ~ReducerTimer() override {
    for (aclrtEvent event : events_) {
      if (event) destroy_event(event, device_);
    }
  }

  void record(Event event) override {
    Timer::record(event);
    aclrtEvent& mine = events_.at(static_cast<size_t>(event));
    if (!mine) mine = create_event(device_, /*timing=*/true);
    record_event(mine, current_stream(device_));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const aclrtEvent a = events_.at(static_cast<size_t>(start)), b = events_.at(static_cast<size_t>(end));
    if (!a || !b) return std::nullopt;
    synchronize_event(a);
    synchronize_event(b);
    const double ms = elapsed_ms(a, b);
    // A phase that the first iteration did not have leaves events in the wrong order.
    return ms < 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(ms * 1e6));
  }

 private:
  c10::DeviceIndex device_;
  std::array<aclrtEvent, 5> events_{};
};

}  // namespace
}  // namespace npu::distributed

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, npu::distributed::ReducerTimer);
}  // namespace c10d
