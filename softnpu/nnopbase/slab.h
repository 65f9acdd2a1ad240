// Handles from slabs: fixed-size slots in one reserved range, so that any number a client hands us can be judged without
// touching memory that is not ours. What it is not: a general allocator. Who uses it: every handle type of nnopbase.
//
// A handle is no address: it is type (8 bits), generation (36) and slot (20), and a live slot's tag is its handle. One
// bound, one load and one compare tell a live handle from all else; about 2 ns. A slot is made 7e10 times before a
// destroyed handle could be taken for a live one.
// Cost: make and free pop and push a thread-local list (no lock, no malloc); every kBatch slots one lock moves a batch.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace nnopbase {

// The first member of every slot: its handle while live, the complement while free. A free slot's tag is no handle, as its
// low bits do not name the slot.
struct Slot {
  uint64_t tag;
};

template <class T, uint8_t kType, size_t kStride, size_t kCapacity>
class Slab {
  static constexpr int kSlotBits = 20;
  static constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;
  static constexpr uint64_t kGeneration = kSlotMask + 1;  // one more
  static constexpr uint64_t kTypeBits = uint64_t{kType} << 56;
  static constexpr uint32_t kBatch = 32;
  static_assert((kStride & (kStride - 1)) == 0 && sizeof(T) <= kStride);
  static_assert(kCapacity <= kGeneration && kType != 0);

 public:
  // Null when kCapacity handles are alive.
  static T* make() {
    Cache& mine = cache();
    if (!mine.head && !refill(mine)) return nullptr;
    T* slot = mine.head;
    mine.head = next_of(slot);
    mine.count--;
    set_tag(slot, kTypeBits | ((~slot->tag + kGeneration) & ~(uint64_t{0xff} << 56)));
    return slot;
  }

  static void free(T* slot) {
    Cache& mine = cache();
    set_tag(slot, ~slot->tag);
    next_of(slot) = mine.head;
    mine.head = slot;
    if (++mine.count >= 2 * kBatch) spill(mine, kBatch);
  }

  static T* handle(T* slot) { return reinterpret_cast<T*>(slot->tag); }

  // The slot of a live handle, or null for anything else.
  static T* find(const void* handle) {
    auto number = reinterpret_cast<uint64_t>(handle);
    uint64_t index = number & kSlotMask;
    if (index >= shared_.used.load(std::memory_order_acquire)) return nullptr;
    T* slot = at(index);
    return __atomic_load_n(&slot->tag, __ATOMIC_RELAXED) == number ? slot : nullptr;
  }

 private:
  struct Cache {
    T* head;
    uint32_t count;
    bool returns_at_exit;
  };
  struct Shared {
    std::atomic<char*> base{nullptr};
    std::atomic<uint64_t> used{0};
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

  // The calling thread's. A function of libnnopbase, never a variable that other libraries name: a thread-local variable
  // of a library that was opened late must not be bound statically (there may be no room for it), and is not if only its
  // own library knows it.
  static Cache& cache() noexcept;

  static T* at(uint64_t index) {
    return reinterpret_cast<T*>(shared_.base.load(std::memory_order_relaxed) + index * kStride);
  }
  static void set_tag(T* slot, uint64_t tag) { __atomic_store_n(&slot->tag, tag, __ATOMIC_RELAXED); }
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
      auto start = (reinterpret_cast<uintptr_t>(range) + kStride - 1) & ~uintptr_t(kStride - 1);
      shared_.base.store(reinterpret_cast<char*>(start), std::memory_order_relaxed);
    }
    for (uint32_t i = 0; i < kBatch; i++) {
      T* slot = shared_.head;
      if (slot) {
        shared_.head = next_of(slot);
        shared_.count--;
      } else {
        uint64_t used = shared_.used.load(std::memory_order_relaxed);
        if (used == kCapacity) break;
        slot = at(used);
        set_tag(slot, ~(kTypeBits | used));
        shared_.used.store(used + 1, std::memory_order_release);
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
};

}  // namespace nnopbase

// Each slab's state lives in libnnopbase alone (libopapi shares it): declare in the header, define in one .cpp.
#define NNOPBASE_API __attribute__((visibility("default")))
#define NNOPBASE_DECLARE_SLAB(SlabType)            \
  template <>                                      \
  NNOPBASE_API SlabType::Shared SlabType::shared_; \
  template <>                                      \
  NNOPBASE_API SlabType::Cache& SlabType::cache() noexcept;
#define NNOPBASE_DEFINE_SLAB(SlabType)          \
  template <>                                   \
  SlabType::Shared SlabType::shared_{};         \
  template <>                                   \
  SlabType::Cache& SlabType::cache() noexcept { \
    static constinit thread_local Cache mine{}; \
    return mine;                                \
  }
