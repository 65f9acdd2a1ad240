#include "softnpu/runtime/event.h"

#include <algorithm>

#include "acl/types.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/sanitize/hooks.h"

namespace softnpu {
namespace {

int nothing(void*) noexcept { return 0; }

[[noreturn]] void refuse_captured() {
  fail(ACL_ERROR_RT_EVENT_CAPTURED,
       "the event was recorded in a capture: it orders the graph's tasks and never happens by itself; record it "
       "outside");
}

}  // namespace

struct Event::TimeTask {
  Event* event;
  uint64_t epoch;

  static int run(void* state) noexcept {
    auto* t = static_cast<TimeTask*>(state);
    int64_t now = now_ns();
    std::lock_guard lock(t->event->mutex_);
    if (t->event->epoch_ == t->epoch) t->event->time_ns_ = now;
    return 0;
  }
};

void Event::open(uint32_t flags) noexcept {
  std::lock_guard lock(mutex_);
  flags_ = flags;
  recorded_ = time_at_ = {};
  ++epoch_;
  time_ns_ = 0;
  waits_.clear();
  mark_.reset();
}

void Event::record(Stream& stream) {
  if (Capture* capture = stream.capture().load(std::memory_order_acquire)) {
    auto mark = capture->mark(stream);
    std::lock_guard lock(mutex_);
    recorded_ = {};
    ++epoch_;
    mark_ = std::move(mark);
    return;
  }
  if (stream.failed() && !stream.continue_on_failure()) stream.throw_error(false);
  sanitize::at(sanitize::Point::kRecord, &stream);
  uint64_t epoch;
  {
    std::lock_guard lock(mutex_);
    recorded_ = {&stream, stream.tail()};
    epoch = ++epoch_;
    time_ns_ = 0;
    mark_.reset();
    if (!(flags_ & ACL_EVENT_TIME_LINE)) return;
  }
  // Outside the lock: the task may run right here. Nobody else records this event at the same time.
  TimeTask task{this, epoch};
  stream.submit(Work({TimeTask::run, nullptr, nullptr, "aclrtRecordEvent", Cost::kTiny}, task));
  std::lock_guard lock(mutex_);
  if (epoch_ == epoch) recorded_ = {&stream, stream.tail()};
}

void Event::wait_on(Stream& stream) {
  Position at;
  std::shared_ptr<CaptureMark> mark;
  {
    std::lock_guard lock(mutex_);
    at = recorded_;
    mark = mark_;
  }
  if (mark) {
    if (!join_capture(stream, *mark)) refuse_captured();
    return;
  }
  if (stream.capture().load(std::memory_order_acquire))
    fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
         "the stream is being captured, and the event was recorded outside the capture: a graph cannot wait for it; "
         "let the "
         "stream wait before the capture begins");
  if (at.stream == nullptr || at.stream == &stream) return;
  if (at.stream->done() < at.target || at.stream->failed()) {
    stream.submit(
        Work({nothing, nullptr, nullptr, "aclrtStreamWaitEvent", Cost::kWait}, WaitPayload{at.stream, at.target}));
  }
  std::lock_guard lock(mutex_);
  std::erase_if(waits_, [](const Position& p) { return p.stream->done() >= p.target; });
  waits_.push_back({&stream, stream.tail()});
}

void Event::reset() {
  std::lock_guard lock(mutex_);
  recorded_ = {};
  ++epoch_;
  mark_.reset();
}

Event::Position Event::position() {
  std::lock_guard lock(mutex_);
  if (mark_) refuse_captured();
  return recorded_;
}

bool Event::recorded() { return position().stream != nullptr; }

bool Event::done() {
  Position p = position();
  return p.stream == nullptr || p.stream->done() >= p.target;
}

bool Event::waits_done() {
  std::lock_guard lock(mutex_);
  return std::all_of(waits_.begin(), waits_.end(), [](const Position& p) { return p.stream->done() >= p.target; });
}

void Event::synchronize(int64_t deadline) {
  Position p = position();
  if (p.stream == nullptr) return;
  if (!p.stream->wait_for(p.target, deadline)) fail(507047, "the event has not happened within the given time");
  if (p.stream->failed()) p.stream->throw_error(true, p.target);
}

int64_t Event::timestamp_ns() {
  if (!(flags_ & ACL_EVENT_TIME_LINE)) fail(107006, "the event was made without ACL_EVENT_TIME_LINE: it has no time");
  if (!recorded()) fail(107006, "the event was never recorded");
  if (!done()) fail(507006, "the event has not happened yet");
  std::lock_guard lock(mutex_);
  if (time_ns_ == 0) fail(107006, "the event has no time: its stream failed before it");
  return time_ns_;
}

}  // namespace softnpu
