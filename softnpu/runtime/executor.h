// A thread that runs streams: each stream has one of its own (its worker), and the process has one compute thread that runs
// every kernel that uses ATen's thread pool (libgomp keeps a pool for each calling thread: two callers double the time).
// A thread starts at the first stream posted to it and sleeps when it has none.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace softnpu {

class Stream;

class Executor {
 public:
  enum class Kind : uint8_t { kWorker, kCompute };

  explicit Executor(Kind kind) : kind_(kind) {}

  Kind kind() const noexcept { return kind_; }

  // Makes this thread responsible for the stream until it has run it empty or passed it on. Throws if no thread can start.
  void post(Stream* stream);

  // Is another stream waiting for this thread?
  bool has_others() const noexcept { return waiting_.load(std::memory_order_acquire) != 0; }

  static Executor& compute();
  // True on the compute thread.
  static bool on_compute() noexcept;
  // Called by the compute thread when it has had nothing to do for a few milliseconds, once until there is work again.
  static void on_compute_idle(void (*hook)() noexcept) noexcept;
  // At exit: join (all idle) or leave the threads behind.
  static void stop_all(bool join) noexcept;

 private:
  void loop() noexcept;
  Stream* next() noexcept;

  const Kind kind_;
  std::mutex mutex_;  // guards queue_ and thread_; a leaf: nothing is called with it held
  std::vector<Stream*> queue_;
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace softnpu
