#include "softnpu/runtime/executor.h"

#include <pthread.h>
#include <signal.h>

#include <vector>

#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/process.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

constexpr int64_t kIdleMs = 3;

thread_local bool t_on_compute = false;
constinit std::atomic<void (*)() noexcept> idle_hook{nullptr}, room_hook{nullptr};

// Every executor whose thread has started.
struct Started {
  std::mutex mutex;
  std::vector<Executor*> all;
};
Started& started() {
  static Started& s = *new Started;
  return s;
}

}  // namespace

Executor& Executor::compute() {
  static Executor& e = *new Executor(Runner::kCompute);
  return e;
}

bool Executor::on_compute() noexcept { return t_on_compute; }

void Executor::on_compute_idle(void (*hook)() noexcept) noexcept { idle_hook.store(hook, std::memory_order_release); }

void Executor::before_compute(void (*hook)() noexcept) noexcept { room_hook.store(hook, std::memory_order_release); }

void Executor::make_room_for_compute() noexcept {
  if (t_on_compute) return;
  if (auto* hook = room_hook.load(std::memory_order_acquire)) hook();
}

void Executor::post(Stream* stream) {
  {
    std::lock_guard lock(mutex_);
    turns_.add(stream, now_ns());
    if (!thread_.joinable()) {
      mark_started();
      // Signals belong to the threads of the program.
      sigset_t all, old;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &old);
      try {
        thread_ = std::thread([this] { loop(); });
      } catch (...) {
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
        turns_.remove(stream);
        throw;
      }
      pthread_sigmask(SIG_SETMASK, &old, nullptr);
      pthread_setname_np(thread_.native_handle(), as_ == Runner::kCompute ? "npu-compute" : "npu-stream");
      std::lock_guard lock_all(started().mutex);
      started().all.push_back(this);
    }
  }
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst)) futex_wake(epoch_, 1);
}

Stream* Executor::next() noexcept {
  std::lock_guard lock(mutex_);
  return turns_.next();
}

bool Executor::turn_is_over(Stream& stream, int64_t began) noexcept {
  if (!turns_.others()) return false;
  std::lock_guard lock(mutex_);
  return turns_.over(stream, began, now_ns());
}

void Executor::loop() noexcept {
  t_on_compute = as_ == Runner::kCompute;
  int64_t idle_at = kForever;  // when to call the hook: set by work, only on the compute thread
  while (!stop_.load(std::memory_order_acquire)) {
    uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
    if (Stream* s = next()) {
      s->drive(*this);
      if (t_on_compute) idle_at = deadline_after_ms(kIdleMs);
      continue;
    }
    if (idle_at != kForever && now_ns() >= idle_at) {
      idle_at = kForever;
      if (auto* hook = idle_hook.load(std::memory_order_acquire)) hook();
    }
    sleeping_.store(1, std::memory_order_seq_cst);
    futex_wait(epoch_, epoch, idle_at);
    sleeping_.store(0, std::memory_order_relaxed);
  }
}

void Executor::stop_all(bool join) noexcept {
  std::vector<Executor*> all;
  {
    std::lock_guard lock(started().mutex);
    all = started().all;
  }
  for (Executor* e : all) {
    e->stop_.store(true, std::memory_order_release);
    e->epoch_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(e->epoch_, 1);
  }
  for (Executor* e : all) {
    if (join && e->thread_.get_id() != std::this_thread::get_id())
      e->thread_.join();
    else
      e->thread_.detach();
  }
}

}  // namespace softnpu
