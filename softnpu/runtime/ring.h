// A stream's queue: a bounded ring of fixed-size tasks, any number of producers, one consumer at a time (the token's holder).
// Each task has a position; positions count up for ever, also over reuse of the stream, so "done >= position" never lies.
// One producer may lock the others out, for tasks that must follow each other: the lock is a bit of the tail, so the others,
// whose exchange of the tail then fails, pay nothing for it.
// A replay never waits for room, since what its tasks wait for may be told by its caller behind it: from half a ring on its tasks
// lie beside that until their position is the oldest, and take nobody's room.
// What it is not: it runs nothing and wakes nobody (stream.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "softnpu/runtime/progress.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Ring {
 public:
  static constexpr uint64_t kCapacity = 1024;
  static constexpr uint64_t kReplayed =
      64 * kCapacity;  // tasks of replays beside the ring behind which no other replay begins

  Ring() = default;
  Ring(const Ring&) = delete;
  ~Ring();

  // Tasks accepted so far: the number to wait for.
  uint64_t tail() const noexcept { return tail_.load(std::memory_order_seq_cst) & ~kLocked; }
  uint64_t done() const noexcept { return progress_.done(); }
  bool empty() const noexcept { return tail() == done(); }
  Progress& progress() noexcept { return progress_; }

  // Locks the other producers out. False when it is locked. `holder` below: does the caller hold the lock?
  bool try_lock() noexcept {
    uint64_t t = tail_.load(std::memory_order_relaxed) & ~kLocked;
    return tail_.compare_exchange_strong(t, t | kLocked, std::memory_order_seq_cst, std::memory_order_relaxed);
  }
  void unlock() noexcept { tail_.fetch_and(~kLocked, std::memory_order_seq_cst); }
  bool locked() const noexcept { return tail_.load(std::memory_order_seq_cst) & kLocked; }
  // Must a plain task wait for room, or else a new replay? Exact where no task ends meanwhile: in a host callback of the stream.
  bool full(bool for_replay = false) const noexcept;
  bool half_full() const noexcept { return tail() - done() >= kCapacity / 2; }

  // Moves the task in. False when the ring is full or locked: the task is then still the caller's. Throws bad_alloc for the
  // first task of the ring's life only.
  bool push(Work&& work, bool holder = false);

  // The same beside the ring: a task of a replay always, another one while there would be room without those. Throws bad_alloc.
  bool push_beside(Work&& work, bool holder, bool of_replay);
  uint64_t replayed_beside() const noexcept { return replayed_.load(std::memory_order_relaxed); }

  // Token holder only: takes the next position for a task it is about to run itself. False unless the ring is empty and open.
  bool claim_inline(bool holder = false) noexcept {
    uint64_t h = progress_.done() | (holder ? kLocked : 0);
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

  struct Beside {
    bool of_replay;
    std::optional<Work> work;
  };

  static constexpr uint64_t kLocked = uint64_t{1} << 63;

  Cell* cells();
  Work* take_in(uint64_t position, Cell& cell) noexcept;

  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) Progress progress_;
  std::atomic<Cell*> cells_{nullptr};  // made at the first push: most streams of a pool never queue anything
  std::atomic<uint64_t> count_beside_{0}, replayed_{0};  // of beside_: all, and those of replays
  mutable std::mutex beside_mutex_;                      // guards beside_; a leaf
  std::map<uint64_t, Beside> beside_;                    // by position
};

}  // namespace softnpu
