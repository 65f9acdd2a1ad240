// Streams that belong to one group each: its collectives have one, and each peer one for sends and one for receives, so that what
// waits for one rank holds up no other. They are not of the streams that torch.npu.Stream() hands out in turn: two groups, or a
// group and the program, must not stand in each other's way. A stream is never destroyed (the allocator remembers it); a group
// gives its own back, and a later group takes them.
#pragma once

#include <c10/core/Stream.h>

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace npu::distributed {

// What a lane is for; kCollective has no peer.
struct Lane {
  enum Kind : uint8_t { kCollective, kSend, kRecv } kind = kCollective;
  int peer = -1;
  auto operator<=>(const Lane&) const = default;
};

class Lanes {
 public:
  Lanes(c10::DeviceIndex device, bool high_priority) : device_(device), high_priority_(high_priority) {}
  ~Lanes();
  Lanes(const Lanes&) = delete;

  c10::Stream at(const Lane& lane);  // made, or taken from what earlier groups gave back, at first use
  // Drops what is queued and forgets the errors, so that the streams may serve again. Does not wait for other ranks.
  void abort() noexcept;

 private:
  const c10::DeviceIndex device_;
  const bool high_priority_;
  std::mutex mutex_;  // guards streams_
  std::map<Lane, c10::Stream> streams_;
};

}  // namespace npu::distributed
