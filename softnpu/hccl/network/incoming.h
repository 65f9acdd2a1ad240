// A connection on which another process's parcels come: first a stranger's, who proves with the handshake that it belongs to a
// communicator of this process, then parcels, each with its tag and size before it, straight into the memory they are for.
// Who calls it: carrier_tcp.cpp, on the wire's thread. Nothing here waits.
#pragma once

#include <optional>
#include <vector>

#include "softnpu/hccl/handshake.h"
#include "softnpu/hccl/network/carrier.h"
#include "softnpu/hccl/socket.h"

namespace softnpu::hccl {

enum WireFrame : uint32_t { kWireHello = 1, kWireChallenge, kWireProof };

struct ParcelHead {
  uint64_t tag, bytes;
};

class Incoming {
 public:
  Incoming(Fd socket, const Addresses& addresses, Inbox& inbox)
      : socket_(std::move(socket)), addresses_(addresses), inbox_(inbox) {}
  ~Incoming();
  bool stranger() const { return !believed_; }
  int fd() const { return socket_.get(); }
  // Takes what has come, a share of it at a time. Throws when it is over, or was not one of us.
  void read();
  // What comes for it from now on is written nowhere.
  void let_go(const ParcelPtr& parcel);

 private:
  void greet();
  bool head();  // true: a parcel is under way
  bool body();  // true: it is there
  size_t take(void* to, size_t size);
  bool drained_ = false;  // less came than was asked for: asking again would be a system call for nothing

  Fd socket_;
  const Addresses& addresses_;
  Inbox& inbox_;
  FrameReader frames_;
  std::optional<std::pair<Hello, Challenge>> asked_;
  Key key_{};
  bool believed_ = false;

  std::vector<std::byte> buffer_;  // small ones come several at a time
  size_t from_ = 0, to_ = 0;
  bool moving_ = false;
  ParcelHead head_{};
  size_t got_ = 0;
  ParcelPtr parcel_;  // waits for it
  BlockPtr block_;    // nobody waits yet. Neither: it is thrown away
};

}  // namespace softnpu::hccl
