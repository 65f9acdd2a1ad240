// A stream: a queue of tasks run one at a time and in order, by whichever thread is best placed (schedule.h). The rules:
//   - who holds the token runs; callers (inline, helping) only try for it, executors wait for it;
//   - a tiny task on an empty stream runs on its caller; anything else is queued and an executor is made responsible;
//   - a task has one owner (work.h): the caller until `submit` has accepted it, then the ring, or the capture;
//   - a task's error stays on the stream: later tasks are skipped, later calls return it, until a synchronizing call reports
//     it. Whatever was accepted before the report is skipped, whatever comes after it runs. Other threads whose tasks were
//     skipped get the same error when they wait (owed.h);
//   - who must put several tasks on it without another's between them holds it (Hold); others wait before they are accepted;
//   - a host callback may put tasks on its own stream while there is room, but never wait for it: such a call is refused.
// Lock order: a graph's TaskList::replaying, a Hold, a communicator's submit_mutex (hccl), then the leaves, error_mutex_ among them.
// The first three may be held while a tiny or serial task runs on its caller: such a kernel replays no graph and calls no hccl.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "softnpu/runtime/core_limit.h"
#include "softnpu/runtime/executor.h"
#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/owed.h"
#include "softnpu/runtime/ring.h"
#include "softnpu/runtime/running.h"
#include "softnpu/runtime/schedule.h"
#include "softnpu/runtime/token.h"

namespace softnpu {

class Capture;
class Context;

// Of a task of cost kWait.
struct WaitPayload {
  Stream* source;
  uint64_t target;
  int64_t limit_ns;   // from when the stream comes to it; 0: none
  const char* limit;  // what set it
};

class Stream {
 public:
  static constexpr uint8_t kMagic = 0x51;
  static constexpr uint32_t kMaxCount = 1 << 14;
  static constexpr const char* kNoun = "stream";

  Stream() : worker_(Runner::kWorker) {}

  // Prepares a slot taken from the slab. Positions go on where the previous user of the slot stopped.
  void open(Context* context, int device, uint32_t priority, uint32_t flags) noexcept;

  int device() const noexcept { return device_.load(std::memory_order_relaxed); }
  Context* context() const noexcept { return context_.load(std::memory_order_relaxed); }
  uint32_t priority() const noexcept { return priority_.load(std::memory_order_relaxed); }
  void set_priority(uint32_t p) noexcept { priority_ = p; }
  uint32_t flags() const noexcept { return flags_; }
  void set_continue_on_failure(bool on) noexcept { continue_on_failure_ = on; }
  bool continue_on_failure() const noexcept { return continue_on_failure_.load(std::memory_order_relaxed); }

  CoreLimit& core_limit() noexcept { return core_limit_; }
  const CoreLimit& core_limit() const noexcept { return core_limit_; }

  // Attributes that are kept and answered, by aclrtStreamAttr.
  std::atomic<uint32_t>& attribute(unsigned which) noexcept { return attributes_[which % kAttributes]; }

  // Accepts a task: runs it now or queues it. Throws the stream's sticky error, or that there is no memory for the queue: the
  // task is then still the caller's, whose Work drops it.
  void submit(Work&& work);
  // Goes on after that position of another stream, or with its error. It fails after `limit_ns` (0: never), which `limit` names.
  void wait_behind(Stream& source, uint64_t target, const char* task, int64_t limit_ns = 0, const char* limit = "");

  // Runs `body()` on the calling thread if the stream is empty, as a tiny task would. False: the caller must submit instead.
  template <class Body>
  bool run_now(Body&& body) noexcept {
    if (captured() || failed() || !take_if_idle()) return false;
    bool claimed = ring_.claim_inline();
    if (claimed) {
      body();
      ring_.finish_inline();
    }
    token_.release();
    return claimed;
  }

  uint64_t tail() const noexcept { return ring_.tail(); }
  uint64_t done() const noexcept { return ring_.done(); }
  bool idle() const noexcept { return ring_.empty(); }

  // Waits until `target` tasks are done, running some itself meanwhile. False at the deadline.
  // Throws in a host callback of this stream, for what can be done only after it, and where the callback's stream is aborted.
  bool wait_for(uint64_t target, int64_t deadline);
  // Waits for everything accepted so far, then reports and clears the sticky error (throws Error). Throws on timeout.
  void synchronize(int64_t deadline, int timeout_code);
  // The same for every stream of a device: reports the earliest error, and clears it from all streams that have inherited it.
  // Errors of another cause stay for the next call.
  static void synchronize_all(int device, int64_t deadline, int timeout_code);

  bool failed() const noexcept { return status_.load(std::memory_order_acquire) != 0; }
  // Throws the sticky error if it is of one of the first `until` tasks, and clears it if `clear`. Does nothing when there is none.
  void throw_error(bool clear, uint64_t until = UINT64_MAX);
  // For who has waited: throws the sticky error and clears it, or what the calling thread is owed. Does nothing without either.
  void report(uint64_t until = UINT64_MAX) {
    if (failed()) throw_error(true, until);
    if (__builtin_expect(owed_.any(), 0)) throw_owed(until);
  }

  // Drops what is queued, unrun: tasks accepted before this call, and no others. A blocked one gives up. `wait_for` then waits
  // for the one that runs.
  void abort() noexcept;
  // Drops what is queued on every stream of a device, and waits for the tasks that run. Who waits for one of them meanwhile gets
  // ACL_ERROR_RT_DEVICE_TASK_ABORT; after it no stream has an error, and nobody is owed one. Throws on timeout.
  static void abort_all(int device, int64_t deadline);
  // For who has waited since `done` tasks were done: throws if abort_all has dropped what it waited for.
  void refuse_dropped(uint64_t done) const;
  // In a task: has its stream been aborted, so that it should give up what it blocks on? For costs kBlocking and kHost.
  static bool running_task_aborted() noexcept;
  // Throws ACL_ERROR_RT_NO_PERMISSION in a host callback of this stream.
  void refuse_in_callback() const;

  // While it lives, the calling thread runs a host callback of the stream, which waits for that.
  class Callback {
   public:
    explicit Callback(const Stream* stream) noexcept;
    ~Callback();
    Callback(const Callback&) = delete;

   private:
    const Stream* outer_;
  };

  // While it lives, tasks of other threads come before all that the calling thread puts on the stream, or after it. Nests.
  class Hold {
   public:
    // `replay`: its tasks wait for no room, once those of earlier replays have left enough.
    explicit Hold(Stream& stream, bool replay = false);
    ~Hold();
    Hold(const Hold&) = delete;

   private:
    Stream* stream_;  // null if the thread held it before
    Hold* outer_;     // the thread's holds
    const bool replay_;
    friend class Stream;
  };
  // For who waits for a lock that a thread holds while it puts tasks on this stream, now and then: throws in a host callback
  // that stands in the other's way, or is to be aborted. `begins_replay`: the thread waits for what a new replay needs.
  void give_up_if_stuck(bool begins_replay = false) const;

  // Executors only: runs the stream until it is empty, its turn is over, or another executor must go on.
  void drive(Executor& me) noexcept;

  // Every live stream of the process; false at the deadline.
  static bool drain_all(int64_t deadline) noexcept;

  bool captured() const noexcept { return capture_.load(std::memory_order_acquire) != nullptr; }

 private:
  friend class Capture;  // sets capture_, with its lock held
  enum class Stop : uint8_t { kTarget, kEmpty, kNotMine, kPending, kTurnOver };
  // An executor's turn with this stream.
  struct Turn {
    Executor& executor;
    int64_t began;
    bool served = false;  // it has run something
  };
  struct Failure {
    int code = 0;
    std::string text;
    uint64_t position = 0;  // of the task that failed, counted from one
    uint64_t cause = 0;     // counts failures of the process: an inherited one has its source's
  };

  // Takes the token unless the stream is busy. An executor that has just run the last task still holds it for some 50 ns.
  bool take_if_idle() noexcept {
    for (int i = 0; i < 8; ++i) {
      if (token_.try_take()) return true;
      if (!ring_.empty()) return false;
      cpu_relax();
    }
    return false;
  }

  // The three stages of `submit`, each of which ends in the next. Where one throws, the task is dropped unrun.
  // take: the race detector and the memory checker are told of it; the latter may put it into a task that looks at memory around it.
  void take(Work&& work);
  // take_on: what does not reach the queue: a capture keeps it, a sticky error refuses it. From here on profilers time the call.
  void take_on(Work&& work);
  // accept: runs a tiny task here, or queues it and makes an executor responsible. Waits for room, and for another thread's Hold.
  void accept(Work&& work);
  // True: the stream was idle, and the task has run on the calling thread. `holder`: which holds the stream (Hold).
  bool run_inline(Work& work, bool holder) noexcept;
  bool held_here() const noexcept;
  bool replayed_here() const noexcept;  // held, for a replay
  void wait_until_open();
  Stop run_queue(Runner runner, uint64_t target, Turn* turn) noexcept;
  bool may_run(Runner runner, Work& work, const Turn* turn) noexcept;
  void execute(Work& work) noexcept;
  [[noreturn]] void time_out(int code) const;
  void block_on(Work& work) noexcept;
  // Token holder only: is the oldest task to be dropped unrun?
  bool skipped() const noexcept {
    // This order: who clears the status has written skip_until_ before.
    return (status_.load(std::memory_order_acquire) != 0 && !continue_on_failure()) ||
           ring_.done() < skip_until_.load(std::memory_order_relaxed);
  }
  void skip_until(std::atomic<uint64_t>& limit, uint64_t position) noexcept;
  void owe(const Work& work) noexcept;
  std::optional<Error> take_owed(uint16_t thread, uint64_t until) noexcept;
  void throw_owed(uint64_t until);
  bool linger(Executor& me) noexcept;
  void make_room(bool for_replay = false);
  // Makes an executor responsible unless one is.
  void schedule(Cost cost) noexcept;
  void hand_to(Executor& executor) noexcept;
  Executor& executor_for(Cost cost) noexcept;
  void set_failure(int code, const char* task, const char* message, uint64_t cause) noexcept;
  // The sticky error if it is of one of the first `until` tasks, and of this cause; code 0 if there is none. `take` clears it.
  Failure failure(bool take, uint64_t until = UINT64_MAX, uint64_t cause = 0) noexcept;

  Token token_;
  std::atomic<int> status_{0};
  std::atomic<bool> continue_on_failure_{false};
  RunningName runs_;                                // the task that runs, unless it is tiny; for messages
  std::atomic<const Stream*> behind_{nullptr};      // the stream that it waits for; for messages (Behind)
  std::atomic<uint64_t> skip_until_{0};             // tasks before this position are dropped unrun
  std::atomic<uint64_t> aborted_until_{0};          // and those before this one because somebody wants it so
  std::atomic<uint64_t> dropped_until_{0};          // and those before this one with all of the device (abort_all)
  std::atomic<bool> scheduled_{false};              // an executor is responsible for the queue
  std::atomic<uint32_t> opened_{0}, wait_open_{0};  // counts ends of holds that somebody waited for, and who waits
  std::atomic<Capture*> capture_{nullptr};
  Ring ring_;
  Executor worker_;
  std::atomic<uint64_t> last_wide_{0};  // position + 1 of the last wide task
  schedule::Lookout lookout_;           // the responsible executor's
  std::atomic<int> device_{-1};
  std::atomic<Context*> context_{nullptr};
  std::atomic<uint32_t> priority_{0};
  uint32_t flags_ = 0;
  static constexpr unsigned kAttributes = 8;
  std::atomic<uint32_t> attributes_[kAttributes] = {};
  CoreLimit core_limit_;
  std::mutex error_mutex_;
  Failure failure_;  // its code is status_; kept when that is cleared
  Owed owed_;
};

// The stream a handle names; null means the current context's default stream. Throws for a bad handle.
Stream& stream_of(void* handle);

}  // namespace softnpu
