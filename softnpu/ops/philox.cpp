// See philox.h. Blocks side by side, so that the compiler has loops over lanes to make vector instructions of.
#include "softnpu/ops/philox.h"

#include "softnpu/ops/processor.h"

namespace softnpu::ops {

namespace {

CLONES void rounds(uint32_t k0, uint32_t k1, uint64_t offset, uint64_t first, Philox::Words& words) {
  constexpr int kMany = Philox::kMany;
  alignas(64) uint32_t c0[kMany], c1[kMany], c2[kMany], c3[kMany];
  for (int i = 0; i < kMany; i++) {
    c0[i] = static_cast<uint32_t>(offset);
    c1[i] = static_cast<uint32_t>(offset >> 32);
    c2[i] = static_cast<uint32_t>(first + static_cast<uint64_t>(i));
    c3[i] = static_cast<uint32_t>((first + static_cast<uint64_t>(i)) >> 32);
  }
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < kMany; i++) {
      const uint64_t a = uint64_t{0xD2511F53} * c0[i], b = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(b);
      c3[i] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int i = 0; i < kMany; i++) {
    words[0][i] = c0[i];
    words[1][i] = c1[i];
    words[2][i] = c2[i];
    words[3][i] = c3[i];
  }
}

}  // namespace

void Philox::many(uint64_t first, Words& words) const { rounds(key_[0], key_[1], offset_, first, words); }

}  // namespace softnpu::ops
