#include "softnpu/ascendc/runtime/stops.h"

#include <atomic>
#include <chrono>

#include "acl/types.h"

// CANN has it in no header that is here.
extern "C" aclError aclrtSetDeviceTaskAbortCallback(
    const char* name, int32_t (*callback)(int32_t device, int32_t stage, uint32_t timeout, void* args), void* args);

namespace softnpu::ascendc {
namespace {

using Time = std::chrono::steady_clock;

constexpr int kMostDevices = 64;
// A run that begins while its device's tasks are being aborted was to be dropped, too. Who aborts may fail before it says that it has
// finished; then this is how long such runs are stopped.
constexpr auto kUnderWay = std::chrono::seconds(1);

struct Device {
  std::atomic<uint64_t> count{0};
  std::atomic<Time::rep> until{0};  // being aborted, since a moment ago
};
constinit Device g_devices[kMostDevices];

bool known(int device) noexcept { return device >= 0 && device < kMostDevices; }

int32_t told(int32_t device, int32_t stage, uint32_t, void*) noexcept {
  if (!known(device)) return 0;
  Device& d = g_devices[device];
  d.until = stage == 0 ? (Time::now() + kUnderWay).time_since_epoch().count() : 0;
  if (stage == 0) ++d.count;
  return 0;
}

}  // namespace

uint32_t Stops::listen() noexcept {
  static const auto status = static_cast<uint32_t>(aclrtSetDeviceTaskAbortCallback("softnpu_ascendc", told, nullptr));
  return status;
}

Stops::Seen Stops::seen(int device) noexcept { return {device, known(device) ? g_devices[device].count.load() : 0}; }

bool Stops::since(Seen seen) noexcept {
  if (!known(seen.device)) return false;
  const Device& d = g_devices[seen.device];
  return d.count != seen.count || Time::now().time_since_epoch().count() < d.until;
}

}  // namespace softnpu::ascendc
