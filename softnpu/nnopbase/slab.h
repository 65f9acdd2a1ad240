// Handles from slabs: fixed-size slots in one reserved range, so that any pointer a client hands us can be judged without
// touching memory that is not ours. What it is not: a general allocator. Who uses it: every handle type of nnopbase.
//
// A handle is the slot's address plus its generation (1..kGenerations): range check, then one load compares magic and
// generation. A handle that was destroyed, or is of another type, is refused; about 2 ns.
// Cost: make and free pop and push a thread-local list (no lock, no malloc); every kBatch slots one lock moves a batch.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace nnopbase {

// The first member of every slot. `tag` is magic | generation while live, generation alone while free.
struct Slot {
  uint32_t tag;
  uint32_t reserved;
};

template <class T, uint32_t kMagic, size_t kStride, size_t kCapacity>
class Slab {
  static_assert((kStride & (kStride - 1)) == 0 && sizeof(T) <= kStride);
  static_assert((kMagic & 0xff) == 0);
  static constexpr uint32_t kGenerations = 63;
  static constexpr uint32_t kBatch = 32;

 public:
  // Null when kCapacity handles are alive.
  static T* make() {
    Cache& cache = cache_;
    if (!cache.head && !refill(cache)) return nullptr;
    T* slot = cache.head;
    cache.head = next_of(slot);
    cache.count--;
    uint32_t generation = slot->tag % kGenerations + 1;
    slot->tag = kMagic | generation;
    return slot;
  }

  static void free(T* slot) {
    Cache& cache = cache_;
    slot->tag &= 0xff;
    next_of(slot) = cache.head;
    cache.head = slot;
    if (++cache.count >= 2 * kBatch) spill(cache, kBatch);
  }

  static T* handle(T* slot) { return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(slot) + (slot->tag & 0xff)); }

  // The slot of a live handle, or null for anything else.
  static T* find(const void* handle) {
    uintptr_t at = reinterpret_cast<uintptr_t>(handle) - shared_.base.load(std::memory_order_relaxed);
    if (at >= shared_.used.load(std::memory_order_relaxed)) return nullptr;
    T* slot = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(handle) & ~uintptr_t(kStride - 1));
    return slot->tag == (kMagic | uint32_t(at & (kStride - 1))) ? slot : nullptr;
  }

 private:
  struct Cache {
    T* head;
    uint32_t count;
    bool returns_at_exit;
  };
  struct Shared {
    std::atomic<uintptr_t> base{0};
    std::atomic<size_t> used{0};
    std::mutex mutex;  // guards the members below and growth
    T* head = nullptr;
    uint32_t count = 0;
  };
  // Gives a dying thread's free slots back. Touched by the slow path only, so the fast path has no TLS guard.
  struct ReturnAtExit {
    Cache* cache = nullptr;
    ~ReturnAtExit() {
      if (cache) spill(*cache, 0);
    }
  };

  static T*& next_of(T* slot) { return *reinterpret_cast<T**>(reinterpret_cast<char*>(slot) + sizeof(Slot)); }

  static bool refill(Cache& cache) {
    if (!cache.returns_at_exit) {
      thread_local ReturnAtExit at_exit;
      at_exit.cache = &cache;
      cache.returns_at_exit = true;
    }
    std::lock_guard lock(shared_.mutex);
    if (!shared_.base.load(std::memory_order_relaxed)) {
      void* range = mmap(nullptr, kStride * kCapacity + kStride, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) return false;
      shared_.base.store((reinterpret_cast<uintptr_t>(range) + kStride - 1) & ~uintptr_t(kStride - 1));
    }
    for (uint32_t i = 0; i < kBatch; i++) {
      T* slot = shared_.head;
      if (slot) {
        shared_.head = next_of(slot);
        shared_.count--;
      } else {
        size_t used = shared_.used.load(std::memory_order_relaxed);
        if (used == kStride * kCapacity) break;
        slot = reinterpret_cast<T*>(shared_.base.load(std::memory_order_relaxed) + used);
        slot->tag = 0;
        shared_.used.store(used + kStride, std::memory_order_release);
      }
      next_of(slot) = cache.head;
      cache.head = slot;
      cache.count++;
    }
    return cache.head != nullptr;
  }

  static void spill(Cache& cache, uint32_t keep) {
    std::lock_guard lock(shared_.mutex);
    while (cache.count > keep) {
      T* slot = cache.head;
      cache.head = next_of(slot);
      cache.count--;
      next_of(slot) = shared_.head;
      shared_.head = slot;
      shared_.count++;
    }
  }

  static Shared shared_;
  static thread_local Cache cache_;
};

}  // namespace nnopbase

// Each slab's state lives in libnnopbase alone (libopapi shares it): declare in the header, define in one .cpp.
#define NNOPBASE_API __attribute__((visibility("default")))
#define NNOPBASE_DECLARE_SLAB(SlabType)            \
  template <>                                      \
  NNOPBASE_API SlabType::Shared SlabType::shared_; \
  template <>                                      \
  NNOPBASE_API __attribute__((tls_model("initial-exec"))) thread_local constinit SlabType::Cache SlabType::cache_;
#define NNOPBASE_DEFINE_SLAB(SlabType)  \
  template <>                           \
  SlabType::Shared SlabType::shared_{}; \
  template <>                           \
  thread_local constinit SlabType::Cache SlabType::cache_{};
