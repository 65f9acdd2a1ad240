// The shared page of a communicator's ranks on one host: who has come, where their buffers are, small payloads, and the abort word.
// Every wait is here: spin briefly, then a timed futex, and look at the abort word each time.
// What it is not: data of large messages (they are read where they lie) or the meaning of an operation (schedule.h).
//
// Order of one operation with sequence number s (all ranks count alike):
//   wait until everybody has finished s - kDepth (its slot is free) -> write post and payload -> posted = s+1, arrived += 1
//   -> wait for those whose data is needed -> work -> finished (large messages) -> done = s+1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "softnpu/hccl/member.h"
#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/socket.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

constexpr uint32_t kDepth = 4;                 // operations a rank may be ahead of the slowest
constexpr size_t kInlineBytes = 32 * 1024;     // a payload up to this is copied into the slot: no second wait
constexpr uint32_t kPairDepth = 4;             // messages on the way between two ranks
constexpr size_t kPairInlineBytes = 4 * 1024;  // a message up to this needs no waiting receiver

// A word to wait on. `sleepers` saves the system call when nobody sleeps; a killed sleeper leaves it too high, which only costs.
struct alignas(64) Signal {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;
};

// Where a buffer is: in an arena of the rank's process for others, at an address for ranks of the same process.
struct Place {
  uint64_t arena, offset, address;
};

// What a rank asks for; compared over the ranks before anything is touched.
struct Post {
  uint32_t kind, type, op, root;
  uint64_t count;
  uint32_t inlined;  // the send data is in the slot's payload
  uint32_t bytes;    // and so much it is
  Place send, recv;
};

struct alignas(64) Message {
  uint32_t type, inlined;
  uint64_t bytes;
  Place place;
  std::byte payload[kPairInlineBytes];
};

struct alignas(64) Pair {  // messages of one rank to one other, counted
  std::atomic<uint32_t> posted, consumed;
  Message messages[kPairDepth];
};

struct alignas(64) Turn {         // one operation of the ring
  Signal arrived;                 // grows by one a rank, never reset: round k is complete at (k+1)*ranks
  Signal finished;                // s+1 once the last chunk is done
  std::atomic<uint64_t> claimed;  // low 32 bits of s, then the next chunk to take
  alignas(64) std::atomic<uint64_t> completed;
};

// Numbers of operations wrap around.
inline bool reached(uint32_t value, uint32_t wanted) { return static_cast<int32_t>(value - wanted) >= 0; }

// The ring's words are not reset: their upper half says to which operation the lower belongs.
inline void open_word(std::atomic<uint64_t>& word, uint32_t s) {
  uint64_t seen = word.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(seen >> 32) != s && !word.compare_exchange_weak(seen, static_cast<uint64_t>(s) << 32)) {
  }
}

struct alignas(64) Slot {  // of one rank
  Signal posted, done, bell;
  std::atomic<uint32_t> left;  // the rank destroyed its communicator
  std::atomic<uint32_t> busy;  // it works on a chunk: if it hangs there, it is to blame
  Post posts[kDepth];
};

class Board {
 public:
  // Made by the lowest rank of the host; the others map what it passes to them.
  static std::shared_ptr<Board> create(uint32_t ranks);
  static std::shared_ptr<Board> map(Fd memfd, uint32_t ranks);
  ~Board();
  Board(const Board&) = delete;

  int fd() const { return fd_.get(); }
  uint32_t ranks() const { return ranks_; }
  Turn& turn(uint32_t s) const { return turns_[s % kDepth]; }
  Slot& slot(uint32_t rank) const { return slots_[rank]; }
  Post& post(uint32_t rank, uint32_t s) const { return slots_[rank].posts[s % kDepth]; }
  std::byte* payload(uint32_t rank, uint32_t s) const {
    return payloads_ + (rank * kDepth + s % kDepth) * kInlineBytes;
  }
  // Counts and offsets of the uneven collectives: four numbers a rank.
  uint64_t* table(uint32_t rank, uint32_t s) const { return tables_ + (rank * kDepth + s % kDepth) * 4 * ranks_; }
  Pair& pair(uint32_t from, uint32_t to) const { return pairs_[from * ranks_ + to]; }

  // The first abort wins; everybody who waits is woken and throws it. Safe from any thread and process.
  // Returns whether it was this one.
  bool abort(HcclResult code, const std::string& text) noexcept;
  bool aborted() const noexcept;
  Error error() const;
  // Makes an aborted board usable again (HcclCommResume): only when no rank is in an operation.
  void clear_abort() noexcept;
  void wake_all() noexcept;

  static void notify(Signal& signal) noexcept;  // after a store to value
  static void set(Signal& signal, uint32_t value) noexcept {
    signal.value.store(value, std::memory_order_seq_cst);
    notify(signal);
  }

  // Waits until ready(value). `late` is called about ten times a second and throws when waiting has no more sense (deadline, a
  // rank that left).
  template <class Ready, class Late>
  void wait(Signal& signal, Ready ready, Late late) const {
    for (uint32_t i = 0; i < spins_; ++i) {
      if (ready(signal.value.load(std::memory_order_acquire))) return;
      if (i % 64 == 63 && aborted()) throw error();
      relax();
    }
    for (;;) {
      const uint32_t seen = signal.value.load(std::memory_order_seq_cst);
      if (ready(seen)) return;
      if (aborted()) throw error();
      late();
      sleep(signal, seen);
    }
  }

 private:
  struct Head;
  Board(Fd fd, uint32_t ranks);
  static void sleep(Signal& signal, uint32_t seen) noexcept;
  static void relax() noexcept;

  Fd fd_;
  uint32_t ranks_;
  uint32_t spins_;
  size_t size_;
  std::byte* base_;
  Head* head_;
  Turn* turns_;
  Slot* slots_;
  uint64_t* tables_;
  Pair* pairs_;
  std::byte* payloads_;
};

}  // namespace softnpu::hccl
