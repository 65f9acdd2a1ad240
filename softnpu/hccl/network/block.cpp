// See wire.h: the pool of blocks, a parcel's end, and tags.
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "softnpu/hccl/network/wire.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kSmallest = 4096, kAlign = 4096;
constexpr size_t kKeep = 64;  // blocks of a size that the pool holds on to

struct Pool {
  std::mutex mutex;
  std::map<size_t, std::vector<std::byte*>> free;
};
Pool& pool() {
  static Pool* const the = new Pool;
  return *the;
}

uint64_t stir(uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Block::Block(size_t bytes) : size_(kSmallest) {
  while (size_ < bytes) size_ *= 2;
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  auto& list = p.free[size_];
  if (list.empty()) {
    data_ = static_cast<std::byte*>(::operator new(size_, std::align_val_t{kAlign}));
  } else {
    data_ = list.back();
    list.pop_back();
  }
}

Block::~Block() {
  if (lent_) return;
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  auto& list = p.free[size_];
  if (list.size() < kKeep)
    list.push_back(data_);
  else
    ::operator delete(data_, std::align_val_t{kAlign});
}

void Parcel::end(State how, const std::string& why) {
  error = why;
  state.store(how, std::memory_order_release);
  bell.ring();
}

uint64_t tag_of(const Key& key, Mail kind, uint32_t from, uint32_t to, uint32_t sequence, uint32_t index) {
  uint64_t halves[2];
  memcpy(halves, key.data(), sizeof halves);
  uint64_t h = stir(halves[0] + static_cast<uint64_t>(kind));
  h = stir(h + (static_cast<uint64_t>(from) << 32 | to));
  h = stir(h + (static_cast<uint64_t>(sequence) << 32 | index));
  return stir(h + halves[1]);
}

void Bell::ring() const noexcept { hccl::ring(board->slot(rank).bell); }

}  // namespace softnpu::hccl
