#include "softnpu/runtime/arena.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/registry.h"
#include "softnpu/runtime/system_memory.h"
#include "softnpu/runtime/watch.h"

// AddressSanitizer's, where the process has it (LD_PRELOAD=libasan.so): a kernel that it watches sees where a block ends.
extern "C" __attribute__((weak)) void __asan_poison_memory_region(const volatile void*, size_t);
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, size_t);

namespace softnpu {
namespace {

// Then behind each block, and of none.
uint64_t border() { return __asan_poison_memory_region ? Arena::kGrain : 0; }

// Freed pages kept for the next allocation: giving them back and taking them again costs ~0.25 s a GiB.
constexpr uint64_t kWatermark = 512ull << 20;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

double gib(uint64_t bytes) { return double(bytes) / (1ull << 30); }

}  // namespace

Arena::Arena(int device, uint64_t capacity)
    : device_(device), capacity_(capacity), span_(round_up(capacity, kPage) * 2), backed_(span_ / kPage, false) {
  static std::atomic<uint64_t> next_id{1};
  id_ = next_id.fetch_add(1);
  char name[64];
  snprintf(name, sizeof name, "anycend-npu%d-%llu", device, static_cast<unsigned long long>(id_));
  fd_ = memfd_create(name, MFD_CLOEXEC);
  if (fd_ < 0 || ftruncate(fd_, off_t(span_)) != 0) {
    int e = errno;
    if (fd_ >= 0) close(fd_);
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot make the memory of device %d (memfd of %.1f GiB): %s", device,
         gib(span_), strerror(e));
  }
  // Aligned to a huge page: map a page more, then trim.
  uint64_t whole = span_ + kPage;
  char* raw = static_cast<char*>(mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  void* at = MAP_FAILED;
  if (raw != MAP_FAILED) {
    base_ = reinterpret_cast<char*>(round_up(reinterpret_cast<uint64_t>(raw), kPage));
    at = mmap(base_, span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd_, 0);
    if (base_ > raw) munmap(raw, uint64_t(base_ - raw));
    munmap(base_ + span_, uint64_t(raw + whole - (base_ + span_)));
  }
  if (at == MAP_FAILED) {
    int e = errno;
    close(fd_);
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot map the memory of device %d (%.1f GiB of address space): %s", device,
         gib(span_), strerror(e));
  }
  madvise(base_, span_, MADV_HUGEPAGE);
  madvise(base_, span_, MADV_DONTFORK);
  madvise(base_, span_, MADV_DONTDUMP);
  free_.insert(0, span_);
}

Arena::~Arena() {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(base_, hidden_);
  munmap(base_, span_);
  close(fd_);
}

void Arena::refuse(uint64_t size, const char* why) {
  fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
       "device %d is out of memory: %.2f MiB asked, %.2f GiB of %.2f GiB in use by this process; %s", device_,
       double(size) / (1 << 20), gib(used()), gib(capacity_), why);
}

void* Arena::allocate(uint64_t size, uint64_t align, bool touch) {
  std::lock_guard lock(mutex_);
  align = std::max(align, kGrain);
  if (size > capacity_) refuse(size, "that is more than the device has (ANYCEND_MEMORY)");
  uint64_t taken = round_up(std::max<uint64_t>(size, 1), kGrain);
  // Large blocks own their pages: they can be exported, mapped elsewhere and punched.
  if (taken >= kPage) align = std::max(align, kPage);
  if (used() + taken > capacity_) refuse(size, "its capacity is exhausted (ANYCEND_MEMORY)");
  auto at = free_.take(taken + border(), align);
  if (!at) refuse(size, "its address space is too fragmented");
  try {
    commit(*at, taken, touch);
    live_.emplace(*at, Block{*at, size, taken});
  } catch (...) {
    free_.insert(*at, taken + border());
    throw;
  }
  hide(*at, size, taken);
  uint64_t now = used_.fetch_add(taken) + taken;
  if (now > peak()) peak_ = now;
  return base_ + *at;
}

void Arena::hide(uint64_t offset, uint64_t size, uint64_t taken) noexcept {
  if (__asan_poison_memory_region == nullptr) return;
  hidden_ = std::max(hidden_, offset + taken + border());
  __asan_unpoison_memory_region(address(offset), size);
  __asan_poison_memory_region(address(offset + size), taken + border() - size);
}

void Arena::commit(uint64_t offset, uint64_t size, bool touch) {
  uint64_t first = offset / kPage, last = (offset + size + kPage - 1) / kPage;
  uint64_t missing = 0;
  for (uint64_t p = first; p < last; ++p) missing += !backed_[p];
  if (missing == 0) return;
  uint64_t bytes = missing * kPage;
  // One process at a time grows: what two see as free they would both take.
  Registry::Growth growth = Registry::get().begin_growth();
  // A page of slack: small blocks need not fill their pages.
  uint64_t most = round_up(capacity_, kPage) + kPage, others = growth.used_by_others(device_);
  if (others + committed() + bytes > most) punch_all();
  if (others + committed() + bytes > most) refuse(size, "other processes hold the rest of this device");
  SystemMemory m = system_memory();
  if (m.available < bytes + m.reserve) {
    punch_all();
    m = system_memory();
    if (m.available < bytes + m.reserve) {
      char why[160];
      snprintf(why, sizeof why, "the machine has %.2f GiB left, of which %.2f GiB are kept in reserve",
               gib(m.available), gib(m.reserve));
      refuse(size, why);
    }
  }
  for (uint64_t p = first; p < last;) {
    if (backed_[p]) {
      ++p;
      continue;
    }
    uint64_t end = p;
    while (end < last && !backed_[end]) ++end;
    int r;
    do r = fallocate(fd_, 0, off_t(p * kPage), off_t((end - p) * kPage));
    while (r != 0 && errno == EINTR);
    if (r != 0) {
      int e = errno;
      fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(p * kPage), off_t((end - p) * kPage));
      growth.set_used(device_, committed(), used());
      refuse(size, strerror(e));
    }
    std::fill(backed_.begin() + long(p), backed_.begin() + long(end), true);
    committed_ += (end - p) * kPage;
    if (touch) touch_pages(base_ + p * kPage, (end - p) * kPage);
    p = end;
  }
  growth.set_used(device_, committed(), used());
}

void Arena::touch_pages(void* at, uint64_t size) noexcept {
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
  madvise(at, size, MADV_POPULATE_WRITE);
}

// Gives back whole pages of a free range, from its end, until no more than `keep` free bytes stay backed.
void Arena::punch(RangeSet::Range range, uint64_t keep) noexcept {
  uint64_t first = (range.offset + kPage - 1) / kPage, last = range.end() / kPage;
  auto may_punch = [&](uint64_t p) { return backed_[p] && (kept_.empty() || !kept_[p]); };
  while (last > first) {
    uint64_t free_bytes = committed() - std::min(committed(), used());
    uint64_t surplus = free_bytes > keep ? (free_bytes - keep) / kPage : 0;
    if (surplus == 0) return;
    if (!may_punch(last - 1)) {
      --last;
      continue;
    }
    uint64_t begin = last;
    while (begin > first && last - begin < surplus && may_punch(begin - 1)) --begin;
    if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(begin * kPage),
                  off_t((last - begin) * kPage)) != 0)
      return;
    std::fill(backed_.begin() + long(begin), backed_.begin() + long(last), false);
    committed_ -= (last - begin) * kPage;
    last = begin;
  }
}

void Arena::punch_all() noexcept {
  free_.each([&](RangeSet::Range r) { punch(r, 0); });
}

void Arena::release(void* pointer) {
  std::lock_guard lock(mutex_);
  auto it = live_.find(offset(pointer));
  if (it == live_.end())
    fail(ACL_ERROR_RT_MEMORY_FREE, "%p is not the start of a live block of device %d (freed already?)", pointer,
         device_);
  uint64_t taken = it->second.taken;
  if (race::watched()) memory_gone(pointer, taken);
  hide(it->first, 0, taken);
  RangeSet::Range free = free_.insert(it->first, taken + border());
  live_.erase(it);
  used_ -= taken;
  if (committed() - std::min(committed(), used()) > kWatermark) {
    punch(free, kWatermark);
    Registry::get().set_used(device_, committed(), used());
  }
}

void Arena::release_all() noexcept {
  std::lock_guard lock(mutex_);
  for (auto& [at, block] : live_) {
    if (race::watched()) memory_gone(address(at), block.taken);
    hide(at, 0, block.taken);
    free_.insert(at, block.taken + border());
  }
  live_.clear();
  used_ = 0;
  punch_all();
  Registry::get().set_used(device_, committed(), used());
}

void Arena::keep_backed(uint64_t offset, uint64_t size) {
  std::lock_guard lock(mutex_);
  if (kept_.empty()) kept_.assign(backed_.size(), false);
  for (uint64_t p = offset / kPage; p < (offset + size + kPage - 1) / kPage; ++p) kept_[p] = true;
}

Arena::Block Arena::find(const void* pointer) {
  std::lock_guard lock(mutex_);
  uint64_t at = offset(pointer);
  auto it = live_.upper_bound(at);
  if (it == live_.begin()) return {0, 0, 0};
  --it;
  return at < it->first + it->second.taken ? it->second : Block{0, 0, 0};
}

}  // namespace softnpu
