// A stream: a queue of tasks run one at a time and in order, by whichever thread is best placed. The rules:
//   - who holds the token runs; callers (inline, helping) only try for it, executors wait for it;
//   - a tiny task on an empty stream runs on its caller; anything else is queued and an executor is made responsible;
//   - callers run tiny and serial tasks only; wide ones belong to the compute thread; host callbacks, collectives and waits
//     for another stream belong to the stream's own worker;
//   - a task's error stays on the stream: later tasks are skipped, later calls return it, until a synchronizing call reports it.
// Lock order: none is held while a task runs. error_mutex_ is a leaf.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "softnpu/runtime/executor.h"
#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/ring.h"
#include "softnpu/runtime/token.h"

namespace softnpu {

class Capture;
class Context;

// Our own kind of task: waits until another stream has come to a position (its payload is a WaitPayload).
inline constexpr Cost kWait = Cost(5);

// In graphs only: not run, but asked for a new task at each replay (enqueue.h: record; its payload is the Again).
inline constexpr Cost kAgain = Cost(6);

struct WaitPayload {
  Stream* source;
  uint64_t target;
};

class Stream {
 public:
  static constexpr uint8_t kMagic = 0x51;
  static constexpr uint32_t kMaxCount = 1 << 14;
  static constexpr const char* kNoun = "stream";

  Stream() : worker_(Executor::Kind::kWorker) {}

  // Prepares a slot taken from the slab. Positions go on where the previous user of the slot stopped.
  void open(Context* context, int device, uint32_t priority, uint32_t flags) noexcept;

  int device() const noexcept { return device_.load(std::memory_order_relaxed); }
  Context* context() const noexcept { return context_.load(std::memory_order_relaxed); }
  uint32_t priority() const noexcept { return priority_.load(std::memory_order_relaxed); }
  void set_priority(uint32_t p) noexcept { priority_ = p; }
  uint32_t flags() const noexcept { return flags_; }
  void set_continue_on_failure(bool on) noexcept { continue_on_failure_ = on; }
  bool continue_on_failure() const noexcept { return continue_on_failure_.load(std::memory_order_relaxed); }

  // Attributes that are kept and answered, by aclrtStreamAttr.
  std::atomic<uint32_t>& attribute(unsigned which) noexcept { return attributes_[which % kAttributes]; }

  // Accepts a task: runs it now or queues it. Returns 0, or the stream's sticky error (the task is then dropped).
  // Throws when the queue or the worker cannot be made (the task is then dropped too).
  int submit(const Task& task, const void* payload = nullptr, size_t payload_bytes = 0);

  // Runs `body()` on the calling thread if the stream is empty, as a tiny task would. False: the caller must submit instead.
  template <class Body>
  bool run_now(Body&& body) noexcept {
    if (capture_.load(std::memory_order_acquire) || failed() || !take_if_idle()) return false;
    bool claimed = ring_.claim_inline();
    if (claimed) {
      body();
      ring_.pop();
    }
    token_.release();
    return claimed;
  }

  uint64_t tail() const noexcept { return ring_.tail(); }
  uint64_t done() const noexcept { return ring_.done(); }
  bool idle() const noexcept { return ring_.empty(); }

  // Waits until `target` tasks are done, running some itself meanwhile. False at the deadline.
  bool wait_for(uint64_t target, int64_t deadline);
  // Waits for everything accepted so far, then reports and clears the sticky error (throws Error). Throws on timeout.
  void synchronize(int64_t deadline, int timeout_code);

  bool failed() const noexcept { return status_.load(std::memory_order_acquire) != 0; }
  // Throws the sticky error, and clears it if `clear`.
  void throw_error(bool clear);
  void set_error(int code, const char* task, const char* message) noexcept;
  void inherit_error(Stream& source, const char* task) noexcept;  // of a stream whose event it waited for

  // Queued tasks are dropped unrun from now on; a blocked wait gives up.
  void abort() noexcept { aborted_ = true; }
  void clear_abort() noexcept { aborted_ = false; }

  // Executors only: runs the stream until it is empty or another executor must go on.
  void drive(Executor& me) noexcept;

  // Every live stream of the process; false at the deadline.
  static bool drain_all(int64_t deadline) noexcept;

  std::atomic<Capture*>& capture() noexcept { return capture_; }

 private:
  // A waiter has no deadline and nothing else to do until the task is done, so it may block in it.
  enum class Runner : uint8_t { kCaller, kWaiter, kWorker, kCompute };
  enum class Stop : uint8_t { kTarget, kEmpty, kNotMine, kPending };

  // Takes the token unless the stream is busy. An executor that has just run the last task still holds it for some 50 ns.
  bool take_if_idle() noexcept {
    for (int i = 0; i < 8; ++i) {
      if (token_.try_take()) return true;
      if (!ring_.empty()) return false;
      cpu_relax();
    }
    return false;
  }

  Stop run_queue(Runner runner, Executor* me, uint64_t target) noexcept;
  bool may_run(Runner runner, Executor* me, Work& work) noexcept;
  void execute(const Task& task, void* state) noexcept;
  void block_on(Work& work) noexcept;
  bool linger(Executor& me) noexcept;
  void make_room();
  void schedule(Cost cost);
  Executor& executor_for(Cost cost) noexcept;

  Token token_;
  std::atomic<int> status_{0};
  std::atomic<bool> continue_on_failure_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> scheduled_{false};  // an executor is responsible for the queue
  std::atomic<Capture*> capture_{nullptr};
  Ring ring_;
  Executor worker_;
  std::atomic<uint64_t> last_wide_{0};  // position + 1 of the last wide task
  uint32_t spin_budget_ = 0;            // the responsible executor's
  std::atomic<int> device_{-1};
  std::atomic<Context*> context_{nullptr};
  std::atomic<uint32_t> priority_{0};
  uint32_t flags_ = 0;
  static constexpr unsigned kAttributes = 8;
  std::atomic<uint32_t> attributes_[kAttributes] = {};
  std::mutex error_mutex_;
  std::string error_;
};

// The stream a handle names; null means the current context's default stream. Throws for a bad handle.
Stream& stream_of(void* handle);

}  // namespace softnpu
