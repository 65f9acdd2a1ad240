// See handshake.h.
#include "softnpu/hccl/handshake.h"

namespace softnpu::hccl {

Key name_of(const Key& key) { return derived_key(key, "name"); }

Hello hello(const Key& key) {
  Hello h;
  h.meant = name_of(key), h.number = random_key();
  return h;
}

Challenge challenge(const Key& key, const Hello& hello) {
  Challenge c{random_key(), {}};
  c.proof = hmac(bytes_of(key), {"listener", bytes_of(hello), bytes_of(c.number)});
  return c;
}

bool proves(const Key& key, const Hello& hello, const Challenge& challenge) {
  return same(challenge.proof, hmac(bytes_of(key), {"listener", bytes_of(hello), bytes_of(challenge.number)}));
}

Digest answer(const Key& key, const Hello& hello, const Challenge& challenge, std::string_view said) {
  return hmac(bytes_of(key), {"caller", bytes_of(hello), bytes_of(challenge), said});
}

}  // namespace softnpu::hccl
