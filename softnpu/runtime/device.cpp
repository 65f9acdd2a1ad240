#include "softnpu/runtime/device.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/ipc.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/process.h"
#include "softnpu/runtime/registry.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/system_memory.h"
#include "softnpu/runtime/virtual_memory.h"

namespace softnpu {

struct DeviceTable {
  Device devices[kMaxDevices];
  DeviceTable() {
    for (size_t i = 0; i < config().visible.size(); ++i) {
      devices[i].index_ = int(i);
      devices[i].physical_ = config().visible[i];
    }
  }
};

namespace {

std::atomic<DeviceTable*> g_table{nullptr};

// Throws what config() throws. Lock-free, as everything that a forked child may ask.
DeviceTable& table() {
  if (DeviceTable* t = g_table.load(std::memory_order_acquire)) return *t;
  auto fresh = std::make_unique<DeviceTable>();
  DeviceTable* expected = nullptr;
  if (g_table.compare_exchange_strong(expected, fresh.get())) return *fresh.release();
  return *expected;
}

}  // namespace

Device& Device::get(int index) {
  need_device(index);
  return table().devices[index];
}

Device* Device::holding(const void* pointer) noexcept {
  DeviceTable* t = g_table.load(std::memory_order_acquire);
  if (t == nullptr) return nullptr;
  for (Device& d : t->devices) {
    if (d.index_ < 0) break;
    if (Arena* a = d.arena_or_null(); a && a->contains(pointer)) return &d;
  }
  return nullptr;
}

uint64_t Device::capacity() const noexcept {
  static const uint64_t bytes = config().memory ? config().memory : system_memory().limit;
  return bytes;
}

Arena& Device::arena() {
  if (Arena* a = arena_or_null()) return *a;
  std::lock_guard lock(mutex_);
  if (Arena* a = arena_or_null()) return *a;
  mark_started();
  arena_.store(new Arena(physical_, capacity()), std::memory_order_release);
  return *arena_or_null();
}

void* Device::primary_context() {
  if (void* c = primary_context_or_null()) return c;
  std::lock_guard lock(mutex_);
  if (void* c = primary_context_or_null()) return c;
  Context* c = slab<Context>().take();
  c->open(index_, true);
  void* handle = slab<Context>().publish(c);
  primary_.store(handle, std::memory_order_release);
  return handle;
}

void Device::synchronize(int64_t deadline) {
  Stream::synchronize_all(index_, deadline, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

void Device::reset(bool force) {
  destroy_streams(index_, force);
  users_ = 0;
  peers_ = 0;
  core_limit_.clear();
  std::vector<void*> contexts;
  slab<Context>().each([&](Context& c) {
    if (c.device() == index_)
      if (void* h = slab<Context>().handle_of(&c)) contexts.push_back(h);
  });
  std::lock_guard lock(mutex_);
  primary_ = nullptr;
  for (void* h : contexts) slab<Context>().recycle(&slab<Context>().remove(h));
  release_imports(index_);
  VirtualMemory::get().release_device(index_);
  if (Arena* a = arena_or_null()) a->release_all();
}

uint64_t Device::free_bytes() {
  Arena* a = arena_or_null();
  uint64_t used = a ? a->used() : 0, kept = a ? a->committed() - std::min(a->committed(), used) : 0;
  uint64_t others = Registry::get().begin_growth().used_by_others(physical_);
  uint64_t by_capacity = capacity() - std::min(capacity(), used + others);
  SystemMemory m = system_memory();
  uint64_t by_machine = (m.available > m.reserve ? m.available - m.reserve : 0) + kept;
  return std::min(by_capacity, by_machine);
}

uint64_t Device::used_bytes() noexcept {
  Arena* a = arena_or_null();
  return a ? a->used() : 0;
}

uint64_t Device::peak_bytes() noexcept {
  Arena* a = arena_or_null();
  return a ? a->peak() : 0;
}

const char* why_not_device_memory(const void* pointer, size_t bytes, int device, char* text, size_t n) noexcept {
  if (bytes == 0) return nullptr;
  try {
    auto wrong_device = [&](int of) {
      snprintf(text, n, "%p is memory of device %d, the work is on device %d", pointer, of, device);
      return text;
    };
    if (Device* d = Device::holding(pointer)) {
      if (device >= 0 && d->index() != device) return wrong_device(d->index());
      Arena::Block b = d->arena_or_null()->find(pointer);
      uint64_t at = d->arena_or_null()->offset(pointer);
      if (b.taken == 0)
        snprintf(text, n, "%p is freed memory of device %d", pointer, d->index());
      else if (bytes > b.offset + b.taken - at)
        snprintf(text, n, "[%p, +%zu) passes the end of its block of %llu bytes on device %d", pointer, bytes,
                 static_cast<unsigned long long>(b.size), d->index());
      else
        return nullptr;
      return text;
    }
    int mapped = VirtualMemory::get().device_of(pointer, bytes);
    if (mapped == VirtualMemory::kUnmapped) {
      snprintf(text, n, "[%p, +%zu) is reserved device memory that is not mapped", pointer, bytes);
      return text;
    }
    if (mapped >= 0) return device >= 0 && mapped != device ? wrong_device(mapped) : nullptr;
    snprintf(text, n, "%p is host memory, not memory of a device", pointer);
    return text;
  } catch (...) {
    return "the pointer cannot be checked";
  }
}

}  // namespace softnpu
