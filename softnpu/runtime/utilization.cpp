#include "softnpu/runtime/utilization.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "softnpu/runtime/futex.h"

namespace softnpu {

int Utilization::percent(int device, const RegistryView& before, const RegistryView& after) noexcept {
  const uint64_t interval = uint64_t(std::max<int64_t>(after.at_ns - before.at_ns, 1));
  uint64_t worked = 0;
  const auto by_place = [](const RegistryRecord& a, const RegistryRecord& b) {
    return a.device != b.device ? a.device < b.device : a.pid < b.pid;
  };
  for (const RegistryRecord& r : after.records) {
    if (r.device != device) continue;
    uint64_t then = 0;
    const auto [first, last] = std::equal_range(before.records.begin(), before.records.end(), r, by_place);
    for (auto b = first; b != last; ++b)
      if (b->started_ns == r.started_ns) then = busy_ns(b->busy, before.at_ns);
    const uint64_t now = busy_ns(r.busy, after.at_ns);
    worked += std::min(now > then ? now - then : 0, interval);
  }
  return int(std::min<uint64_t>(100, (100 * std::min(worked, interval) + interval - 1) / interval));
}

int Utilization::percent(int device, int sample_ms) {
  constexpr int64_t kYoung = 20'000'000, kOld = 1'000'000'000;
  if (device < 0 || device >= kMaxDevices) return 0;
  std::lock_guard lock(mutex_);
  const int64_t age = last_.at_ns ? now_ns() - last_.at_ns : kOld;
  if (age < kYoung) return percent_[size_t(device)];
  if (age >= kOld) {
    last_ = read_registry();
    std::this_thread::sleep_for(std::chrono::milliseconds(sample_ms));
  }
  RegistryView now = read_registry();
  for (int i = 0; i < kMaxDevices; ++i) percent_[size_t(i)] = percent(i, last_, now);
  last_ = std::move(now);
  return percent_[size_t(device)];
}

}  // namespace softnpu
