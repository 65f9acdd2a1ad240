#include "softnpu/runtime/stream.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/log.h"
#include "softnpu/runtime/settings.h"

namespace softnpu {
namespace {

// How long (in pauses, ~40 ns each) an executor looks for more work before it sleeps, and a caller for the end of its wait.
// It adapts: doubled when more work came, halved when none did, so that idle streams cost nothing on a small machine.
constexpr uint32_t kMinSpin = 16, kMaxSpin = 512;
const int kCallerSpin = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 256 : 0;
// A stream that ran a wide task this recently keeps to the compute thread: no handing over between two threads.
constexpr uint64_t kWideMemory = 256;
// How often a blocked wait looks whether its stream was aborted.
constexpr int64_t kAbortPollNs = 20'000'000;

void drop(const Task& task, void* state) noexcept {
  if (task.drop) task.drop(state);
}

}  // namespace

void Stream::open(Context* context, int device, uint32_t priority, uint32_t flags) noexcept {
  status_ = 0;
  continue_on_failure_ = false;
  aborted_ = false;
  capture_ = nullptr;
  for (auto& a : attributes_) a = 0;
  last_wide_ = 0;
  device_ = device;
  context_ = context;
  priority_ = priority;
  flags_ = flags;
}

int Stream::submit(const Task& task, const void* payload, size_t payload_bytes) {
  void* state = task.state ? task.state : const_cast<void*>(payload);
  if (Capture* capture = capture_.load(std::memory_order_acquire); __builtin_expect(capture != nullptr, 0)) {
    capture->add(*this, task, payload, payload_bytes);
    return 0;
  }
  if (__builtin_expect(failed(), 0) && !continue_on_failure()) {
    drop(task, state);
    throw_error(false);
  }
  if (task.cost == Cost::kTiny && take_if_idle()) {
    if (ring_.claim_inline()) {
      execute(task, state);
      ring_.pop();
      token_.release();
      return 0;
    }
    token_.release();
  }
  try {
    while (!ring_.push(task, payload, payload_bytes)) make_room();
  } catch (...) {
    drop(task, state);
    throw;
  }
  schedule(task.cost);
  return 0;
}

void Stream::execute(const Task& task, void* state) noexcept {
  bool skip = (status_.load(std::memory_order_relaxed) != 0 && !continue_on_failure()) ||
              aborted_.load(std::memory_order_relaxed);
  if (__builtin_expect(!skip, 1)) {
    if (int code = task.run(state); __builtin_expect(code != 0, 0)) {
      set_error(code, task.name, take_recent_message());
    }
  }
  drop(task, state);
}

bool Stream::may_run(Runner runner, Executor* me, Work& work) noexcept {
  if (work.task.cost == kWait) {
    auto* w = reinterpret_cast<WaitPayload*>(work.payload);
    return w->source->done() >= w->target || runner == Runner::kWorker;
  }
  switch (work.task.cost) {
    case Cost::kTiny:
    case Cost::kSerial:
      // The compute thread leaves other streams' wide tasks waiting for no serial one.
      return runner != Runner::kCompute || !me->has_others();
    case Cost::kWide:
      return runner == Runner::kCompute;
    case Cost::kBlocking:
      return runner == Runner::kWorker || runner == Runner::kWaiter;
    default:
      return runner == Runner::kWorker;
  }
}

// A wait for another stream, on the worker: the token is held, but nobody else could go on here anyway.
void Stream::block_on(Work& work) noexcept {
  auto* w = reinterpret_cast<WaitPayload*>(work.payload);
  const int64_t limit = settings().wait_limit_ns, begin = now_ns();
  while (!aborted_.load(std::memory_order_relaxed) && life() == Life::kRunning) {
    if (w->source->ring_.progress().wait(w->target, now_ns() + kAbortPollNs, 64)) return;
    if (limit && now_ns() - begin >= limit)
      return set_error(107019, work.task.name, "the event has not happened within the limit of aclrtSetOpWaitTimeout");
  }
}

// Token held. Runs the oldest tasks until `target` is done, the queue is empty, or the next one is not this runner's.
Stream::Stop Stream::run_queue(Runner runner, Executor* me, uint64_t target) noexcept {
  for (;;) {
    if (ring_.done() >= target) return Stop::kTarget;
    Work* work = ring_.front();
    if (work == nullptr) return ring_.empty() ? Stop::kEmpty : Stop::kPending;
    if (!may_run(runner, me, *work)) return Stop::kNotMine;
    if (work->task.cost == Cost::kWide) last_wide_.store(ring_.done() + 1, std::memory_order_relaxed);
    if (work->task.cost == kWait) {
      block_on(*work);
      inherit_error(*reinterpret_cast<WaitPayload*>(work->payload)->source, work->task.name);
    }
    execute(work->task, work->state());
    ring_.pop();
  }
}

Executor& Stream::executor_for(Cost cost) noexcept {
  switch (cost) {
    case Cost::kWide:
      return Executor::compute();
    case Cost::kTiny:
    case Cost::kSerial: {
      uint64_t wide = last_wide_.load(std::memory_order_relaxed);
      bool recent = wide && ring_.done() - wide < kWideMemory;
      return recent && !Executor::compute().has_others() ? Executor::compute() : worker_;
    }
    default:
      return worker_;
  }
}

void Stream::schedule(Cost cost) {
  // Order: push moved the tail before we look here; drive() clears scheduled_ before it looks at the tail (all seq_cst).
  if (scheduled_.load(std::memory_order_seq_cst) || scheduled_.exchange(true, std::memory_order_seq_cst)) return;
  try {
    executor_for(cost).post(this);
  } catch (...) {
    scheduled_.store(false);  // the task stays queued: a synchronizing caller runs it
    fail(207005, "cannot start the stream's worker thread");
  }
}

void Stream::drive(Executor& me) noexcept {
  Runner runner = me.kind() == Executor::Kind::kCompute ? Runner::kCompute : Runner::kWorker;
  for (;;) {
    Stop stop = Stop::kEmpty;
    Cost next = Cost::kTiny;
    if (!ring_.empty()) {  // a helper may have been faster: then leave the token to callers
      token_.take();
      stop = run_queue(runner, &me, UINT64_MAX);
      if (stop == Stop::kNotMine) next = ring_.front()->task.cost;
      token_.release();
    }
    switch (stop) {
      case Stop::kNotMine: {
        // Still scheduled: the next executor takes over as it is. Wide work queues behind the other streams' own.
        Executor& other = next == Cost::kWide ? Executor::compute() : worker_;
        try {
          other.post(this);
        } catch (...) {
          scheduled_.store(false);
        }
        return;
      }
      case Stop::kPending:
        sched_yield();  // a producer is between its two stores
        break;
      default:
        if (linger(me)) break;
        scheduled_.store(false, std::memory_order_seq_cst);
        if (ring_.empty() || scheduled_.exchange(true, std::memory_order_seq_cst)) return;
    }
  }
}

// True when more work has come. The token is free meanwhile: tiny tasks run on their callers.
bool Stream::linger(Executor& me) noexcept {
  if (kCallerSpin == 0) return false;
  spin_budget_ = std::clamp(spin_budget_, kMinSpin, kMaxSpin);
  for (uint32_t i = 0; i < spin_budget_; ++i) {
    if (!ring_.empty()) {
      spin_budget_ *= 2;
      return true;
    }
    if (me.has_others()) return false;
    cpu_relax();
  }
  spin_budget_ /= 2;
  return false;
}

// The queue is full: run some of it, or wait until a few cells are free.
void Stream::make_room() {
  uint64_t target = ring_.done() + Ring::kCapacity / 8;
  if (token_.try_take()) {
    Stop stop = run_queue(Runner::kCaller, nullptr, target);
    token_.release();
    if (stop == Stop::kTarget || stop == Stop::kEmpty) return;
  }
  schedule(Cost::kTiny);
  ring_.progress().wait(std::min(target, ring_.tail()), now_ns() + 1'000'000'000, kCallerSpin);
}

bool Stream::wait_for(uint64_t target, int64_t deadline) {
  for (;;) {
    if (ring_.done() >= target) return true;
    if (token_.try_take()) {
      Stop stop = run_queue(deadline == kForever ? Runner::kWaiter : Runner::kCaller, nullptr, target);
      token_.release();
      if (stop == Stop::kTarget || stop == Stop::kEmpty) continue;
      if (stop == Stop::kPending) {
        sched_yield();
        continue;
      }
    }
    // Somebody runs it, or its next task is not for callers. Look again now and then: the head may have become ours.
    bool bounded = deadline != kForever;
    int64_t until = now_ns() + 50'000'000;
    if (ring_.progress().wait(target, bounded ? std::min(until, deadline) : until, kCallerSpin)) return true;
    if (bounded && now_ns() >= deadline) return false;
  }
}

void Stream::synchronize(int64_t deadline, int timeout_code) {
  if (capture_.load(std::memory_order_acquire))
    fail(107027, "the stream is being captured into a graph: it cannot be synchronized");
  if (!wait_for(ring_.tail(), deadline)) fail(timeout_code, "the stream has not finished within the given time");
  if (failed()) throw_error(true);
}

void Stream::set_error(int code, const char* task, const char* message) noexcept {
  std::lock_guard lock(error_mutex_);
  if (status_.load(std::memory_order_relaxed) != 0) return;  // the first error is the cause
  try {
    error_ = std::string(task ? task : "task") + " failed on device " + std::to_string(device()) + ": " +
             (message && *message ? message : "no message");
  } catch (...) {
    error_.clear();
  }
  log_line(kError, "stream error %d: %s", code, error_.c_str());
  status_.store(code, std::memory_order_release);
}

void Stream::inherit_error(Stream& source, const char* task) noexcept {
  if (source.status_.load(std::memory_order_acquire) == 0 || source.continue_on_failure()) return;
  try {
    source.throw_error(false);
  } catch (const Error& cause) {
    set_error(cause.code, task, ("the stream it waits for has failed: " + cause.message).c_str());
  } catch (...) {
    set_error(source.status_.load(), task, "the stream it waits for has failed");
  }
}

void Stream::throw_error(bool clear) {
  std::string text;
  int code;
  {
    std::lock_guard lock(error_mutex_);
    code = status_.load(std::memory_order_relaxed);
    text = error_;
    if (clear) status_.store(0, std::memory_order_release);
  }
  if (code != 0) throw Error{code, std::move(text)};
}

bool Stream::drain_all(int64_t deadline) noexcept {
  bool all = true;
  slab<Stream>().each([&](Stream& s) {
    try {
      all = s.wait_for(s.tail(), deadline) && all;
    } catch (...) {
      all = false;
    }
  });
  return all;
}

Stream& stream_of(void* handle) { return handle ? slab<Stream>().get(handle) : current_context().default_stream(); }

}  // namespace softnpu
