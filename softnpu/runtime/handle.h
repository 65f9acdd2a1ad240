// Handles of streams, events, contexts and so on: numbers that name a slot of a slab, checked at every entry (~2 ns).
// A handle is magic (8 bits), generation (32) and index (24): a foreign, freed or forged one is told apart from a live one.
// Memory is type-stable: a slot's object is built once and reused, so a late reader sees an old object, never freed memory.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "softnpu/runtime/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace softnpu {

// Slab<Stream>: T has `static constexpr uint8_t kMagic`, `kMaxCount`, `kNoun`. make() and remove() lock; find() does not.
template <class T>
class Slab {
 public:
  Slab() {
    void* p = mmap(nullptr, sizeof(Slot) * T::kMaxCount, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail(ACL_ERROR_BAD_ALLOC, "no address space for %s handles", T::kNoun);
    slots_ = static_cast<Slot*>(p);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_register_root_region(p, sizeof(Slot) * T::kMaxCount);  // what slots own is not lost
#endif
  }

  // A free slot, not yet live: the caller prepares the object, then calls publish.
  T* take() {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      uint32_t i = free_.back();
      free_.pop_back();
      return &slots_[i].object;
    }
    uint32_t i = used_.load(std::memory_order_relaxed);
    if (i == T::kMaxCount)
      fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "all %u %s handles are in use", unsigned(T::kMaxCount), T::kNoun);
    new (&slots_[i].generation) std::atomic<uint32_t>(0);
    new (&slots_[i].object) T();
    used_.store(i + 1, std::memory_order_release);
    return &slots_[i].object;
  }

  void* publish(T* object) noexcept {
    Slot* s = slot_of(object);
    uint32_t g = s->generation.load(std::memory_order_relaxed) + 1;  // odd: live
    s->generation.store(g, std::memory_order_release);
    return name(uint32_t(s - slots_), g);
  }

  // Null unless `handle` names a live object.
  T* find(const void* handle) noexcept {
    uint64_t h = reinterpret_cast<uint64_t>(handle);
    uint32_t i = uint32_t(h) & kIndexMask;
    if ((h >> 56) != T::kMagic || i >= used_.load(std::memory_order_acquire)) return nullptr;
    uint32_t g = slots_[i].generation.load(std::memory_order_acquire);
    return g == uint32_t(h >> kIndexBits) && (g & 1) ? &slots_[i].object : nullptr;
  }

  T& get(const void* handle) {
    if (handle == nullptr) fail(ACL_ERROR_INVALID_PARAM, "the %s is null", T::kNoun);
    if (T* object = find(handle)) return *object;
    fail(ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live %s (destroyed, or never made by this library)", handle,
         T::kNoun);
  }

  // Makes the handle stale; exactly one of several callers gets the object. It tears down, then calls recycle.
  T& remove(void* handle) {
    T& object = get(handle);
    Slot* s = slot_of(&object);
    uint32_t g = uint32_t(reinterpret_cast<uint64_t>(handle) >> kIndexBits);
    if (!s->generation.compare_exchange_strong(g, g + 1))
      fail(ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live %s", handle, T::kNoun);
    return object;
  }

  void recycle(T* object) {
    std::lock_guard lock(mutex_);
    free_.push_back(uint32_t(slot_of(object) - slots_));
  }

  // The live handle of an object, or null.
  void* handle_of(T* object) noexcept {
    Slot* s = slot_of(object);
    uint32_t g = s->generation.load(std::memory_order_acquire);
    return g & 1 ? name(uint32_t(s - slots_), g) : nullptr;
  }

  uint32_t index_of(T* object) noexcept { return uint32_t(slot_of(object) - slots_); }

  // Calls f(T&) for each live object. An object may die meanwhile; its memory stays.
  template <class F>
  void each(F&& f) {
    uint32_t n = used_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < n; ++i)
      if (slots_[i].generation.load(std::memory_order_acquire) & 1) f(slots_[i].object);
  }

  size_t live_count() noexcept {
    size_t n = 0;
    each([&](T&) { ++n; });
    return n;
  }

 private:
  static constexpr int kIndexBits = 24;
  static constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
  static_assert(T::kMaxCount <= kIndexMask);

  struct Slot {
    std::atomic<uint32_t> generation;
    T object;
  };

  static void* name(uint32_t index, uint32_t generation) noexcept {
    return reinterpret_cast<void*>(uint64_t{T::kMagic} << 56 | uint64_t{generation} << kIndexBits | index);
  }
  static Slot* slot_of(T* object) noexcept {
    return reinterpret_cast<Slot*>(reinterpret_cast<char*>(object) - offsetof(Slot, object));
  }

  Slot* slots_;
  std::atomic<uint32_t> used_{0};
  std::mutex mutex_;
  std::vector<uint32_t> free_;
};

// The one slab of T, leaked: handles may be looked up during static destruction.
template <class T>
Slab<T>& slab() {
  static Slab<T>& s = *new Slab<T>;
  return s;
}

}  // namespace softnpu
