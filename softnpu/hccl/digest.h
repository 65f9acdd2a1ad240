// SHA-256 and HMAC over it (FIPS 180-4, RFC 2104): what proves that the other side knows a job's key without saying it.
// What it is not: encryption; what follows a proof on a connection can be read and, by whoever sits on its way, be changed.
// Who calls it: member.cpp (derived keys), handshake.cpp (the sockets between hosts).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace softnpu::hccl {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view text);
// Of the parts one after another; each is preceded by its length, so that no two lists of parts are the same text.
Digest hmac(std::string_view key, std::initializer_list<std::string_view> parts);
// In a time that does not depend on where they differ.
bool same(const Digest& a, const Digest& b);

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace softnpu::hccl
