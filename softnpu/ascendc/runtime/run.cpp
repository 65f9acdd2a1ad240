#include "softnpu/ascendc/runtime/run.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include "softnpu/ascendc/runtime/division.h"
#include "softnpu/runtime/enqueue.h"

namespace softnpu::ascendc {
namespace {

constexpr size_t kPlaces = 4;
// How long no block has begun before one that reads the same words over and over has another begin, and how long it then leaves its
// processor to others.
constexpr std::chrono::microseconds kStill(1000), kNap(50);

struct Freed {
  void operator()(uint8_t* p) const { ::operator delete(p, std::align_val_t(64)); }
};

// The core that this thread is: its unified buffer. Null when there is no memory.
uint8_t* unified_buffer(uint32_t bytes) noexcept {
  thread_local std::unique_ptr<uint8_t, Freed> buffer;
  if (!buffer) {
    buffer.reset(static_cast<uint8_t*>(::operator new(bytes, std::align_val_t(64), std::nothrow)));
    if (buffer) std::fill_n(buffer.get(), bytes, uint8_t{0});
  }
  return buffer.get();
}

}  // namespace

Run::Run(const softnpuAscendcKernel& kernel, const softnpuAscendcChip& chip, int device, bool checks)
    : kernel_(kernel), chip_(chip), checks_(checks), seen_(Stops::seen(device)) {}

std::string Run::go() noexcept {
  Divisions::listen();
  const uint32_t useful = std::min(static_cast<uint32_t>(Pool::processors()), kernel_.blocks);
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 1; i < useful; ++i) call_helper();
  }
  work();
  {
    const std::lock_guard lock(mutex_);
    threads_ -= Pool::get().take_back(*this);
  }
  Pool::look([this] { return threads_ == 0; });
  std::unique_lock lock(mutex_);  // also where it is 0: the last helper may still hold it
  changed_.wait(lock, [this] { return threads_ == 0; });
  if (given_up_) return given_up_;
  return error_ + places();
}

// Of blocks that wait for each other: where, and how many.
std::string Run::places() const {
  std::string text;
  size_t named = 0;
  for (const auto& [place, count] : waited_) {
    if (++named > kPlaces) return text + " and elsewhere";
    text += (text.empty() ? "; waiting: " : ", ") + std::to_string(count) + " at " + place;
  }
  return text;
}

void Run::help() noexcept {
  work();
  const std::lock_guard lock(mutex_);
  --threads_;
  changed_.notify_all();  // under the lock: go() destroys the run as soon as it sees 0
}

void Run::work() noexcept {
  for (;;) {
    uint32_t index;
    {
      const std::lock_guard lock(mutex_);
      if (failed_ || next_ == kernel_.blocks) return;
      index = next_++;
      moved_ = std::chrono::steady_clock::now();
    }
    run_block(index);
  }
}

void Run::run_block(uint32_t index) noexcept {
  char text[600] = "";
  int failed = 1;
  if (uint8_t* buffer = unified_buffer(chip_.unified_buffer)) {
    const softnpuAscendcBlock block{index, kernel_.blocks, buffer, &chip_, this, checks_ ? 1u : 0u};
    const Divisions divisions;
    failed = kernel_.run(kernel_.state, &block, text, sizeof text);
    if (!failed && checks_ && divisions.by_zero()) {
      snprintf(text, sizeof text, "block %u: a whole number is divided by 0, which has no value that all chips give",
               index);
      failed = 1;
    }
  } else {
    snprintf(text, sizeof text, "there is no memory for a core's unified buffer");
  }
  const std::lock_guard lock(mutex_);
  ++finished_;
  if (failed) fail(text, index);
  look_for_deadlock();
}

void Run::fail(std::string text, int64_t block) noexcept {
  if (failed_) {  // others may follow from the first; of blocks that fail by themselves the lowest counts, so that each run says the same
    constexpr std::string_view kFollows = ": " SOFTNPU_ASCENDC_FOLLOWS;  // behind "block 0: file:line: SyncAll"
    const size_t start = text.find(": ");
    if (deadlock_ && text.ends_with(kFollows) && start + 2 < text.size() - kFollows.size())
      ++waited_[text.substr(start + 2, text.size() - kFollows.size() - start - 2)];
    if (block < failed_by_ && !given_up_ && !text.ends_with(kFollows)) failed_by_ = block, error_ = std::move(text);
    return;
  }
  failed_ = true;
  failed_by_ = block;
  error_ = std::move(text);
  changed_.notify_all();
}

void Run::give_up(const char* text) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failed_ = true;
  given_up_ = text;
  changed_.notify_all();
}

bool Run::call_helper() noexcept {
  if (!Pool::get().call(*this)) return false;
  ++threads_;
  return true;
}

// A thread that waits runs no other block, so while blocks have not begun another thread begins them.
bool Run::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over) noexcept {
  if (!failed_ && !over()) {
    waiting_.push_back(&over);
    if (next_ < kernel_.blocks && !call_helper() && waiting_.size() > static_cast<size_t>(threads_))
      fail("no thread could be made for a block that others wait for");
    look_for_deadlock();
    changed_.wait(lock, [&] { return failed_ || over(); });
    std::erase(waiting_, &over);
    return over();  // what has come has come: the block goes on, and may fail by itself
  }
  return !failed_;
}

// Whether such a block waits cannot be known: so another thread begins a block, but only where for a while no thread has.
bool Run::give_way() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (Stops::since(seen_) || running_task_aborted())
      fail("the tasks of the device were aborted while a block waited for a word of global memory");
    if (failed_) return false;
    const auto now = std::chrono::steady_clock::now();
    if (next_ < kernel_.blocks && now - moved_ > kStill) {
      moved_ = now;
      call_helper();  // where there is none, perhaps later
    }
  }
  std::this_thread::sleep_for(kNap);
  return true;
}

void Run::look_for_deadlock() noexcept {
  if (failed_ || waiting_.empty() || waiting_.size() + finished_ < kernel_.blocks) return;
  if (std::any_of(waiting_.begin(), waiting_.end(), [](auto* over) { return (*over)(); })) return;
  fail(std::to_string(waiting_.size()) + " of " + std::to_string(kernel_.blocks) +
       (waiting_.size() == 1 ? " blocks waits" : " blocks wait") + " (SyncAll, CrossCoreWaitFlag, IBWait), " +
       std::to_string(finished_) + (finished_ == 1 ? " has" : " have") +
       " ended, and nothing more will come: each block must call SyncAll as often as the others");
  deadlock_ = true;
}

bool Run::meet() noexcept {
  std::unique_lock lock(mutex_);
  if (++arrived_ == kernel_.blocks) {
    arrived_ = 0;
    ++rounds_;
    changed_.notify_all();
    return true;
  }
  return wait(lock, [this, round = rounds_] { return rounds_ != round; });
}

bool Run::signal(uint32_t word, int32_t add) noexcept {
  const std::lock_guard lock(mutex_);
  words_[word] += add;
  changed_.notify_all();
  return !failed_;
}

bool Run::await(uint32_t word, int32_t least) noexcept {
  std::unique_lock lock(mutex_);
  return wait(lock, [this, word, least] { return words_[word] >= least; });
}

bool Run::arrive(uint32_t gate, uint32_t teller, uint32_t tellers, uint32_t first, uint32_t count) noexcept {
  const std::lock_guard lock(mutex_);
  Gate& g = gates_.try_emplace(gate, std::vector<uint32_t>(tellers), tellers).first->second;
  if (g.come[teller]++ == 0) --g.missing;
  if (g.missing != 0) return !failed_;
  for (uint32_t& times : g.come) g.missing += --times == 0;
  for (uint32_t word = first; word < first + count; ++word) ++words_[word];
  changed_.notify_all();
  return !failed_;
}

}  // namespace softnpu::ascendc
