// How the two ends of a TCP connection prove to each other that they know the job's key, before either believes a byte of the
// other's. The key itself is never sent: each side answers the other's fresh number with a code that only the key makes.
//   caller -> listener   Hello: who is meant (a name made of the key), a fresh number
//   listener -> caller   Challenge: its own fresh number, and its proof
//   caller -> listener   Proof, over all that was said and what the caller says first
// What it is not: encryption, or a guard of what follows against somebody on the way (docs/distributed.md).
// Who calls it: bootstrap.cpp and bootstrap_server.cpp for the root's port, network/incoming.cpp and outgoing.cpp for the data's.
#pragma once

#include "softnpu/hccl/digest.h"
#include "softnpu/hccl/member.h"

namespace softnpu::hccl {

constexpr uint32_t kHandshake = 0x32484348;  // "HCH2": changes with these structures

struct Hello {
  uint32_t version = kHandshake, pad = 0;
  Key meant;   // name_of(key)
  Key number;  // random
};

struct Challenge {
  Key number;  // random
  Digest proof;
};

// What a listener answers to when it is asked for; tells nothing about the key.
Key name_of(const Key& key);

Hello hello(const Key& key);
Challenge challenge(const Key& key, const Hello& hello);
bool proves(const Key& key, const Hello& hello, const Challenge& challenge);
// The caller's. `said`: what it sends along and stands for.
Digest answer(const Key& key, const Hello& hello, const Challenge& challenge, std::string_view said);

}  // namespace softnpu::hccl
