// Free ranges of an address space: best fit, coalescing. Offsets and sizes only; who backs them is the arena's business.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace softnpu {

class RangeSet {
 public:
  struct Range {
    uint64_t offset;
    uint64_t size;
    uint64_t end() const noexcept { return offset + size; }
  };

  // Adds [offset, offset+size), joining its neighbours; returns the joined range.
  Range insert(uint64_t offset, uint64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        size += before->second;
        erase(before);
      }
    }
    if (next != by_offset_.end() && offset + size == next->first) {
      size += next->second;
      erase(next);
    }
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
    return {offset, size};
  }

  // Takes `size` bytes at a multiple of `align` from the smallest range that has them.
  std::optional<uint64_t> take(uint64_t size, uint64_t align) {
    for (auto it = by_size_.lower_bound({size, 0}); it != by_size_.end(); ++it) {
      auto [have, offset] = *it;
      uint64_t at = (offset + align - 1) / align * align;
      if (at + size > offset + have) continue;
      erase(by_offset_.find(offset));
      if (at > offset) insert(offset, at - offset);
      if (offset + have > at + size) insert(at + size, offset + have - at - size);
      return at;
    }
    return std::nullopt;
  }

  uint64_t largest() const noexcept { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  size_t count() const noexcept { return by_offset_.size(); }

  template <class F>
  void each(F&& f) const {
    for (auto& [offset, size] : by_offset_) f(Range{offset, size});
  }

 private:
  void erase(std::map<uint64_t, uint64_t>::iterator it) {
    by_size_.erase({it->second, it->first});
    by_offset_.erase(it);
  }

  std::map<uint64_t, uint64_t> by_offset_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
};

}  // namespace softnpu
