// Holding a stream: the queue is locked for other producers (ring.h) while one thread puts tasks on it that must follow each
// other. Who holds: a replay (graph.cpp), a collective, which takes its place in two orders at once (softnpu/hccl).
// What it is not: it stops nobody from running the stream's tasks, so a holder may wait for room.
#include <climits>

#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

thread_local Stream::Hold* t_holds = nullptr;  // the innermost

}  // namespace

Stream::Hold::Hold(Stream& stream, bool replay)
    : stream_(stream.held_here() ? nullptr : &stream), outer_(t_holds), replay_(replay) {
  if (stream_ == nullptr) return;
  while (replay && stream.ring_.replayed_beside() > Ring::kReplayed) stream.make_room(true);
  while (!stream.ring_.try_lock()) stream.wait_until_open();
  t_holds = this;
}

Stream::Hold::~Hold() {
  if (stream_ == nullptr) return;
  t_holds = outer_;
  stream_->ring_.unlock();
  // Order: who waits counts himself, then looks at the lock (all seq_cst).
  if (stream_->wait_open_.load(std::memory_order_seq_cst) == 0) return;
  stream_->opened_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(stream_->opened_, INT_MAX);
}

bool Stream::held_here() const noexcept {
  for (const Hold* h = t_holds; h; h = h->outer_)
    if (h->stream_ == this) return true;
  return false;
}

bool Stream::replayed_here() const noexcept {
  for (const Hold* h = t_holds; h; h = h->outer_)
    if (h->stream_ == this) return h->replay_;
  return false;
}

// Another thread holds the stream: sleeps until it may be open. The holder may itself wait for room.
void Stream::wait_until_open() {
  give_up_if_stuck();
  wait_open_.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t opened = opened_.load(std::memory_order_seq_cst);
  if (ring_.locked()) futex_wait(opened_, opened, now_ns() + schedule::kAbortNs);
  wait_open_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace softnpu
