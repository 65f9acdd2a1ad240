// Philox4x32-10: a counter-based generator. Four 32-bit numbers are a pure function of (seed, offset, index), so a result
// depends on neither threads, nor streams, nor the order of kernels. Who uses it: draw.h, dropout.cpp. What it is not: state.
#pragma once

#include <array>
#include <cstdint>

namespace softnpu::ops {

class Philox {
 public:
  Philox(uint64_t seed, uint64_t offset)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, offset_(offset) {}

  // The index-th block of four. Blocks of one (seed, offset) never repeat; `offset` selects another stream of blocks.
  std::array<uint32_t, 4> operator()(uint64_t index) const {
    std::array<uint32_t, 4> c{static_cast<uint32_t>(offset_), static_cast<uint32_t>(offset_ >> 32),
                              static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)};
    uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; round++) {
      uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
      c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
           static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return c;
  }

  // The blocks from `first` on, word by word: words[w][i] is word w of block first + i (philox.cpp).
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
