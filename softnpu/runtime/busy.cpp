#include "softnpu/runtime/busy.h"

#include <mutex>

#include "softnpu/runtime/config.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/registry.h"

namespace softnpu {
namespace {

// One a device, on a line of its own.
struct alignas(64) Meter {
  std::mutex mutex;
  int threads = 0;
  bool asked = false;
  uint64_t sum = 0;      // of the stretches that are over
  uint64_t since = 0;    // of the one that is not
  Registry::Busy words;  // in the registries, which are never unmapped
};

Meter& meter(int device) noexcept {
  static Meter* all = new Meter[kMaxDevices];
  return all[size_t(device)];
}

void store(Meter& m, uint64_t value) noexcept {
  if (m.words.own) __atomic_store_n(m.words.own, value, __ATOMIC_RELAXED);
  if (m.words.shown) __atomic_store_n(m.words.shown, value, __ATOMIC_RELAXED);
}

}  // namespace

void Stretch::begin() noexcept {
  working_ = true;
  Meter& m = meter(device_);
  std::lock_guard lock(m.mutex);
  if (m.threads++ > 0) return;
  if (!m.asked) {
    m.asked = true;
    if (device_ < device_count()) m.words = Registry::get().busy(config().visible[size_t(device_)]);
  }
  m.since = uint64_t(now_ns());
  store(m, kBusyNow | (m.since - m.sum));
}

void Stretch::end() noexcept {
  working_ = false;
  Meter& m = meter(device_);
  std::lock_guard lock(m.mutex);
  if (--m.threads > 0) return;
  m.sum += uint64_t(now_ns()) - m.since;
  store(m, m.sum);
}

}  // namespace softnpu
