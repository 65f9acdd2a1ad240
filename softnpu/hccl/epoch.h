// What the ranks of a communicator share from its making, or from one HcclCommResume, to the next: the board, the order of the calls,
// their numbers, and the first error. A task belongs to the epoch in which it was queued: one that outlives it ends with its error
// and touches nothing of the next. Lock order: the turnstile's and the error's mutexes are leaves.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softnpu/hccl/board.h"
#include "softnpu/hccl/member.h"
#include "softnpu/hccl/schedule.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

// Calls of a communicator run one after another in the order in which they were queued, whatever streams they stand in, and whether
// they were queued by a call or by a graph's replay: every rank queues alike, no rank runs alike.
class Turnstile {
 public:
  explicit Turnstile(Signal& moved) : moved_(moved) {}
  uint64_t take(const char* name);
  void enter(uint64_t ticket, Patience& patience);  // throws: the ticket is still to be left
  void leave(uint64_t ticket) noexcept;             // also of one that was never entered
  uint64_t serving() const { return serving_.load(std::memory_order_acquire); }
  std::string serving_name() const;

 private:
  Signal& moved_;  // of this rank's slot: an abort wakes it
  mutable std::mutex mutex_;
  std::atomic<uint64_t> serving_{0};
  struct Ticket {
    const char* name;
    bool left = false;
  };
  std::deque<Ticket> taken_;  // the first is the one that is served
};

class Epoch {
 public:
  Epoch(std::shared_ptr<Board> board, const Key& key, uint32_t rank)
      : board(std::move(board)),
        key(key),
        turnstile(this->board->slot(rank).turn),
        sent_(this->board->ranks()),
        received_(this->board->ranks()) {}

  const std::shared_ptr<Board> board;
  const Key key;
  Turnstile turnstile;
  uint64_t sequence = kFirstSequence;  // of the next collective; moved in the turnstile only

  // Numbers of the next messages to or from a peer; taken in the order of the calls.
  std::vector<uint32_t> take_numbers(const std::vector<Transfer>& transfers);

  bool aborted() const noexcept { return failed_.load(std::memory_order_acquire) || board->aborted(); }
  // The host's first error is everybody's; true: it was this one. `name`: the communicator's.
  bool abort(HcclResult code, const std::string& text, const std::string& name) noexcept;
  Error error() const;  // HCCL_SUCCESS: none

 private:
  std::mutex numbers_mutex_;
  std::vector<uint32_t> sent_, received_;
  std::atomic<bool> failed_{false};  // the error below is set; the board's is the first one, this one is the fallback
  mutable std::mutex error_mutex_;
  Error own_error_{HCCL_SUCCESS, ""};
};

// Of a wait that ends with the epoch's error alone; whoever waits says how long that is sensible.
class UntilAborted final : public Patience {
 public:
  explicit UntilAborted(const Epoch& epoch) : epoch_(epoch) {}
  bool aborted() const noexcept override { return epoch_.aborted(); }
  [[noreturn]] void fail_aborted() const override { throw epoch_.error(); }

 private:
  const Epoch& epoch_;
};
using EpochPtr = std::shared_ptr<Epoch>;

}  // namespace softnpu::hccl
