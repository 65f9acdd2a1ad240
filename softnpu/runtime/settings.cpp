#include "softnpu/runtime/settings.h"

namespace softnpu {

Settings& settings() noexcept {
  static constinit Settings the;
  return the;
}

int64_t detail::operator_limit_ns() noexcept { return settings().operator_limit_ns.load(std::memory_order_relaxed); }

bool deterministic() noexcept { return settings().deterministic.load(std::memory_order_relaxed); }

}  // namespace softnpu
