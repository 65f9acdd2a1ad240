// Who takes part in a communicator: what every rank tells the root and the root tells every rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace softnpu::hccl {

using Key = std::array<uint8_t, 16>;

Key random_key();
// A key that all who give the same text and parent get, and nobody else guesses without the parent.
Key derived_key(const Key& parent, const std::string& text);
std::string hex(const Key& key);

// A process: where its control thread listens (the local socket's name is made of `id`) and what a caller must know to be let in.
struct Process {
  Key id, secret;
  uint32_t pid, uid;
};
const Process& this_process();

// Plain bytes: it is sent as it is.
struct Member {
  Process process;
  Key host;  // of host_identity()
  uint32_t rank;
  int32_t device;
  char address[64];         // numeric, of the chosen interface
  char device_address[64];  // for data between hosts
};

}  // namespace softnpu::hccl
