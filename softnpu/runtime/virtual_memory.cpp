#include "softnpu/runtime/virtual_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/process.h"
#include "softnpu/runtime/watch.h"

namespace softnpu {
namespace {

uint64_t number(const void* p) { return reinterpret_cast<uint64_t>(p); }
void* address(uint64_t n) { return reinterpret_cast<void*>(n); }

}  // namespace

VirtualMemory& VirtualMemory::get() {
  static VirtualMemory& v = *new VirtualMemory;
  return v;
}

void* VirtualMemory::reserve(size_t size, size_t alignment, void* hint) {
  if (size == 0 || size > (1ull << 46))
    fail(ACL_ERROR_RT_PARAM_INVALID, "cannot reserve %zu bytes of address space", size);
  mark_started();
  uint64_t align = alignment ? alignment : Arena::kPage;
  if (align & (align - 1)) fail(ACL_ERROR_RT_PARAM_INVALID, "the alignment %zu is not a power of two", alignment);
  align = std::max<uint64_t>(align, Arena::kPage);
  uint64_t bytes = (size + Arena::kPage - 1) / Arena::kPage * Arena::kPage, whole = bytes + align;
  char* raw = static_cast<char*>(mmap(hint, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (raw == MAP_FAILED)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot reserve %zu bytes of address space: %s", size, strerror(errno));
  uint64_t at = (number(raw) + align - 1) / align * align;
  if (at > number(raw)) munmap(raw, at - number(raw));
  if (number(raw) + whole > at + bytes) munmap(address(at + bytes), number(raw) + whole - at - bytes);
  madvise(address(at), bytes, MADV_DONTFORK);
  std::lock_guard lock(mutex_);
  reservations_.emplace(at, bytes);
  return address(at);
}

bool VirtualMemory::reserved(uint64_t at, uint64_t size) const {
  auto it = reservations_.upper_bound(at);
  if (it == reservations_.begin()) return false;
  --it;
  uint64_t begin = at - it->first;
  return begin <= it->second && size <= it->second - begin;
}

void VirtualMemory::release(void* pointer) {
  std::lock_guard lock(mutex_);
  auto it = reservations_.find(number(pointer));
  if (it == reservations_.end()) fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not the start of a reserved range", pointer);
  auto m = mappings_.lower_bound(it->first);
  if (m != mappings_.end() && m->first < it->first + it->second)
    fail(ACL_ERROR_RT_PARAM_INVALID, "%p still has memory mapped: unmap it first", pointer);
  munmap(pointer, it->second);
  reservations_.erase(it);
}

void* VirtualMemory::create(int device, size_t size) {
  if (size == 0 || size % Arena::kPage)
    fail(ACL_ERROR_RT_PARAM_INVALID, "the size %zu is not a multiple of the granularity (2 MiB)", size);
  Arena& arena = Device::get(device).arena();
  Physical* p = slab<Physical>().take();
  try {
    p->offset = arena.offset(arena.allocate(size, Arena::kPage, false));
  } catch (...) {
    slab<Physical>().recycle(p);
    throw;
  }
  p->device = device;
  p->size = size;
  p->fd = arena.fd();
  p->imported = p->exported = false;
  p->holds = 1;
  return slab<Physical>().publish(p);
}

void* VirtualMemory::adopt(int device, int fd, uint64_t offset, uint64_t size) {
  mark_started();
  Physical* p = slab<Physical>().take();
  p->device = device;
  p->offset = offset;
  p->size = size;
  p->fd = fd;
  p->imported = true;
  p->exported = false;
  p->holds = 1;
  return slab<Physical>().publish(p);
}

void VirtualMemory::unhold(Physical* p) noexcept {
  if (p->holds.fetch_sub(1) != 1) return;
  if (p->imported) {
    close(p->fd);
  } else {
    if (p->exported && race::on()) race::given_back(p->fd, p->offset, p->size);
    try {
      Arena& arena = Device::get(p->device).arena();
      arena.release(arena.address(p->offset));
    } catch (...) {  // the device was reset: its memory is free already
    }
  }
  slab<Physical>().recycle(p);
}

void VirtualMemory::destroy(void* handle) {
  std::lock_guard lock(mutex_);
  Physical& p = slab<Physical>().remove(handle);
  unhold(&p);  // mappings keep the memory
}

void VirtualMemory::mark_exported(Physical& p) noexcept {
  std::lock_guard lock(mutex_);
  p.exported = true;
  if (!race::on()) return;
  for (const auto& [at, mapping] : mappings_)
    if (mapping.physical == &p) race::shared(address(at), mapping.size, p.fd, mapping.offset, true);
}

void VirtualMemory::map(void* pointer, size_t size, size_t offset, void* handle) {
  watch_if_asked();
  uint64_t at = number(pointer);
  if (size == 0 || size % Arena::kPage || at % Arena::kPage || offset % Arena::kPage)
    fail(ACL_ERROR_RT_PARAM_INVALID, "address, size and offset of a mapping are multiples of 2 MiB");
  std::lock_guard lock(mutex_);
  Physical& p = slab<Physical>().get(handle);
  if (offset > p.size || size > p.size - offset)
    fail(ACL_ERROR_RT_PARAM_INVALID, "the mapping passes the end of its physical memory (%llu bytes)",
         static_cast<unsigned long long>(p.size));
  if (!reserved(at, size)) fail(ACL_ERROR_RT_PARAM_INVALID, "[%p, +%zu) is not inside a reserved range", pointer, size);
  auto next = mappings_.lower_bound(at);
  bool taken = next != mappings_.end() && next->first < at + size;
  if (next != mappings_.begin()) {
    auto before = std::prev(next);
    taken = taken || before->first + before->second.size > at;
  }
  if (taken) fail(ACL_ERROR_RT_PARAM_INVALID, "[%p, +%zu) is mapped already", pointer, size);
  void* got = mmap(pointer, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, p.fd,
                   off_t(p.offset + offset));
  if (got == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot map %zu bytes: %s", size, strerror(errno));
  madvise(pointer, size, MADV_HUGEPAGE);
  madvise(pointer, size, MADV_DONTFORK);
  madvise(pointer, size, MADV_DONTDUMP);
  Arena::touch_pages(pointer, size);
  p.holds.fetch_add(1);
  mappings_.emplace(at, Mapping{size, p.offset + offset, &p});
  if (race::on() && (p.imported || p.exported)) race::shared(pointer, size, p.fd, p.offset + offset, p.exported);
}

void* VirtualMemory::map_foreign(int device, int fd, uint64_t offset, uint64_t size) {
  // A file is mapped from a page of the host's: 64 KiB on many Arm servers.
  static const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t from = offset / page * page, bytes = (offset + size + page - 1) / page * page - from;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, off_t(from));
  if (base == MAP_FAILED) {
    int e = errno;
    close(fd);
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot map %llu bytes of another process: %s",
         static_cast<unsigned long long>(size), strerror(e));
  }
  madvise(base, bytes, MADV_DONTFORK);
  madvise(base, bytes, MADV_DONTDUMP);
  void* handle = adopt(device, fd, from, bytes);
  std::lock_guard lock(mutex_);
  Physical& p = slab<Physical>().remove(handle);  // held by the mapping alone
  reservations_.emplace(number(base), bytes);
  mappings_.emplace(number(base), Mapping{bytes, from, &p});
  return static_cast<char*>(base) + (offset - from);
}

void VirtualMemory::unmap_foreign(const void* pointer) {
  void* base;
  size_t size;
  if (!range_of(pointer, &base, &size)) fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not imported memory", pointer);
  unmap(base);
  release(base);
}

void VirtualMemory::unmap(void* pointer) {
  std::lock_guard lock(mutex_);
  auto it = mappings_.find(number(pointer));
  if (it == mappings_.end()) fail(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p", pointer);
  mmap(pointer, it->second.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(pointer, it->second.size, MADV_DONTFORK);
  if (race::watched()) memory_unmapped(pointer, it->second.size);
  unhold(it->second.physical);
  mappings_.erase(it);
}

int VirtualMemory::device_of(const void* pointer, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (!reserved(number(pointer), bytes)) return kNotOurs;
  uint64_t at = number(pointer), end = at + bytes;
  int device = kUnmapped;
  auto it = mappings_.upper_bound(at);
  if (it != mappings_.begin()) --it;
  for (; at < end && it != mappings_.end() && it->first <= at; ++it) {
    if (it->first + it->second.size <= at) continue;
    device = it->second.physical->device;
    at = it->first + it->second.size;
  }
  return at >= end ? device : kUnmapped;
}

std::optional<uint64_t> VirtualMemory::mapped_from(const void* pointer) {
  std::lock_guard lock(mutex_);
  const uint64_t from = number(pointer);
  if (!reserved(from, 1)) return std::nullopt;
  uint64_t end = from;
  auto it = mappings_.upper_bound(from);
  if (it != mappings_.begin()) --it;
  for (; it != mappings_.end() && it->first <= end; ++it) end = std::max(end, it->first + it->second.size);
  return end - from;
}

bool VirtualMemory::locate(const void* pointer, size_t bytes, int* fd, uint64_t* offset, int* device) {
  std::lock_guard lock(mutex_);
  if (!reserved(number(pointer), bytes)) return false;
  uint64_t at = number(pointer), end = at + bytes;
  auto it = mappings_.upper_bound(at);
  if (it == mappings_.begin()) return false;
  --it;
  if (it->first + it->second.size <= at) return false;
  *fd = it->second.physical->fd;
  *offset = it->second.offset + (at - it->first);
  *device = it->second.physical->imported ? -1 : it->second.physical->device;
  for (;;) {
    uint64_t stop = it->first + it->second.size, file = it->second.offset + it->second.size;
    if (stop >= end) return true;
    auto next = std::next(it);
    if (next == mappings_.end() || next->first != stop || next->second.offset != file ||
        next->second.physical->fd != *fd)
      return false;
    it = next;
  }
}

bool VirtualMemory::range_of(const void* pointer, void** base, size_t* size) {
  std::lock_guard lock(mutex_);
  auto it = mappings_.upper_bound(number(pointer));
  if (it == mappings_.begin()) return false;
  --it;
  if (number(pointer) >= it->first + it->second.size) return false;
  *base = address(it->first);
  *size = it->second.size;
  return true;
}

void* VirtualMemory::handle_at(const void* pointer) {
  std::lock_guard lock(mutex_);
  auto it = mappings_.upper_bound(number(pointer));
  if (it == mappings_.begin()) return nullptr;
  --it;
  return number(pointer) < it->first + it->second.size ? slab<Physical>().handle_of(it->second.physical) : nullptr;
}

void VirtualMemory::release_device(int device) noexcept {
  std::lock_guard lock(mutex_);
  for (auto it = mappings_.begin(); it != mappings_.end();) {
    if (it->second.physical->device != device) {
      ++it;
      continue;
    }
    mmap(address(it->first), it->second.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    unhold(it->second.physical);
    it = mappings_.erase(it);
  }
  slab<Physical>().each([&](Physical& p) {
    if (p.device != device) return;
    if (void* handle = slab<Physical>().handle_of(&p)) unhold(&slab<Physical>().remove(handle));
  });
}

}  // namespace softnpu
