// See process_device.h.
#include "csrc/core/process_device.h"

#include <mutex>
#include <thread>

namespace npu {
namespace {

struct Choice {
  static constexpr int kNone = -1, kSeveral = -2;
  std::mutex mutex;
  int device = kNone;
  std::thread::id by;
};

Choice& choice() {
  static auto* const the = new Choice;  // leaked: threads ask until the process ends
  return *the;
}

}  // namespace

void choose_device(c10::DeviceIndex index) {
  check_device(index);
  set_device(index);
  Choice& made = choice();
  const std::lock_guard<std::mutex> lock(made.mutex);
  if (made.device == Choice::kSeveral || made.device == index) return;
  const bool another = made.device != Choice::kNone && made.by != std::this_thread::get_id();
  made.device = another ? Choice::kSeveral : static_cast<int>(index);
  made.by = std::this_thread::get_id();
}

c10::DeviceIndex process_device() noexcept {
  Choice& made = choice();
  {
    const std::lock_guard<std::mutex> lock(made.mutex);
    if (made.device == Choice::kSeveral) return -1;
    if (made.device >= 0) return static_cast<c10::DeviceIndex>(made.device);
  }
  int used = -1, count = 0;
  for (int i = 0; i < kMaxDevices; ++i)
    if (has_context(static_cast<c10::DeviceIndex>(i))) used = i, ++count;
  if (!count && device_count() == 1) return 0;
  return static_cast<c10::DeviceIndex>(count == 1 ? used : -1);
}

}  // namespace npu
