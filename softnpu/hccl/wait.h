// How this library waits: by the functions of this file. What is waited for is an event: a word that changes (Signal, also between
// processes), a descriptor, or a stretch of time. What ends a wait without its event is the Patience of whoever waits: an abort word,
// a maker of the event that is gone, a time limit; it throws, naming the culprit. Nothing else in this room sleeps, polls or spins,
// apart from the idle loops of the two threads that serve (hub.cpp, network/worker.cpp), and Carrier::flush, at a process's end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "softnpu/hccl/settings.h"

namespace softnpu::hccl {

// A word to wait on. `sleepers` saves the system call when nobody sleeps; a killed sleeper leaves it too high, which only costs.
struct alignas(64) Signal {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

void notify(Signal& signal) noexcept;  // after a store to value
inline void set(Signal& signal, uint32_t value) noexcept {
  signal.value.store(value, std::memory_order_seq_cst);
  notify(signal);
}
inline void ring(Signal& signal) noexcept {
  signal.value.fetch_add(1, std::memory_order_seq_cst);
  notify(signal);
}

class Patience {
 public:
  virtual ~Patience() = default;
  // Asked at every turn, so a load or two. True: fail_aborted() throws the error that somebody left.
  virtual bool aborted() const noexcept { return false; }
  [[noreturn]] virtual void fail_aborted() const;
  // Asked about ten times a second, and when woken: can the event not come any more? The event is looked at once more after it, and
  // only then give_up() throws: whoever acts and then leaves is never reported missing, provided that it does so in this order.
  virtual bool hopeless() { return false; }
  [[noreturn]] virtual void give_up();
  // When hopeless() will be true at the latest: a sleep ends there.
  virtual Deadline until() const { return Deadline::max(); }
  uint32_t spins = 0;  // how often to look before sleeping
};

// For what our own threads finish by themselves whatever others do: there is nothing to give up for.
class Certain final : public Patience {};

// A moment, and a function that throws what is the matter when it has passed.
class Until final : public Patience {
 public:
  Until(Deadline deadline, std::function<void()> late) : deadline_(deadline), late_(std::move(late)) {}
  bool hopeless() override { return Clock::now() >= deadline_; }
  [[noreturn]] void give_up() override;
  Deadline until() const override { return deadline_; }

 private:
  const Deadline deadline_;
  const std::function<void()> late_;
};

namespace waiting {
void relax() noexcept;
// Until the word differs from `seen`, a wake-up, or the end; a tenth of a second at most, so a lost wake-up could cost no more.
void sleep(Signal& signal, uint32_t seen, Deadline end) noexcept;
}  // namespace waiting

// Until ready(), which is asked whenever the signal changes, and now and then; it may do work, and it may throw. False: `enough` has
// come first, which is no error.
template <class Ready>
bool wait(Signal& signal, Ready&& ready, Patience& patience, Deadline enough = Deadline::max()) {
  for (uint32_t i = 0; i < patience.spins; ++i) {
    if (ready()) return true;
    if (i % 64 == 63 && patience.aborted()) patience.fail_aborted();
    waiting::relax();
  }
  for (;;) {
    const uint32_t seen = signal.value.load(std::memory_order_seq_cst);
    if (ready()) return true;
    if (patience.aborted()) patience.fail_aborted();
    if (patience.hopeless()) {
      if (ready()) return true;
      patience.give_up();
    }
    if (enough != Deadline::max() && Clock::now() >= enough) return false;
    waiting::sleep(signal, seen, std::min(enough, patience.until()));
  }
}

// Until a descriptor has one of the poll(2) events.
void wait(int descriptor, short events, Patience& patience);

// A pause between two tries.
void pause(std::chrono::milliseconds time, Patience& patience);

}  // namespace softnpu::hccl
