// See kept_memory.h.
#include "softnpu/ops/kept_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>

namespace softnpu::ops {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

struct State {
  std::mutex mutex;
  std::multimap<size_t, void*> unused;       // by size
  std::unordered_map<void*, size_t> in_use;  // what take() gave
  size_t kept = 0;                           // bytes unused
};
// For the process's life: tensors of other threads may come back while it ends. A forked child starts with none: a thread
// that it does not have may hold the lock.
std::atomic<State*> current{nullptr};
State& state() {
  static const bool ready = [] {
    current = new State;
    pthread_atfork(nullptr, nullptr, [] { current = new State; });
    return true;
  }();
  (void)ready;
  return *current;
}

// Blocks of 2 MiB and more lie on huge pages where the system has them.
void* fresh(size_t bytes) {
  void* memory = std::aligned_alloc(bytes >= kHugePage ? kHugePage : 64, bytes);
  if (memory != nullptr && bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

void* KeptMemory::take(size_t bytes) noexcept try {
  State& s = state();
  const size_t unit = bytes >= kHugePage ? kHugePage : 4096;
  size_t size = (bytes + unit - 1) / unit * unit;
  std::lock_guard lock(s.mutex);
  void* memory = nullptr;
  // One that wastes less than a third.
  if (auto it = s.unused.lower_bound(size); it != s.unused.end() && it->first / 4 * 3 <= size) {
    size = it->first;
    memory = it->second;
    s.unused.erase(it);
    s.kept -= size;
  } else {
    memory = fresh(size);
    if (memory == nullptr) return nullptr;
  }
  s.in_use.emplace(memory, size);
  return memory;
} catch (...) {
  return nullptr;
}

bool KeptMemory::give_back(void* memory) noexcept try {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto it = s.in_use.find(memory);
  if (it == s.in_use.end()) return false;
  const size_t size = it->second;
  s.in_use.erase(it);
  if (s.kept + size <= kMost) {
    s.unused.emplace(size, memory);
    s.kept += size;
  } else {
    std::free(memory);
  }
  return true;
} catch (...) {
  std::free(memory);
  return true;
}

}  // namespace softnpu::ops
