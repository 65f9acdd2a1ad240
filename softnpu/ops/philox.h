// Philox4x32-10: a counter-based generator. Four 32-bit numbers are a pure function of (seed, offset, index), so a result
// depends on neither threads, nor streams, nor the order of kernels. Who uses it: kernels of this room that draw. What it is not: state.
#pragma once

#include <array>
#include <cstdint>

namespace softnpu::ops {

class Philox {
 public:
  Philox(uint64_t seed, uint64_t offset)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, offset_(offset) {}

  // The blocks from `first` on, word by word: words[w][i] is word w of block first + i. Blocks of one (seed, offset) never repeat;
  // `offset` selects another stream of blocks.
  static constexpr int kMany = 16;
  using Words = std::array<std::array<uint32_t, kMany>, 4>;
  void many(uint64_t first, Words& words) const;

 private:
  uint32_t key_[2];
  uint64_t offset_;
};

inline float to_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }  // [0, 1)
inline double to_double(uint32_t high, uint32_t low) {                                     // [0, 1)
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace softnpu::ops
