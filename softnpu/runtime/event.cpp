#include "softnpu/runtime/event.h"

#include <algorithm>
#include <climits>

#include "acl/types.h"
#include "softnpu/race/race.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/schedule.h"
#include "softnpu/runtime/settings.h"
#include "softnpu/runtime/shared_event.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/watch.h"
#include "softnpu/sanitize/hooks.h"

namespace softnpu {
namespace {

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

// An event that is a flag, found anew by each run: a graph may outlive it.
struct Event::FlagTask {
  void* handle;
  int64_t limit_ns;

  Event* find() const noexcept { return slab<Event>().find(handle); }

  static int gone() noexcept {
    set_error_message("the event was destroyed before the stream came to it");
    return ACL_ERROR_RT_PARAM_INVALID;
  }

  template <uint32_t value>
  static int put(void* state) noexcept {
    Event* event = static_cast<FlagTask*>(state)->find();
    if (event == nullptr) return gone();
    event->flag_.store(value, std::memory_order_seq_cst);
    futex_wake(event->flag_, INT_MAX);
    return 0;
  }

  static int wait(void* state) noexcept {
    auto* t = static_cast<FlagTask*>(state);
    const int64_t end = deadline_after_ns(t->limit_ns);
    for (;;) {
      Event* event = t->find();
      if (event == nullptr) return gone();
      if (event->flag_.load(std::memory_order_seq_cst)) return 0;
      if (Stream::running_task_aborted()) return ACL_ERROR_RT_STREAM_ABORT;
      const int64_t now = now_ns();
      if (now >= end) {
        set_error_message("the event was not recorded within the time limit of the wait");
        return ACL_ERROR_RT_WAIT_TIMEOUT;
      }
      futex_wait(event->flag_, 0, std::min(now + schedule::kAbortNs, end));
    }
  }

  static void submit(Stream& stream, Event& event, int (*run)(void*) noexcept, const char* name, Cost cost,
                     int64_t limit_ns = 0) {
    stream.submit(Work({run, nullptr, nullptr, name, cost}, FlagTask{slab<Event>().handle_of(&event), limit_ns}));
  }
};

bool Event::is_flag() const noexcept { return flags_ & ACL_EVENT_EXTERNAL; }

void Event::open(uint32_t flags, std::shared_ptr<SharedEvent> shared) noexcept {
  if (race::on()) race::forget_event(key());
  std::lock_guard lock(mutex_);
  shared_ = std::move(shared);
  flag_ = 0;
  flags_ = flags;
  recorded_ = time_at_ = {};
  ++epoch_;
  time_ns_ = 0;
  waits_.clear();
  mark_.reset();
}

// For a graph, of which each replay makes the call itself; it keeps the event's handle, and a replay after its end fails. False: the
// stream is not captured.
bool Event::keep(Stream& stream, Again again, const char* name) {
  return Capture::take(stream, Work({Recorded::never, nullptr, nullptr, name, Cost::kAgain},
                                    Recorded{again, slab<Event>().handle_of(this), nullptr}));
}

// The race detector, too, sees the order that a flag makes between replays and other work.
bool Event::keep_flag(Stream& stream, Again again, const char* name) {
  return is_flag() && stream.captured() && keep(stream, again, name);
}

void Event::record(Stream& stream) {
  const auto again = [](void* event, aclrtStream where) noexcept {
    return guarded("aclrtRecordEvent", [&] { slab<Event>().get(event).record(stream_of(where)); });
  };
  if (keep_flag(stream, again, "aclrtRecordEvent")) return;
  if (race::on()) race::recorded(key(), named(stream));
  if (shared_) return shared_->record(stream);
  if (is_flag()) return FlagTask::submit(stream, *this, FlagTask::put<1>, "aclrtRecordEvent", Cost::kTiny);
  auto capture = stream.captured() ? Capture::of(stream) : nullptr;
  if (auto mark = capture ? capture->mark(stream) : nullptr) {
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

void Event::wait_on(Stream& stream, int64_t limit_ns, const char* task) {
  const auto again = [](void* event, aclrtStream where) noexcept {
    return guarded("aclrtStreamWaitEvent", [&] { slab<Event>().get(event).wait_on(stream_of(where)); });
  };
  if (limit_ns == 0 && keep_flag(stream, again, task)) return;
  const auto tell_race = [&] {
    if (race::on()) race::waited(key(), named(stream), is_flag());
  };
  const int64_t set = settings().wait_limit_ns.load(std::memory_order_relaxed);
  if (is_flag() || shared_) tell_race();
  if (is_flag()) return FlagTask::submit(stream, *this, FlagTask::wait, task, Cost::kHost, limit_ns ? limit_ns : set);
  if (shared_) return shared_->wait_on(stream, limit_ns ? limit_ns : set, task);
  Position at;
  std::shared_ptr<CaptureMark> mark;
  {
    std::lock_guard lock(mutex_);
    at = recorded_;
    mark = mark_;
  }
  if (mark) {
    if (!Capture::join(stream, *mark)) refuse_captured();
    return tell_race();  // the stream is in the capture only now: what orders it there is kept with the graph
  }
  if (stream.captured()) {
    Capture::invalidate(stream, "the stream was to wait for an event recorded outside the capture");
    fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
         "the stream is being captured, and the event was recorded outside the capture: let the stream wait before the "
         "capture begins, or wait with ACL_EVENT_WAIT_EXTERNAL, which each replay does");
  }
  tell_race();
  if (at.stream == nullptr || at.stream == &stream) return;
  stream.wait_behind(*at.stream, at.target, task, limit_ns ? limit_ns : set, limit_ns ? task : "aclrtSetOpWaitTimeout");
  std::lock_guard lock(mutex_);
  std::erase_if(waits_, [](const Position& p) { return p.stream->done() >= p.target; });
  waits_.push_back({&stream, stream.tail()});
}

void Event::add_external(Stream& stream, Again again, const char* name) {
  const bool good = flags_ == ACL_EVENT_SYNC;
  if (good && keep(stream, again, name)) return;
  if (good || !stream.captured())
    fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the flag EXTERNAL is for streams that are being captured");
  fail(ACL_ERROR_INVALID_PARAM, "the flag EXTERNAL needs an event made with ACL_EVENT_SYNC alone, not %#x", flags_);
}

void Event::record_external(Stream& stream) {
  auto again = [](void* event, aclrtStream where) noexcept {
    return guarded("aclrtRecordEventWithFlag", [&] { slab<Event>().get(event).record(stream_of(where)); });
  };
  add_external(stream, again, "aclrtRecordEventWithFlag");
}

void Event::wait_external(Stream& stream) {
  auto again = [](void* event, aclrtStream where) noexcept {
    return guarded("aclrtStreamWaitEventWithFlag", [&] { slab<Event>().get(event).wait_on(stream_of(where)); });
  };
  add_external(stream, again, "aclrtStreamWaitEventWithFlag");
}

void Event::reset(Stream& stream) {
  const auto again = [](void* event, aclrtStream where) noexcept {
    return guarded("aclrtResetEvent", [&] { slab<Event>().get(event).reset(stream_of(where)); });
  };
  if (keep_flag(stream, again, "aclrtResetEvent")) return;
  if (race::on()) race::taken_down(key(), named(stream));
  if (shared_) fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an event between processes is not reset: record it anew");
  if (is_flag()) return FlagTask::submit(stream, *this, FlagTask::put<0>, "aclrtResetEvent", Cost::kTiny);
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

bool Event::recorded() {
  if (shared_) return shared_->recorded();
  return is_flag() ? flag_ != 0 : position().stream != nullptr;
}

const void* Event::key() const noexcept {
  return shared_ ? static_cast<const void*>(shared_.get()) : static_cast<const void*>(this);
}

bool Event::done() {
  const bool yes = has_happened();
  if (race::on() && yes) race::host_saw(key());
  return yes;
}

bool Event::has_happened() {
  if (shared_) return shared_->done();
  if (is_flag()) return flag_ != 0;
  Position p = position();
  return p.stream == nullptr || p.stream->done() >= p.target;
}

bool Event::waits_done() {
  std::lock_guard lock(mutex_);
  return std::all_of(waits_.begin(), waits_.end(), [](const Position& p) { return p.stream->done() >= p.target; });
}

void Event::synchronize(int64_t deadline) {
  struct Saw {  // also where an error of the stream is reported
    Event& event;
    ~Saw() {
      if (race::on()) race::host_saw(event.key());
    }
  };
  if (shared_) {
    const Saw saw{*this};
    return shared_->synchronize(deadline);
  }
  for (; is_flag() && flag_ == 0; futex_wait(flag_, 0, deadline))
    if (deadline != kForever && now_ns() >= deadline)
      fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event was not recorded within the given time");
  Position p = position();
  if (p.stream == nullptr) return;
  const uint64_t before = p.stream->done();
  if (!p.stream->wait_for(p.target, deadline))
    fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event has not happened within the given time");
  const Saw saw{*this};
  if (before < p.target) p.stream->refuse_dropped(before);
  p.stream->report(p.target);
}

int64_t Event::timestamp_ns() {
  if (!(flags_ & ACL_EVENT_TIME_LINE))
    fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event was made without ACL_EVENT_TIME_LINE: it has no time");
  if (!recorded()) fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event was never recorded");
  if (!done()) fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "the event has not happened yet");
  std::lock_guard lock(mutex_);
  if (time_ns_ == 0) fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event has no time: its stream failed before it");
  return time_ns_;
}

}  // namespace softnpu
