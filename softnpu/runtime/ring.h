// A stream's queue: a bounded ring of fixed-size tasks, any number of producers, one consumer at a time (the token's holder).
// Each task has a position; positions count up for ever, also over reuse of the stream, so "done >= position" never lies.
// What it is not: it runs nothing and wakes nobody (stream.cpp).
#pragma once

#include <atomic>
#include <cstdint>

#include "softnpu/runtime/progress.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Ring {
 public:
  static constexpr uint64_t kCapacity = 1024;

  Ring() = default;
  Ring(const Ring&) = delete;
  ~Ring();

  // Tasks accepted so far: the number to wait for.
  uint64_t tail() const noexcept { return tail_.load(std::memory_order_seq_cst); }
  uint64_t done() const noexcept { return progress_.done(); }
  bool empty() const noexcept { return tail() == done(); }
  Progress& progress() noexcept { return progress_; }

  // Moves the task in. False when the ring is full: the task is then still the caller's. Throws bad_alloc for the first task
  // of the ring's life only.
  bool push(Work&& work);

  // Token holder only: takes the next position for a task it is about to run itself. False unless the ring is empty.
  bool claim_inline() noexcept {
    uint64_t h = progress_.done();
    return tail_.compare_exchange_strong(h, h + 1, std::memory_order_seq_cst, std::memory_order_relaxed);
  }
  // Token holder only: the inline task is finished, and dropped.
  void finish_inline() noexcept { progress_.advance(progress_.done() + 1); }

  // Token holder only: the oldest task, in place until pop; null when there is none, or its producer has not finished writing.
  Work* front() noexcept;
  // Token holder only: drops the oldest task, then counts it as done.
  void pop() noexcept;

 private:
  struct alignas(64) Cell {
    std::atomic<uint64_t> published;  // position + 1 once written
    Work work;
  };
  static_assert(sizeof(Cell) == 128);

  Cell* cells();

  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) Progress progress_;
  std::atomic<Cell*> cells_{nullptr};  // made at the first push: most streams of a pool never queue anything
};

}  // namespace softnpu
