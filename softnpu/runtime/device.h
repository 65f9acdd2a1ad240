// A device: its arena and its primary context, both made at first use. Also the address book: whose memory is a pointer?
// Who calls it: api_core_limit.cpp, api_device.cpp, api_info.cpp, api_memory.cpp, api_virtual_memory.cpp, context.cpp, copy.cpp,
// core_limit.cpp, enqueue.cpp, ipc.cpp, trace.cpp, virtual_memory.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "softnpu/runtime/core_limit.h"

namespace softnpu {

class Arena;
class Context;

class Device {
 public:
  // Throws for an index that is not visible.
  static Device& get(int index);
  // The device whose arena holds `pointer`; null for any other memory. Lock-free.
  static Device* holding(const void* pointer) noexcept;

  int index() const noexcept { return index_; }
  int physical() const noexcept { return physical_; }

  Arena& arena();  // makes it
  Arena* arena_or_null() noexcept { return arena_.load(std::memory_order_acquire); }

  void* primary_context();  // the handle; makes it
  void* primary_context_or_null() noexcept { return primary_.load(std::memory_order_acquire); }

  // Waits for every stream of the device; throws the earliest sticky error (Stream::synchronize_all).
  void synchronize(int64_t deadline);
  // Destroys the device's streams, contexts and memory. `force` drops queued tasks and ends captures; without it a capture under
  // way is an error, and nothing has happened.
  void reset(bool force);
  // A thread took the device, or gives it back. True when the last one did.
  void add_user() noexcept { users_.fetch_add(1); }
  bool drop_user() noexcept { return users_.fetch_sub(1) <= 1; }

  // Bytes of the device, and of those that this process could still get.
  uint64_t capacity() const noexcept;
  uint64_t free_bytes();
  uint64_t used_bytes() noexcept;
  uint64_t peak_bytes() noexcept;

  CoreLimit& core_limit() noexcept { return core_limit_; }

  void enable_peer(int other) noexcept { peers_ |= uint64_t{1} << other; }
  void disable_peer(int other) noexcept { peers_ &= ~(uint64_t{1} << other); }
  bool peer_enabled(int other) const noexcept { return peers_ >> other & 1; }

 private:
  friend struct DeviceTable;
  int index_ = -1;
  int physical_ = -1;
  std::mutex mutex_;  // guards making and resetting
  std::atomic<Arena*> arena_{nullptr};
  std::atomic<void*> primary_{nullptr};
  std::atomic<uint64_t> peers_{0};
  std::atomic<int> users_{0};
  CoreLimit core_limit_;
};

// Is [pointer, pointer+bytes) live memory of `device` (-1: of any)? Null if so, else why not. For checked mode.
const char* why_not_device_memory(const void* pointer, size_t bytes, int device, char* text,
                                  size_t text_bytes) noexcept;

}  // namespace softnpu
