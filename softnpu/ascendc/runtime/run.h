// One run of a kernel: its blocks are handed out to the calling thread and to helpers, meet, signal each other, fail together.
// What it is not: the stream's task (launch.cpp), which makes one each time it runs (a graph replays it). Its lock comes before the pool's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "softnpu/ascendc/include/ascendc/runtime.h"
#include "softnpu/ascendc/runtime/pool.h"
#include "softnpu/ascendc/runtime/stops.h"
#include "softnpu/ascendc/runtime/uses.h"

namespace softnpu::ascendc {

class Run final : public Helped {
 public:
  Run(const softnpuAscendcKernel& kernel, const softnpuAscendcChip& chip, int device, bool checks);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Runs all blocks. The first failure's text, empty if there is none.
  std::string go() noexcept;

  // Fails the run with a sentence that needs no memory. Called in blocks, whose other calls are false from then on.
  void give_up(const char* text) noexcept;

  // Called in blocks; false when the run has failed.
  bool meet() noexcept;
  bool signal(uint32_t word, int32_t add) noexcept;
  bool await(uint32_t word, int32_t least) noexcept;
  bool arrive(uint32_t gate, uint32_t teller, uint32_t tellers, uint32_t first, uint32_t count) noexcept;
  // The block has read the same words of global memory again and again: what it waits for may be another block's, which has not begun.
  bool give_way() noexcept;

  void help() noexcept override;

  Uses& uses() noexcept { return uses_; }

 private:
  void work() noexcept;
  void run_block(uint32_t index) noexcept;
  std::string places() const;
  // All with the lock held.
  void fail(std::string text, int64_t block = kNone) noexcept;
  bool wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over) noexcept;
  void look_for_deadlock() noexcept;
  bool call_helper() noexcept;

  const softnpuAscendcKernel& kernel_;
  const softnpuAscendcChip& chip_;
  const bool checks_;
  const Stops::Seen seen_;  // before the run began

  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t next_ = 0, finished_ = 0;
  std::chrono::steady_clock::time_point moved_{};  // when a block was last begun
  std::atomic<int> threads_ = 0;                   // of the pool: called, and not back yet; written with the lock held
  std::vector<const std::function<bool()>*> waiting_;
  bool failed_ = false;
  static constexpr int64_t kNone = -1;  // the run itself
  int64_t failed_by_ = kNone;           // the block whose error it is
  std::string error_;
  const char* given_up_ = nullptr;  // in place of it
  bool deadlock_ = false;
  std::map<std::string, uint32_t> waited_;  // then: places in the kernel, and how many blocks waited there
  uint32_t arrived_ = 0;
  uint64_t rounds_ = 0;
  std::unordered_map<uint32_t, int32_t> words_;
  struct Gate {
    std::vector<uint32_t> come;  // how often each teller has, more than all of them have
    size_t missing;              // tellers who have not
  };
  std::unordered_map<uint32_t, Gate> gates_;

  Uses uses_;  // with checks_ alone
};

}  // namespace softnpu::ascendc
