// See digest.h.
#include "softnpu/hccl/digest.h"

#include <bit>
#include <cstring>
#include <string>

namespace softnpu::hccl {
namespace {

constexpr size_t kBlock = 64;

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void absorb(uint32_t (&state)[8], const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  uint32_t s[8];
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t one =
        s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + kRound[i] + w[i];
    const uint32_t two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

Digest sha256(std::string_view text) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  size_t left = text.size();
  for (; left >= kBlock; at += kBlock, left -= kBlock) absorb(state, at);
  uint8_t last[2 * kBlock] = {};
  if (left) memcpy(last, at, left);
  last[left] = 0x80;
  const size_t size = left + 9 <= kBlock ? kBlock : 2 * kBlock;
  const uint64_t bits = uint64_t{text.size()} * 8;
  for (int i = 0; i < 8; ++i) last[size - 1 - i] = static_cast<uint8_t>(bits >> 8 * i);
  for (size_t done = 0; done < size; done += kBlock) absorb(state, last + done);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest hmac(std::string_view key, std::initializer_list<std::string_view> parts) {
  uint8_t padded[kBlock] = {};
  if (key.size() > kBlock) {
    const Digest shorter = sha256(key);
    memcpy(padded, shorter.data(), shorter.size());
  } else if (!key.empty()) {
    memcpy(padded, key.data(), key.size());
  }
  std::string inner, outer;
  for (uint8_t byte : padded) inner += static_cast<char>(byte ^ 0x36), outer += static_cast<char>(byte ^ 0x5c);
  for (std::string_view part : parts) {
    const uint64_t size = part.size();
    inner.append(bytes_of(size)).append(part);
  }
  const Digest first = sha256(inner);
  return sha256(outer.append(bytes_of(first)));
}

bool same(const Digest& a, const Digest& b) {
  uint8_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= a[i] ^ b[i];
  return !different;
}

}  // namespace softnpu::hccl
