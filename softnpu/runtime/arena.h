// A device's memory: one sparse memfd mapped once at its full virtual size, and an allocator over it. Growth is fallocate in
// 2 MiB pages, so that a shortage is a clean error and never a SIGBUS. Freed pages stay up to a watermark, then are punched.
// Who calls it: device.cpp (makes it), api_memory.cpp, virtual_memory.cpp (blocks without an address), hccl (export).
// Lock order: Arena::mutex_ before the registry's; nothing else is called with it held.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "softnpu/runtime/range_set.h"

namespace softnpu {

class Arena {
 public:
  static constexpr uint64_t kPage = 2 << 20;
  static constexpr uint64_t kGrain = 512;

  // `capacity` is hard; `device` is the physical id, for messages and the registry.
  Arena(int device, uint64_t capacity);
  Arena(const Arena&) = delete;
  ~Arena();

  // Throws ACL_ERROR_RT_MEMORY_ALLOCATION when the capacity, the machine or its cgroup has no more.
  // `touch` maps the new pages at their address here at once: a page fault each costs up to 9 us in a virtual machine.
  void* allocate(uint64_t size, uint64_t align, bool touch = true);
  // Throws if `pointer` is not the start of a live block.
  void release(void* pointer);
  // Maps pages that are backed already; failure only costs the faults later.
  static void touch_pages(void* at, uint64_t size) noexcept;
  // Everything at once, for aclrtResetDevice.
  void release_all() noexcept;

  bool contains(const void* p) const noexcept { return uint64_t(static_cast<const char*>(p) - base_) < span_; }
  struct Block {
    uint64_t offset;
    uint64_t size;   // as asked
    uint64_t taken;  // as rounded
  };
  // The live block around `pointer`; size 0 if there is none.
  Block find(const void* pointer);
  char* address(uint64_t offset) const noexcept { return base_ + offset; }
  uint64_t offset(const void* p) const noexcept { return uint64_t(static_cast<const char*>(p) - base_); }

  // These pages are never punched again: another process may have them mapped.
  void keep_backed(uint64_t offset, uint64_t size);

  uint64_t id() const noexcept { return id_; }
  int fd() const noexcept { return fd_; }
  uint64_t span() const noexcept { return span_; }
  uint64_t capacity() const noexcept { return capacity_; }
  uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  uint64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  uint64_t committed() const noexcept { return committed_.load(std::memory_order_relaxed); }

 private:
  // For AddressSanitizer, where the process has it: of a block's `taken` bytes the first `size` may be touched.
  void hide(uint64_t offset, uint64_t size, uint64_t taken) noexcept;
  void commit(uint64_t offset, uint64_t size, bool touch);  // mutex_ held
  void punch(RangeSet::Range free, uint64_t keep) noexcept;
  void punch_all() noexcept;
  [[noreturn]] void refuse(uint64_t size, const char* why);

  const int device_;
  const uint64_t capacity_;
  const uint64_t span_;  // virtual: twice the capacity, so that fragmentation rarely matters
  uint64_t id_;
  int fd_ = -1;
  char* base_ = nullptr;
  std::mutex mutex_;
  RangeSet free_;
  std::map<uint64_t, Block> live_;
  uint64_t hidden_ = 0;       // up to where hide() has hidden something
  std::vector<bool> backed_;  // by page
  std::vector<bool> kept_;    // by page: exported once; empty until the first export
  std::atomic<uint64_t> used_{0}, peak_{0}, committed_{0};
};

}  // namespace softnpu
