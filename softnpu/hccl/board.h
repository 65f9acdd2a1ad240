// The shared page of a communicator's ranks on one host: who has come, where their buffers are, small payloads, and the abort word.
// What it is not: data of large messages (they are read where they lie) or the meaning of an operation (schedule.h).
//
// Order of one operation with sequence number s (all ranks count alike):
//   wait until everybody has finished s - kDepth (its slot is free) -> write post and payload -> posted = s+1, arrived += 1
//   -> wait for those whose data is needed -> work -> finished (large messages) -> done = s+1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "softnpu/hccl/member.h"
#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/socket.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/wait.h"

namespace softnpu::hccl {

constexpr uint32_t kDepth = 4;  // operations a rank may be ahead of the slowest
// Operations are counted in 64 bits, and in the page's words in 32. They begin shortly before the words wrap around, so that every
// program passes that border, not the first that runs for days.
constexpr uint64_t kFirstSequence = (uint64_t{1} << 32) - 5 * kDepth;
constexpr size_t kInlineBytes = 32 * 1024;     // a payload up to this is copied into the slot: no second wait
constexpr uint32_t kPairDepth = 4;             // messages on the way between two ranks
constexpr size_t kPairInlineBytes = 4 * 1024;  // a message up to this needs no waiting receiver

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
  Signal arrived;                 // grows by one a rank, never reset: complete(s, ranks) once all have come to s
  Signal finished;                // s+1 once the last chunk is done
  std::atomic<uint64_t> claimed;  // low 32 bits of s, then the next chunk to take
  alignas(64) std::atomic<uint64_t> completed;
};

// What a ring's `arrived` counts up to with operation s.
inline uint32_t complete(uint64_t s, uint32_t ranks) { return static_cast<uint32_t>((s / kDepth + 1) * ranks); }

// Words wrap around.
inline bool reached(uint32_t value, uint32_t wanted) { return static_cast<int32_t>(value - wanted) >= 0; }

// The ring's words are not reset: their upper half says to which operation the lower belongs.
inline void open_word(std::atomic<uint64_t>& word, uint32_t s) {
  uint64_t seen = word.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(seen >> 32) != s && !word.compare_exchange_weak(seen, static_cast<uint64_t>(s) << 32)) {
  }
}

enum class Left : uint32_t { kNo, kDestroyed, kEnded, kDied };  // a later one says more

struct alignas(64) Slot {  // of one rank
  Signal posted, done, bell;
  Signal busy;             // working(s) while it reads and writes the ranks' buffers, finished(s) after
  Signal turn;             // of its turnstile; its own
  std::atomic<Left> left;  // why the rank takes part no more
  Post posts[kDepth];
};
inline uint32_t working(uint64_t s) { return static_cast<uint32_t>(2 * s + 1); }
inline uint32_t finished(uint64_t s) { return static_cast<uint32_t>(2 * s + 2); }

// Set while this rank reads and writes others' buffers.
class Busy {
 public:
  Busy(Signal& signal, uint64_t s) : signal_(signal), s_(s) { set(signal, working(s)); }
  ~Busy() { done(); }
  Busy(const Busy&) = delete;
  void done() noexcept {
    if (!std::exchange(over_, true)) set(signal_, finished(s_));
  }

 private:
  Signal& signal_;
  const uint64_t s_;
  bool over_ = false;
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
  // How often to look before sleeping.
  uint32_t spins() const { return spins_; }
  Turn& turn(uint64_t s) const { return turns_[s % kDepth]; }
  Slot& slot(uint32_t rank) const { return slots_[rank]; }
  Post& post(uint32_t rank, uint64_t s) const { return slots_[rank].posts[s % kDepth]; }
  std::byte* payload(uint32_t rank, uint64_t s) const {
    return payloads_ + (rank * kDepth + s % kDepth) * kInlineBytes;
  }
  // Counts and offsets of the uneven collectives: four numbers a rank.
  uint64_t* table(uint32_t rank, uint64_t s) const { return tables_ + (rank * kDepth + s % kDepth) * 4 * ranks_; }
  Pair& pair(uint32_t from, uint32_t to) const { return pairs_[from * ranks_ + to]; }

  // The first abort wins; everybody who waits is woken and throws it. Safe from any thread and process.
  // Returns whether it was this one.
  bool abort(HcclResult code, const std::string& text) noexcept;
  bool aborted() const noexcept;
  Error error() const;
  void wake_all() noexcept;

  // The rank takes part no more; whoever waits for it looks again.
  void leave(uint32_t rank, Left how) noexcept;
  Left left(uint32_t rank) const { return slots_[rank].left.load(std::memory_order_seq_cst); }

 private:
  struct Head;
  Board(Fd fd, uint32_t ranks);
  void begin() noexcept;

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
