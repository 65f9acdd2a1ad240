// What clients set for the whole process and who obeys it: time limits and determinism. What it is not: the machine asked for
// (config.h), or what belongs to a stream or context.
//   operator_limit_ns  the kernels (softnpu/ops): one that took longer fails when it ends; it cannot be cut short. Who sets it then
//                      sets sanitize::kLimit (api_settings.cpp), without which nobody asks
//   wait_limit_ns      a stream that waits for another one
//   deterministic      the kernels: sums whose order depends on threads are made by one
// The first and the last are asked for from other rooms, too: enqueue.h declares their readers.
#pragma once

#include <atomic>
#include <cstdint>

#include "softnpu/runtime/enqueue.h"

namespace softnpu {

struct Settings {
  std::atomic<int64_t> operator_limit_ns{0};  // 0: none
  std::atomic<int64_t> wait_limit_ns{0};      // 0: none
  std::atomic<bool> deterministic{false};
};

// libacl_op_compiler sets some of them.
SOFTNPU_API Settings& settings() noexcept;

// units * ns_a_unit, or the largest number of nanoseconds there is.
inline int64_t limit_of(uint64_t units, int64_t ns_a_unit) noexcept {
  int64_t ns;
  return __builtin_mul_overflow(units, ns_a_unit, &ns) ? INT64_MAX : ns;
}

}  // namespace softnpu
