// The patience of a communicator's tasks: all of them end with the epoch's error and with the time limit; each adds who else may be
// missed and how that is said. Who makes one: execute.cpp, messages.cpp, submit.cpp (a task that waits for its turn).
#pragma once

#include <string>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

class Operation : public Patience {
 public:
  Operation(Communicator& communicator, Epoch& epoch, const std::atomic<int64_t>& limit_ms, const char* limit_name)
      : c_(communicator), epoch_(epoch), board_(*epoch.board), limit_ms_(limit_ms), limit_name_(limit_name) {
    spins = board_.spins();
  }
  bool aborted() const noexcept override { return epoch_.aborted(); }
  [[noreturn]] void fail_aborted() const override { throw epoch_.error(); }
  bool hopeless() override;
  Deadline until() const override;

 protected:
  // Can the event not come any more, because of a rank that left? Evidence is looked at before the event is.
  virtual bool deserted() { return false; }
  // Whether and how a rank has left. Of one that died the epoch's error tells, which follows at once
  // (Communicator::process_gone): whoever waits is ended by it, and not by half of what is known.
  Left farewell(uint32_t rank) const {
    const Left how = board_.left(rank);
    return how == Left::kDied ? Left::kNo : how;
  }
  // A rank of another host that left may have spoken before: what it said comes another way, and a moment later.
  bool certain(bool somebody, bool far);
  std::string limit() const;  // "1.5 s (HCCL_EXEC_TIMEOUT)"
  // "has left the communicator: process 4242 on 10.0.0.2 ended; see that rank's log"
  std::string farewell_of(const std::vector<uint32_t>& ranks) const;

  Communicator& c_;
  Epoch& epoch_;
  Board& board_;
  Deadline began_ = Clock::now();

 private:
  const std::atomic<int64_t>& limit_ms_;
  const char* const limit_name_;
  Deadline seen_{};
};

// A call's turn, from its making on: whoever makes one lets the next call on by destroying it, also where enter() threw.
class OwnTurn final : public Operation {
 public:
  OwnTurn(Communicator& communicator, Epoch& epoch, const char* name, uint64_t ticket);
  // Waits until it has come. The time begins anew with each call before it that is done.
  void enter() { epoch_.turnstile.enter(ticket_, *this); }
  ~OwnTurn() override { epoch_.turnstile.leave(ticket_); }
  bool hopeless() override;
  [[noreturn]] void give_up() override;

 private:
  const char* const name_;
  const uint64_t ticket_;
  uint64_t seen_;
};

}  // namespace softnpu::hccl
