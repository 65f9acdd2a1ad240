// The free blocks of one stream and size class, best fit first. Small pool (requests up to 1 MiB): one list for each multiple of
// 512 bytes and a bitmap over them, so every operation is a handful of instructions. Large pool: a tree by size, address.
// What it is not: it never calls CANN and merges nothing (device_cache.h). Guarded by the device cache's lock.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <set>
#include <vector>

#include "csrc/core/block.h"

namespace npu {

constexpr size_t kMinBlockSize = 512;
constexpr size_t kSmallSize = 1048576;       // the largest request of the small pool
constexpr size_t kSmallSegment = 2097152;    // what the small pool takes from the device
constexpr size_t kMinLargeAlloc = 10485760;  // from here on a request has a segment of its own
constexpr size_t kRoundLarge = 2097152;      // of a multiple of this

class BlockPool {
 public:
  BlockPool(bool small, c10::StreamId stream, c10::MempoolId_t owner = {0, 0})
      : small_(small), stream_(stream), owner_(owner) {
    if (small) bins_ = std::make_unique<Bins>();
  }

  bool small() const { return small_; }
  c10::StreamId stream() const { return stream_; }
  c10::MempoolId_t owner() const { return owner_; }  // {0, 0}: everybody's

  void insert(Block* block) {
    block->idle_since = searches_;
    block->free = true;
    if (small_) {
      bins_->insert(block);
    } else {
      tree_.insert(block);
    }
  }

  void erase(Block* block) {
    block->free = false;
    if (small_) {
      bins_->erase(block);
    } else {
      tree_.erase(block);
    }
  }

  // The smallest free block of at least `size` bytes, or null. It stays in the pool.
  Block* best_fit(size_t size) {
    ++searches_;
    if (small_) return bins_->best_fit(size);
    Block key;
    key.size = size;
    const auto found = tree_.lower_bound(&key);
    return found == tree_.end() ? nullptr : *found;
  }

  int64_t age(const Block* block) const { return searches_ - block->idle_since; }

  std::vector<Block*> all() const {
    if (!small_) return {tree_.begin(), tree_.end()};
    std::vector<Block*> blocks;
    for (Block* block : bins_->heads) {
      for (; block; block = block->bin_next) blocks.push_back(block);
    }
    return blocks;
  }

  const auto& tree() const { return tree_; }  // of a large pool

  // Reserved, unmapped stretches of this pool's expandable segments, by address.
  struct ByAddress {
    bool operator()(const Block* a, const Block* b) const { return a->ptr < b->ptr; }
  };
  std::set<Block*, ByAddress>& unmapped() { return unmapped_; }

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->ptr < b->ptr;
    }
  };

  struct Bins {
    static constexpr size_t kCount = kSmallSegment / kMinBlockSize + 1;  // the last holds everything longer, too
    static constexpr size_t kWords = (kCount + 63) / 64;
    std::array<Block*, kCount> heads{};
    std::array<uint64_t, kWords> used{};               // bit b of word w: bin 64w + b is not empty
    std::array<uint64_t, (kWords + 63) / 64> words{};  // the same over words

    static size_t bin_of(size_t size) { return size >= kSmallSegment ? kCount - 1 : size / kMinBlockSize; }

    void insert(Block* block) {
      const size_t bin = bin_of(block->size);
      block->bin_prev = nullptr;
      block->bin_next = heads[bin];
      if (heads[bin]) heads[bin]->bin_prev = block;
      heads[bin] = block;
      used[bin / 64] |= uint64_t{1} << (bin % 64);
      words[bin / 4096] |= uint64_t{1} << (bin / 64 % 64);
    }

    void erase(Block* block) {
      if (block->bin_next) block->bin_next->bin_prev = block->bin_prev;
      if (block->bin_prev) {
        block->bin_prev->bin_next = block->bin_next;
        return;
      }
      const size_t bin = bin_of(block->size);
      heads[bin] = block->bin_next;
      if (heads[bin]) return;
      used[bin / 64] &= ~(uint64_t{1} << (bin % 64));
      if (used[bin / 64] == 0) words[bin / 4096] &= ~(uint64_t{1} << (bin / 64 % 64));
    }

    Block* best_fit(size_t size) const {
      const size_t bin = bin_of(size);
      size_t word = bin / 64;
      uint64_t bits = used[word] & (~uint64_t{0} << (bin % 64));
      if (bits == 0) {
        if (++word == kWords) return nullptr;
        size_t group = word / 64;
        uint64_t filled = words[group] & (~uint64_t{0} << (word % 64));
        while (filled == 0) {
          if (++group == words.size()) return nullptr;
          filled = words[group];
        }
        word = group * 64 + static_cast<size_t>(std::countr_zero(filled));
        bits = used[word];
      }
      return heads[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
    }
  };

  const bool small_;
  const c10::StreamId stream_;
  const c10::MempoolId_t owner_;
  int64_t searches_ = 0;
  std::unique_ptr<Bins> bins_;
  std::set<Block*, BySize> tree_;
  std::set<Block*, ByAddress> unmapped_;
};

}  // namespace npu
