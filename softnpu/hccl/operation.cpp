// See operation.h.
#include "softnpu/hccl/operation.h"

#include <cstdio>

#include "softnpu/runtime/enqueue.h"

namespace softnpu::hccl {

bool Operation::hopeless() {
  if (running_task_aborted()) fail(HCCL_E_INTERNAL, "its stream was aborted (aclrtStreamAbort)");
  return deserted() || Clock::now() >= until();
}

Deadline Operation::until() const {
  const int64_t limit = limit_ms_.load(std::memory_order_relaxed);
  return limit ? began_ + std::chrono::milliseconds(limit) : Deadline::max();
}

bool Operation::certain(bool somebody, bool far) {
  if (!somebody) seen_ = {};
  if (!somebody || !far) return somebody;
  if (seen_ == Deadline{}) seen_ = Clock::now();
  return Clock::now() - seen_ > std::chrono::seconds(1);
}

std::string Operation::limit() const {
  char text[32];
  snprintf(text, sizeof text, "%g s (", static_cast<double>(limit_ms_.load(std::memory_order_relaxed)) / 1000);
  return text + std::string(limit_name_) + ")";
}

std::string Operation::farewell_of(const std::vector<uint32_t>& ranks) const {
  std::string text = "has left the communicator: ";
  for (const uint32_t r : ranks)
    text += (r == ranks.front() ? "" : ", ") + c_.process_of(r) +
            (board_.left(r) == Left::kDestroyed ? " destroyed it" : " ended");
  return text + "; see that rank's log";
}

OwnTurn::OwnTurn(Communicator& communicator, Epoch& epoch, const char* name, uint64_t ticket)
    : Operation(communicator, epoch, communicator.limit_ms(), "HCCL_EXEC_TIMEOUT"),
      name_(name),
      ticket_(ticket),
      seen_(epoch.turnstile.serving()) {}

bool OwnTurn::hopeless() {
  if (const uint64_t now = epoch_.turnstile.serving(); now != seen_) seen_ = now, began_ = Clock::now();
  return Operation::hopeless();
}

void OwnTurn::give_up() {
  fail(HCCL_E_TIMEOUT,
       "%s (communicator %s, rank %u of %u): its turn did not come within %s: %s, which this rank queued before it on "
       "another stream, has not been done",
       name_, c_.options().name.c_str(), c_.rank(), c_.size(), limit().c_str(),
       epoch_.turnstile.serving_name().c_str());
}

}  // namespace softnpu::hccl
