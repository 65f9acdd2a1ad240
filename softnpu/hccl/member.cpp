// See member.h.
#include "softnpu/hccl/member.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

Key random_key() {
  Key key;
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
    fail(HCCL_E_SYSCALL, "getrandom failed");
  return key;
}

Key derived_key(const Key& parent, const std::string& text) {
  // Two FNV-1a walks with different starts. Not a cryptographic hash: the parent's 128 random bits are what must not be guessed.
  uint64_t h[2] = {0xcbf29ce484222325u, 0x9ae16a3b2f90404fu};
  auto mix = [&](uint8_t byte) {
    for (uint64_t& x : h) x = (x ^ byte) * 0x100000001b3u;
    h[1] ^= h[0] >> 29;
  };
  for (uint8_t byte : parent) mix(byte);
  for (char c : text) mix(static_cast<uint8_t>(c));
  Key key;
  memcpy(key.data(), h, sizeof h);
  return key;
}

std::string hex(const Key& key) {
  std::string text;
  for (uint8_t byte : key) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

const Process& this_process() {
  static const Process* const the =
      new Process{random_key(), random_key(), static_cast<uint32_t>(getpid()), static_cast<uint32_t>(geteuid())};
  return *the;
}

}  // namespace softnpu::hccl
