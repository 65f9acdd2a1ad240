// Memory for what kernels need for a moment, kept between them: the system's allocator gives large blocks back at once, and
// the pages that it clears for the next request cost an LSTM a fifth of its step. Thread-safe; usable in a forked child.
#pragma once

#include <cstddef>

namespace softnpu::ops {

class KeptMemory {
 public:
  static constexpr size_t kSmallest = size_t{128} << 10;  // bytes; what malloc keeps by itself is not worth it
  static constexpr size_t kMost = size_t{256} << 20;      // bytes kept unused, in all; more goes back to the system

  // At least `bytes`, aligned as torch aligns; null if there is none.
  static void* take(size_t bytes) noexcept;
  // False if the memory is not from take(), and nothing happens.
  static bool give_back(void* memory) noexcept;
};

}  // namespace softnpu::ops
