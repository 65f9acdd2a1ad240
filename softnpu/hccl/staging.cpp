// See staging.h.
#include "softnpu/hccl/staging.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <vector>

#include "softnpu/hccl/peers.h"

namespace softnpu::hccl {

struct StagingBlock {
  Fd memfd;
  size_t size;
  std::byte* data;
  uint64_t id;
};

namespace {

std::mutex mutex;
uint64_t next_id = 1;
std::map<size_t, std::vector<StagingBlock*>>& free_blocks() {
  static auto* const the = new std::map<size_t, std::vector<StagingBlock*>>;
  return *the;
}

}  // namespace

void Staging::get(size_t bytes) {
  size_t size = 64 * 1024;
  while (size < bytes) size *= 2;
  {
    std::lock_guard lock(mutex);
    auto& list = free_blocks()[size];
    if (!list.empty()) {
      block_ = list.back();
      list.pop_back();
    }
  }
  if (!block_) {
    Fd memfd = make_memfd("anycend-hccl-staging", size);
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
    if (at == MAP_FAILED) fail(HCCL_E_MEMORY, "cannot map %zu bytes to pass a buffer that is not device memory", size);
    std::lock_guard lock(mutex);
    // The upper half of the numbers is ours, the lower the runtime's.
    block_ = new StagingBlock{std::move(memfd), size, static_cast<std::byte*>(at), uint64_t{1} << 63 | next_id++};
  }
  Peers::get().offer_arena(block_->id, block_->memfd.get(), block_->size);
}

Staging::~Staging() {
  if (!block_) return;
  std::lock_guard lock(mutex);
  free_blocks()[block_->size].push_back(block_);
}

std::byte* Staging::data() const { return block_->data; }
uint64_t Staging::arena() const { return block_->id; }

}  // namespace softnpu::hccl
