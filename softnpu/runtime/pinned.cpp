#include "softnpu/runtime/pinned.h"

#include <cstdlib>
#include <mutex>

#include "softnpu/race/race.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/limits.h"

namespace softnpu {

Pinned& Pinned::get() {
  static Pinned& p = *new Pinned;
  return p;
}

void* Pinned::allocate(size_t size) {
  size_t align = size >= 4096 ? 4096 : 64;
  void* p = size > (size_t{1} << 46) ? nullptr : aligned_alloc(align, (size + align - 1) / align * align);
  if (p == nullptr) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot allocate %zu bytes of host memory", size);
  std::unique_lock lock(mutex_);
  blocks_[reinterpret_cast<uint64_t>(p)] = {size, true};
  return p;
}

void Pinned::release(void* pointer) {
  std::unique_lock lock(mutex_);
  auto it = blocks_.find(reinterpret_cast<uint64_t>(pointer));
  if (it == blocks_.end() || !it->second.ours)
    fail(ACL_ERROR_RT_MEMORY_FREE, "%p was not allocated by aclrtMallocHost (freed already?)", pointer);
  if (race::on()) race::freed(pointer, it->second.size);
  blocks_.erase(it);
  free(pointer);
}

void Pinned::add(void* pointer, size_t size) {
  if (size > (size_t{1} << 46)) fail(ACL_ERROR_RT_PARAM_INVALID, "%zu bytes of host memory cannot be registered", size);
  need_range(pointer, size, "ptr");
  std::unique_lock lock(mutex_);
  uint64_t at = reinterpret_cast<uint64_t>(pointer);
  auto next = blocks_.lower_bound(at);
  bool overlap = next != blocks_.end() && next->first < at + size;
  if (next != blocks_.begin()) overlap = overlap || std::prev(next)->first + std::prev(next)->second.size > at;
  if (overlap) fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "[%p, +%zu) is registered already", pointer, size);
  blocks_[at] = {size, false};
}

void Pinned::remove(void* pointer) {
  std::unique_lock lock(mutex_);
  auto it = blocks_.find(reinterpret_cast<uint64_t>(pointer));
  if (it == blocks_.end() || it->second.ours)
    fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered", pointer);
  if (race::on()) race::freed(pointer, it->second.size);
  blocks_.erase(it);
}

bool Pinned::contains(const void* pointer, size_t bytes) {
  void* base;
  size_t size;
  return range_of(pointer, &base, &size) &&
         bytes <= size - size_t(static_cast<const char*>(pointer) - static_cast<char*>(base));
}

bool Pinned::range_of(const void* pointer, void** base, size_t* size) {
  std::shared_lock lock(mutex_);
  uint64_t at = reinterpret_cast<uint64_t>(pointer);
  auto it = blocks_.upper_bound(at);
  if (it == blocks_.begin()) return false;
  --it;
  if (at >= it->first + it->second.size) return false;
  *base = reinterpret_cast<void*>(it->first);
  *size = it->second.size;
  return true;
}

}  // namespace softnpu
