// Which threads have yet to be told of a stream's failure. Who waits first gets it, and that clears it; but tasks of other threads may
// have been skipped by then, and each of these threads is owed the same error, once, when it waits itself.
// What it is not: the stream's error until it is reported (stream.h). Not thread safe: the stream's error_mutex_ guards it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "softnpu/runtime/error.h"

namespace softnpu {

// Of the calling thread, from one on; used again after 65,535 others.
uint16_t thread_number() noexcept;

class Owed {
 public:
  // Of any thread; without the mutex.
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  // A new failure: nobody has been told of it.
  void begin() noexcept { told_.clear(); }
  // The thread gets the failure.
  void told(uint16_t thread) noexcept;
  // A task of the thread failed, or was skipped: the stream's `position`-th.
  void owe(uint16_t thread, uint64_t position, int code, const std::string& text) noexcept;
  // The oldest that the thread is owed for one of the first `until` tasks.
  std::optional<Error> take(uint16_t thread, uint64_t until) noexcept;
  void clear() noexcept;

 private:
  static constexpr size_t kMost = 1024;  // the oldest are forgotten
  struct Debt {
    uint16_t thread;
    uint64_t position;
    Error error;
  };
  std::vector<Debt> debts_;
  std::vector<uint16_t> told_;  // of the last failure
  std::atomic<bool> any_{false};
};

}  // namespace softnpu
