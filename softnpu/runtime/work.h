// A task and the duty to drop it. Move-only: whoever holds a Work owns the task, and there is one such place at any time (the
// caller's stack, a cell of the ring, a graph). It is consumed exactly once: dropped after its last run, or by the destructor
// when nobody took it. What it is not: it decides nothing and knows no stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "softnpu/race/accesses.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/trace.h"

namespace softnpu {

inline constexpr size_t kPayloadBytes = 72;

class Work {
 public:
  explicit Work(const Task& task) noexcept : task_(task) {}

  // With arguments of its own: `run` and `drop` get a pointer to the copy of `payload`, wherever the Work lies by then.
  template <class Payload>
  Work(const Task& task, const Payload& payload) noexcept : task_(task), bytes_(sizeof(Payload)) {
    static_assert(sizeof(Payload) <= kPayloadBytes && std::is_trivially_copyable_v<Payload>);
    memcpy(payload_, &payload, sizeof(Payload));
  }

  Work(Work&& other) noexcept
      : task_(other.task_), bytes_(other.bytes_), thread_(other.thread_), ticket_(other.ticket_) {
    if (bytes_) memcpy(payload_, other.payload_, bytes_);
    other.task_.run = nullptr;
  }
  Work& operator=(Work&&) = delete;
  ~Work() { drop(); }

  Cost cost() const noexcept { return task_.cost; }
  const char* name() const noexcept { return task_.name; }

  // May be called many times.
  int run() noexcept { return task_.run(state()); }

  // Consumes it: neither run nor dropped again.
  void drop() noexcept {
    if (task_.run == nullptr) return;
    if (__builtin_expect(ticket_ != 0, 0)) trace::dropped(take_ticket());
    if (task_.drop) task_.drop(state());
    task_.run = nullptr;
  }

  // Who queued it (owed.h); 0: it was not queued, its caller runs it.
  uint16_t thread() const noexcept { return thread_; }
  void set_thread(uint16_t thread) noexcept { thread_ = thread; }

  // Of who listens to records (trace.h): 0, nobody did when it was submitted.
  uint32_t ticket() const noexcept { return ticket_; }
  void set_ticket(uint32_t ticket) noexcept { ticket_ = ticket; }
  uint32_t take_ticket() noexcept { return std::exchange(ticket_, 0); }
  trace::Description described() const noexcept { return trace::described(task_.run, bytes_ ? payload_ : task_.state); }

  // For who watches (watch.h): false where nobody says what it touches.
  bool told(race::Accesses& accesses) const { return race::told(task_.run, bytes_ ? payload_ : task_.state, accesses); }

  template <class Payload>
  Payload& payload() noexcept {
    return *reinterpret_cast<Payload*>(payload_);
  }

 private:
  void* state() noexcept { return bytes_ ? payload_ : task_.state; }

  Task task_;  // its `run` is null once the Work was consumed or moved from
  uint8_t bytes_ = 0;
  uint16_t thread_ = 0;
  uint32_t ticket_ = 0;
  alignas(8) unsigned char payload_[kPayloadBytes];
};

}  // namespace softnpu
