#include "softnpu/runtime/schedule.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "softnpu/runtime/stream.h"

namespace softnpu::schedule {

const int kSpins = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 256 : 0;

void Turns::add(Stream* stream, int64_t now) {
  waiting_.push_back({stream, now});
  count_.store(uint32_t(waiting_.size()), std::memory_order_release);
}

void Turns::remove(Stream* stream) noexcept {
  std::erase_if(waiting_, [stream](const Waiting& w) { return w.stream == stream; });
  count_.store(uint32_t(waiting_.size()), std::memory_order_release);
}

Stream* Turns::next() noexcept {
  if (waiting_.empty()) return nullptr;
  // First the device whose last turn is longest ago, then the stream that has waited longest. A smaller number is a higher
  // priority, as in CANN.
  auto rank = [this](const Waiting& w) {
    return std::tuple(last_turn_[size_t(w.stream->device())], w.since + int64_t(w.stream->priority()) * kLevelNs);
  };
  auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                [&](const Waiting& a, const Waiting& b) { return rank(a) < rank(b); });
  Stream* stream = first->stream;
  waiting_.erase(first);
  count_.store(uint32_t(waiting_.size()), std::memory_order_release);
  last_turn_[size_t(stream->device())] = ++turns_;
  return stream;
}

bool Turns::over(Stream& stream, int64_t began, int64_t now) const noexcept {
  if (waiting_.empty()) return false;
  if (now - began >= kTurnNs) return true;
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& w) {
    return w.stream->device() == stream.device() && w.stream->priority() < stream.priority();
  });
}

}  // namespace softnpu::schedule
