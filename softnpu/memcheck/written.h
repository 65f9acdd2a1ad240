// Which bytes of a block somebody has written. Who uses it: the checker, under its lock.
#pragma once

#include <cstdint>
#include <vector>

namespace softnpu::memcheck {

class Written {
 public:
  explicit Written(uint64_t bytes) : bytes_(bytes) {}

  void all() {
    left_ = 0;
    bits_ = {};
  }
  void add(uint64_t from, uint64_t to) {
    if (left_ == 0) return;
    if (from == 0 && to >= bytes_) return all();
    if (bits_.empty()) bits_.resize((bytes_ + 63) / 64);
    each_word(from, to, [this](uint64_t word, uint64_t mask) {
      left_ -= static_cast<uint64_t>(__builtin_popcountll(mask & ~bits_[word]));
      bits_[word] |= mask;
      return true;
    });
    if (left_ == 0) bits_ = {};
  }
  // How many of them nobody has written.
  uint64_t missing(uint64_t from, uint64_t to) const {
    if (left_ == 0) return 0;
    if (bits_.empty()) return to - from;
    uint64_t n = 0;
    each_word(from, to, [&](uint64_t word, uint64_t mask) {
      n += static_cast<uint64_t>(__builtin_popcountll(mask & ~bits_[word]));
    });
    return n;
  }

 private:
  template <class Visit>
  static void each_word(uint64_t from, uint64_t to, Visit&& visit) {
    for (uint64_t word = from / 64; from < to; ++word) {
      const uint64_t end = to - word * 64 < 64 ? to : (word + 1) * 64;
      const uint64_t low = from % 64, count = end - from;
      visit(word, (count == 64 ? ~uint64_t{0} : ((uint64_t{1} << count) - 1)) << low);
      from = end;
    }
  }

  uint64_t bytes_, left_ = bytes_;
  std::vector<uint64_t> bits_;  // a bit a byte; empty: none is written, or all are
};

}  // namespace softnpu::memcheck
