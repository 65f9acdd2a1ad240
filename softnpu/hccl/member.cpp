// See member.h.
#include "softnpu/hccl/member.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "softnpu/hccl/digest.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

Key random_key() {
  Key key;
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
    fail(HCCL_E_SYSCALL, "getrandom failed");
  return key;
}

Key derived_key(const Key& parent, const std::string& text) {
  const Digest digest = hmac(bytes_of(parent), {text});
  Key key;
  memcpy(key.data(), digest.data(), key.size());
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
