// The threads of a SIMT function: each runs on a stack of its own, one at a time, all on the block's own thread; one that waits lets others
// run. Warps are 32 threads in order. What it is not: the API (simt.h); the threads that blocks run on (runtime/pool.h).
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <type_traits>
#include <vector>

#include "ascendc/core.h"
#include "ascendc/site.h"

// How many threads in each direction, and where the source says so; also which of them this is.
struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
  AscendC::detail::Site at;
  constexpr dim3() = default;
  template <class X, class Y = uint32_t, class Z = uint32_t>
  constexpr dim3(X x_, Y y_ = 1, Z z_ = 1, AscendC::detail::Site at_ = AscendC::detail::Site::here())
      : x(static_cast<uint32_t>(x_)), y(static_cast<uint32_t>(y_)), z(static_cast<uint32_t>(z_)), at(at_) {}
};
#if __NPU_ARCH__ == 3510
inline thread_local constinit dim3 threadIdx{0, 0, 0}, blockDim{}, blockIdx{0, 0, 0}, gridDim{};
#endif

namespace AscendC::detail {

inline constexpr uint32_t kLanes = 32, kMostThreads = 2048;

// Of a warp's threads, the first one's highest, as those below it have not begun when it does. Below each is a margin (kMargin), below
// the lowest more of it (kBelow), and then what traps (kNone). Margins stay zeros, and cost no memory while nobody writes there: an end
// that traps for each would be two mappings a thread, and a process has some 65000 of them.
class Stacks {
 public:
  static constexpr size_t kBytes = 64 << 10, kMargin = 64 << 10, kEach = kMargin + kBytes, kBelow = 1 << 20,
                          kNone = 64 << 10, kAll = kNone + kBelow + kLanes * kEach;
  explicit Stacks(Site at) : base_(mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (base_ != MAP_FAILED && mprotect(base_, kNone, PROT_NONE) == 0) return;
    if (base_ != MAP_FAILED) munmap(base_, kAll);
    fail(at, "VF_CALL", "there is no memory for the threads' stacks");
  }
  ~Stacks() { munmap(base_, kAll); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  // The lowest byte of one, which is its margin's end.
  uint8_t* stack(size_t i) const {
    return static_cast<uint8_t*>(base_) + kNone + kBelow + (kLanes - 1 - i) * kEach + kMargin;
  }

 private:
  void* base_;
};

class Threads {
 public:
  using Body = void (*)(void*);
  Threads(dim3 all, uint32_t n, Body body, void* what)
      : all_(all), body_(body), what_(what), threads_(n), warps_((n + kLanes - 1) / kLanes), outer_(t_running) {
    t_running = this;
  }
  ~Threads() { t_running = outer_; }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  static Threads& running(const char* what, Site at) {
    if (t_running == nullptr) fail(at, what, "called outside of a SIMT function: VF_CALL and asc_vf_call run one");
    return *t_running;
  }

  // Until all have returned.
  void run() {
    try {
      for (bool live = true; live;) {
        live = false;
        for (uint32_t w = 0; w < warps_.size(); ++w) live |= run_warp(w);
        for (Thread& t : threads_)
          if (t.state == State::kBarrier) t.state = State::kReady;
      }
    } catch (...) {
      unwind();
      throw;
    }
  }
  // Of the thread that runs: waits for all that have not returned.
  void barrier() { wait(State::kBarrier); }
  // Waits for the warp; what its lanes brought. Lanes that are not in `lanes` have returned.
  struct Brought {
    uint64_t values[kLanes];
    uint32_t lanes;
  };
  const Brought& meet(uint64_t value, Site at) {
    Thread& t = threads_[current_];
    Warp& w = warps_[current_ / kLanes];
    Brought& all = w.brought[t.met % 2];  // a lane is at most one meeting ahead of another
    t.met += 1;
    t.at = at;
    all.values[lane()] = value;
    wait(State::kWarp);
    return all;
  }
  uint32_t number() const { return current_; }
  uint32_t lane() const { return current_ % kLanes; }

 private:
  enum class State : uint8_t { kNew, kReady, kBarrier, kWarp, kOver };
  struct Fiber {
    static constexpr size_t kSeen = 4 << 10;  // of the margin, at each change
    ucontext_t context;
    uint8_t* stack;
    bool outgrown = false;  // where it waited
    bool margin_untouched() const {
      const uint8_t* const seen = stack - kSeen;
      return !outgrown && *seen == 0 && memcmp(seen, seen + 1, kSeen - 1) == 0;
    }
  };
  struct Thread {
    State state = State::kNew;
    uint32_t met = 0;
    Fiber* fiber = nullptr;
    Site at;
  };
  struct Warp {
    Brought brought[2];
  };
  struct Aborted {};

  // Its threads, until each has returned or is at a barrier; is one at a barrier?
  bool run_warp(uint32_t w) {
    const uint32_t first = w * kLanes, end = std::min<uint32_t>(first + kLanes, static_cast<uint32_t>(threads_.size()));
    for (;;) {
      uint32_t warp = 0, barrier = 0, lanes = 0;
      for (uint32_t i = first; i < end; ++i) {
        if (threads_[i].state == State::kNew || threads_[i].state == State::kReady) resume(i);
        warp += threads_[i].state == State::kWarp;
        barrier += threads_[i].state == State::kBarrier;
        if (threads_[i].state == State::kWarp) lanes |= 1u << (i - first);
      }
      if (warp == 0) return barrier != 0;
      const Site at = threads_[first + static_cast<uint32_t>(std::countr_zero(lanes))].at;
      if (barrier != 0)
        fail(at, "VF_CALL",
             "some lanes of a warp wait in this function, and others in a barrier of all threads: they wait for ever");
      for (uint32_t i = first; i < end; ++i)
        if (threads_[i].state == State::kWarp &&
            (threads_[i].at.line != at.line || strcmp(threads_[i].at.file, at.file) != 0))
          fail(at, "VF_CALL",
               format("some lanes of a warp wait in this function, and others in one on line %d: which of them meet is "
                      "not known",
                      threads_[i].at.line));
      for (uint32_t i = first; i < end; ++i)
        if (threads_[i].state == State::kWarp) {
          warps_[w].brought[(threads_[i].met - 1) % 2].lanes = lanes;
          threads_[i].state = State::kReady;
        }
    }
  }
  void resume(uint32_t i) {
    if (!change_to(i))
      fail(all_.at, "VF_CALL",
           format("a thread's stack of %zu KiB is too small for what it calls and its local arrays",
                  Stacks::kBytes >> 10));
    if (error_) std::rethrow_exception(error_);
  }
  // Has its stack sufficed, for all that can be seen of it?
  bool change_to(uint32_t i) {
    Thread& t = threads_[i];
    if (t.fiber == nullptr) t.fiber = start();
    current_ = i;
#if __NPU_ARCH__ == 3510
    threadIdx = {i % all_.x, i / all_.x % all_.y, i / all_.x / all_.y};
#endif
    t.state = State::kReady;
    Fiber* const fiber = t.fiber;
    swapcontext(&scheduler_, &fiber->context);
    if (t.state == State::kOver) {
      spare_.push_back(fiber);
      t.fiber = nullptr;
    }
    return fiber->margin_untouched();
  }
  Fiber* start() {
    if (spare_.empty()) {
      const size_t i = fibers_.size();
      if (i % kLanes == 0) stacks_.emplace_back(all_.at);
      fibers_.emplace_back().stack = stacks_.back().stack(i % kLanes);
      spare_.push_back(&fibers_.back());
    }
    Fiber* f = spare_.back();
    spare_.pop_back();
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = Stacks::kBytes;
    f->context.uc_link = &scheduler_;
    makecontext(&f->context, &Threads::enter, 0);
    return f;
  }
  static void enter() {
    Threads& all = *t_running;
    try {
      all.body_(all.what_);
    } catch (const Aborted&) {  // unwound: run() has the error
    } catch (...) {
      all.error_ = std::current_exception();
    }
    all.threads_[all.current_].state = State::kOver;
  }
  void wait(State why) {
    Thread& t = threads_[current_];
    t.state = why;
    t.fiber->outgrown |= static_cast<uint8_t*>(__builtin_frame_address(0)) < t.fiber->stack;
    swapcontext(&t.fiber->context, &scheduler_);
    if (unwinding_) throw Aborted{};
  }
  // Those that have begun end where they wait. Where one has outgrown its stack, what lies on the others may be ruined, and is left.
  void unwind() {
    unwinding_ = true;
    bool sound = std::ranges::all_of(fibers_, [](const auto& f) { return f.margin_untouched(); });
    for (uint32_t i = 0; i < threads_.size() && sound; ++i)
      if (threads_[i].fiber != nullptr) sound = change_to(i);
  }

  static inline thread_local constinit Threads* t_running = nullptr;
  const dim3 all_;
  const Body body_;
  void* const what_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::deque<Stacks> stacks_;  // deques: threads keep pointers
  std::deque<Fiber> fibers_;
  std::vector<Fiber*> spare_;
  ucontext_t scheduler_;
  uint32_t current_ = 0;
  bool unwinding_ = false;
  std::exception_ptr error_;
  Threads* const outer_;
};

}  // namespace AscendC::detail
