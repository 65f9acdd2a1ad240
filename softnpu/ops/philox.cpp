// See philox.h. Blocks side by side, so that the compiler has loops over lanes to make vector instructions of.
#include "softnpu/ops/philox.h"

#include "softnpu/ops/processor.h"

namespace softnpu::ops {

namespace {

// A lane's ten rounds stand within the loop over lanes: with the loops the other way round the compiler makes no vectors.
CLONES void rounds(uint32_t k0, uint32_t k1, uint64_t offset, uint64_t first, Philox::Words& words) {
  for (int i = 0; i < Philox::kMany; i++) {
    const uint64_t block = first + static_cast<uint64_t>(i);
    auto c0 = static_cast<uint32_t>(offset), c1 = static_cast<uint32_t>(offset >> 32);
    auto c2 = static_cast<uint32_t>(block), c3 = static_cast<uint32_t>(block >> 32);
    uint32_t key0 = k0, key1 = k1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
      const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ key0;
      c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ key1;
      c1 = static_cast<uint32_t>(b);
      c3 = static_cast<uint32_t>(a);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    words[0][i] = c0;
    words[1][i] = c1;
    words[2][i] = c2;
    words[3][i] = c3;
  }
}

}  // namespace

void Philox::many(uint64_t first, Words& words) const { rounds(key_[0], key_[1], offset_, first, words); }

}  // namespace softnpu::ops
