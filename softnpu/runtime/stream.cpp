#include "softnpu/runtime/stream.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "softnpu/race/race.h"
#include "softnpu/runtime/busy.h"
#include "softnpu/runtime/callback.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/settings.h"
#include "softnpu/runtime/spoil.h"
#include "softnpu/runtime/trace.h"
#include "softnpu/runtime/watch.h"
#include "softnpu/sanitize/chaos.h"
#include "softnpu/sanitize/hooks.h"

namespace softnpu {
namespace {

using sanitize::at;
using sanitize::Point;

// The stream whose blocking task or host callback this thread runs.
thread_local const Stream* t_running = nullptr;

}  // namespace

void Stream::open(Context* context, int device, uint32_t priority, uint32_t flags) noexcept {
  if (config().chaos) sanitize::start_chaos(*config().chaos);  // it can be read: a device has been made
  watch_if_asked();
  status_ = 0;
  continue_on_failure_ = false;
  capture_ = nullptr;
  for (auto& a : attributes_) a = 0;
  core_limit_.clear();
  last_wide_ = 0;
  device_ = device;
  context_ = context;
  priority_ = priority;
  flags_ = flags;
  std::lock_guard lock(error_mutex_);
  owed_.clear();
}

// --- accepting and running tasks ---------------------------------------------------------------------------------------

void Stream::submit(Work&& work) {
  if (sanitize::faulty() && !captured())  // what is captured comes with each replay
    return take(spoiled(std::move(work), sanitize::fault_of_task(work.name(), device_)));
  take(std::move(work));
}

inline void Stream::take(Work&& work) {
  at(Point::kSubmit, this, work.name());
  if (race::watched())
    if (std::optional<Work> fenced = watch(*this, work)) return take_on(std::move(*fenced));
  take_on(std::move(work));
}

inline void Stream::take_on(Work&& work) {
  if (__builtin_expect(captured(), 0) && Capture::take(*this, std::move(work))) return;
  if (__builtin_expect(failed(), 0) && !continue_on_failure()) throw_error(false);  // goes on if it was just reported
  if (trace::on()) {
    const trace::Submission call(*this, work);
    return accept(std::move(work));
  }
  accept(std::move(work));
}

inline void Stream::accept(Work&& work) {
  const Cost cost = work.cost();
  if (cost == Cost::kTiny && run_inline(work, false)) return;
  if (cost == Cost::kWide) Executor::make_room_for_compute();
  work.set_thread(thread_number());
  for (bool holder = false; !ring_.push(std::move(work), holder);) {
    if (holder || !ring_.locked()) {
      if (ring_.push_beside(std::move(work), holder, false)) break;
      make_room();
    } else if ((holder = held_here())) {
      if (cost == Cost::kTiny && run_inline(work, true)) return;
      if (ring_.half_full() && replayed_here() && ring_.push_beside(std::move(work), true, true)) break;
    } else {
      wait_until_open();
    }
  }
  at(Point::kQueued, this);
  schedule(cost);
}

void Stream::wait_behind(Stream& source, uint64_t target, const char* task, int64_t limit_ns, const char* limit) {
  if (source.done() >= target && !source.failed() && !source.owed_.any()) return;
  auto nothing = [](void*) noexcept { return 0; };
  submit(Work({nothing, nullptr, nullptr, task, Cost::kWait}, WaitPayload{&source, target, limit_ns, limit}));
}

inline bool Stream::run_inline(Work& work, bool holder) noexcept {
  if (!take_if_idle()) return false;
  const bool claimed = ring_.claim_inline(holder);
  if (claimed) {
    execute(work);
    ring_.finish_inline();
  }
  token_.release();
  return claimed;
}

void Stream::execute(Work& work) noexcept {
  if (__builtin_expect(!skipped(), 1)) {
    const bool blocks = work.cost() > Cost::kWide;
    const Stream* outer = nullptr;
    if (__builtin_expect(blocks, 0)) outer = std::exchange(t_running, this);
    int code = at(Point::kBegin, this, work.name());
    const int64_t began = __builtin_expect(work.ticket() != 0, 0) ? trace::now() : 0;
    const Runs runs(runs_, work.cost() > Cost::kTiny ? work.name() : nullptr);
    if (__builtin_expect(code == 0, 1)) code = work.run();
    if (__builtin_expect(began != 0, 0)) trace::ran(work.take_ticket(), *this, ring_.done() + 1, began, code);
    at(Point::kEnd, this, work.name());
    if (__builtin_expect(blocks, 0)) t_running = outer;
    if (__builtin_expect(code != 0, 0)) {
      set_failure(code, work.name(), take_recent_message(), 0);
      owe(work);
    }
  } else if (ring_.done() >= aborted_until_.load(std::memory_order_relaxed)) {
    owe(work);
  }
  work.drop();
}

bool Stream::running_task_aborted() noexcept {
  const Stream* s = t_running;
  return life() != Life::kRunning || (s && s->ring_.done() < s->skip_until_.load(std::memory_order_relaxed));
}

void Stream::refuse_in_callback() const {
  if (t_running == this)
    fail(
        ACL_ERROR_RT_NO_PERMISSION,
        "a host callback or a task of the stream cannot wait for the stream itself: let another thread do it, or do it "
        "after the callback");
}

const Stream* running_stream() noexcept { return t_running; }

Stream::Callback::Callback(const Stream* stream) noexcept : outer_(std::exchange(t_running, stream)) {}
Stream::Callback::~Callback() { t_running = outer_; }

void Stream::give_up_if_stuck(bool begins_replay) const {
  if (t_running == nullptr) return;
  if (ring_.full(begins_replay)) refuse_in_callback();
  if (running_task_aborted()) fail(ACL_ERROR_RT_STREAM_ABORT, "the stream of the host callback that calls was aborted");
}

void Stream::skip_until(std::atomic<uint64_t>& limit, uint64_t position) noexcept {
  uint64_t now = limit.load(std::memory_order_relaxed);
  while (now < position && !limit.compare_exchange_weak(now, position, std::memory_order_seq_cst)) {
  }
}

void Stream::abort() noexcept {
  const uint64_t position = ring_.tail();
  skip_until(aborted_until_, position);
  skip_until(skip_until_, position);
}

// --- threads that run it ---------------------------------------------------------------------------------------------------

bool Stream::may_run(Runner runner, Work& work, const Turn* turn) noexcept {
  if (skipped()) return true;
  bool over = false;
  if (work.cost() == Cost::kWait) {
    auto& wait = work.payload<WaitPayload>();
    over = wait.source->done() >= wait.target;
  }
  return schedule::may_run(runner, work.cost(), turn && turn->executor.has_others(), over);
}

// A wait for another stream: the token is held, but nobody else could go on here anyway. Then its error is this stream's.
void Stream::block_on(Work& work) noexcept {
  const auto& wait = work.payload<WaitPayload>();
  Stream& source = *wait.source;
  const Behind behind(behind_, source);
  const int64_t end = deadline_after_ns(wait.limit_ns);
  while (!source.ring_.progress().wait(wait.target, std::min(now_ns() + schedule::kAbortNs, end), 64)) {
    if (skipped() || life() != Life::kRunning) return;
    if (now_ns() >= end) {
      char text[128];
      snprintf(text, sizeof text, "the event has not happened within %g s (%s)", wait.limit_ns * 1e-9, wait.limit);
      return set_failure(ACL_ERROR_RT_WAIT_TIMEOUT, work.name(), text, 0);
    }
  }
  Failure cause;
  if (source.failed() && !source.continue_on_failure()) {
    cause = source.failure(false, wait.target);
  } else if (source.owed_.any()) {  // reported to another thread: what this one had queued there was skipped
    if (auto owed = source.take_owed(work.thread(), wait.target)) cause = {owed->code, std::move(owed->message)};
  }
  if (cause.code == 0) return;
  std::optional<std::string> text;
  try {
    text = "the stream it waits for has failed: " + cause.text;
  } catch (...) {
  }
  set_failure(cause.code, work.name(), text ? text->c_str() : "the stream it waits for has failed", cause.cause);
}

// Token held. Runs the oldest tasks until `target` is done, the queue is empty, the turn is over, or the next task is not this
// runner's.
Stream::Stop Stream::run_queue(Runner runner, uint64_t target, Turn* turn) noexcept {
  Stretch stretch(device());
  for (;;) {
    if (ring_.done() >= target) return Stop::kTarget;
    Work* work = ring_.front();
    if (work == nullptr) return ring_.empty() ? Stop::kEmpty : Stop::kPending;
    if (turn && turn->served && turn->executor.turn_is_over(*this, turn->began)) return Stop::kTurnOver;
    if (!may_run(runner, *work, turn)) return Stop::kNotMine;
    if (work->cost() == Cost::kWide) last_wide_.store(ring_.done() + 1, std::memory_order_relaxed);
    work->cost() <= Cost::kWide ? stretch.work() : stretch.rest();
    if (work->cost() == Cost::kWait && !skipped()) block_on(*work);
    execute(*work);
    ring_.pop();
    if (turn) turn->served = true;
  }
}

// --- executors -----------------------------------------------------------------------------------------------------------

Executor& Stream::executor_for(Cost cost) noexcept {
  const uint64_t wide = last_wide_.load(std::memory_order_relaxed);
  const uint64_t since = wide ? ring_.done() - wide : UINT64_MAX;
  return schedule::on_compute(cost, since, Executor::compute().has_others()) ? Executor::compute() : worker_;
}

void Stream::schedule(Cost cost) noexcept {
  // Order: push moved the tail before we look here; drive() clears scheduled_ before it looks at the tail (all seq_cst).
  if (scheduled_.load(std::memory_order_seq_cst) || scheduled_.exchange(true, std::memory_order_seq_cst)) return;
  hand_to(executor_for(cost));
}

// The caller has made the stream scheduled. Where no thread can be started the stream fails, and who waits for it drops its
// tasks, or tries again.
void Stream::hand_to(Executor& executor) noexcept {
  at(Point::kPost, this);
  try {
    executor.post(this);
  } catch (...) {
    set_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "the stream", "cannot start a thread to run it (ulimit -u)", 0);
    scheduled_.store(false, std::memory_order_seq_cst);
  }
}

void Stream::drive(Executor& me) noexcept {
  at(Point::kTurn, this);
  Turn turn{me, now_ns()};
  for (;;) {
    Stop stop = Stop::kEmpty;
    Cost next = Cost::kTiny;
    if (!ring_.empty()) {  // a helper may have been faster: then leave the token to callers
      if (!token_.take(me.as() == Runner::kCompute ? now_ns() + schedule::kTokenNs : kForever)) return hand_to(worker_);
      stop = run_queue(me.as(), UINT64_MAX, &turn);
      if (stop == Stop::kNotMine) next = ring_.front()->cost();
      token_.release();
    }
    switch (stop) {
      case Stop::kNotMine:  // still scheduled: the next executor takes over as it is
        return hand_to(executor_for(next));
      case Stop::kTurnOver:
        return hand_to(me);
      case Stop::kPending:  // a producer is between its two stores
        if (me.has_others()) return hand_to(me);
        sched_yield();
        break;
      default:
        if (linger(me)) break;
        at(Point::kEmptied, this);
        scheduled_.store(false, std::memory_order_seq_cst);
        if (ring_.empty() || scheduled_.exchange(true, std::memory_order_seq_cst)) return;
    }
  }
}

// True when more work has come. The token is free meanwhile: tiny tasks run on their callers.
bool Stream::linger(Executor& me) noexcept {
  for (uint32_t i = lookout_.pauses(); i > 0; --i) {
    if (!ring_.empty()) {
      lookout_.rewarded();
      return true;
    }
    if (me.has_others()) return false;
    cpu_relax();
  }
  lookout_.disappointed();
  return false;
}

// --- threads that wait ---------------------------------------------------------------------------------------------------

// The queue is full: run some of it, or wait until a few cells are free.
void Stream::make_room(bool for_replay) {
  give_up_if_stuck(for_replay);
  uint64_t target = ring_.done() + Ring::kCapacity / 8;
  if (token_.try_take()) {
    Stop stop = run_queue(Runner::kCaller, target, nullptr);
    token_.release();
    if (stop == Stop::kTarget || stop == Stop::kEmpty) return;
  }
  schedule(Cost::kTiny);
  const int64_t look = t_running ? schedule::kAbortNs : schedule::kLookNs;
  ring_.progress().wait(std::min(target, ring_.tail()), now_ns() + look, schedule::kSpins);
}

bool Stream::wait_for(uint64_t target, int64_t deadline) {
  at(Point::kWait, this);
  const Runner runner = deadline == kForever ? Runner::kWaiter : Runner::kCaller;
  for (;;) {
    if (ring_.done() >= target) return true;
    if (__builtin_expect(t_running != nullptr, 0)) {
      refuse_in_callback();
      give_up_if_stuck();
    }
    if (token_.try_take()) {
      Stop stop = run_queue(runner, target, nullptr);
      token_.release();
      if (stop == Stop::kTarget || stop == Stop::kEmpty) continue;
      if (stop == Stop::kPending) {
        sched_yield();
        continue;
      }
      schedule(Cost::kTiny);  // somebody is responsible, unless no thread could be started
    }
    // Somebody runs it, or its next task is not for callers. Look again now and then: the head may have become ours.
    const int64_t until = std::min(now_ns() + (t_running ? schedule::kAbortNs : schedule::kLookNs), deadline);
    if (ring_.progress().wait(target, until, schedule::kSpins)) return true;
    if (deadline != kForever && now_ns() >= deadline) return false;
  }
}

void Stream::synchronize(int64_t deadline, int timeout_code) {
  if (captured()) Capture::refuse_waiting(*this);
  const uint64_t before = done();
  if (!wait_for(ring_.tail(), deadline)) time_out(timeout_code);
  if (race::on()) race::host_waited(this);
  refuse_dropped(before);
  report();
}

void Stream::synchronize_all(int device, int64_t deadline, int timeout_code) {
  std::vector<std::pair<Stream*, uint64_t>> all;  // that are asked, and what each had done before
  slab<Stream>().each([&](Stream& s) {
    if (s.device() != device) return;
    if (s.captured() && Capture::becomes_graph(s)) Capture::refuse_waiting(s);  // an update has nothing to wait for
    if (s.idle() && !s.failed() && !s.owed_.any() && !race::on()) return;       // the usual stream
    all.emplace_back(&s, s.done());
  });
  for (const auto& [s, before] : all)
    if (!s->wait_for(s->ring_.tail(), deadline)) s->time_out(timeout_code);
  if (race::on())
    for (const auto& [s, before] : all) race::host_waited(s);
  for (const auto& [s, before] : all) s->refuse_dropped(before);
  Failure first;
  for (const auto& [s, before] : all) {
    if (!s->failed()) continue;
    Failure f = s->failure(false);
    if (f.code && (first.code == 0 || f.cause < first.cause)) first = std::move(f);
  }
  if (first.code == 0) {
    for (const auto& [s, before] : all) s->report();
    return;
  }
  for (const auto& [s, before] : all) s->failure(true, UINT64_MAX, first.cause);
  throw Error{first.code, std::move(first.text)};
}

// A thread that is exiting has no thread-local objects any more, which kernels use: it leaves what is queued to the workers.
bool Stream::drain_all(int64_t deadline) noexcept {
  bool all = true;
  slab<Stream>().each([&](Stream& s) {
    const uint64_t last = s.tail();
    while (s.done() < last && !t_running && now_ns() < deadline) {
      s.schedule(Cost::kTiny);
      s.ring_.progress().wait(last, now_ns() + schedule::kLookNs, schedule::kSpins);
    }
    all = all && s.done() >= last;
  });
  return all;
}

Stream& stream_of(void* handle) { return handle ? slab<Stream>().get(handle) : current_context().default_stream(); }

}  // namespace softnpu
