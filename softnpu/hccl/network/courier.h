// One message between ranks of different hosts (Send, Recv, batches): a head, and the bytes in parts, a few of them under way.
#pragma once

#include <deque>
#include <functional>

#include "softnpu/hccl/network/post_office.h"
#include "softnpu/hccl/schedule.h"

namespace softnpu::hccl {

class Courier {
 public:
  Courier(const Transfer& transfer, uint32_t number, uint32_t rank, const Member& peer, Wire& wire, const Key& key,
          Bell bell)
      : transfer_(transfer), rank_(rank), peer_(peer), office_(wire, key, number, std::move(bell)) {}
  // True when it went on. Throws what `mismatch` throws when the sender sends something else.
  bool step(Patience& patience, const std::function<void(uint32_t type, uint64_t bytes)>& mismatch);
  bool done() const { return done_; }

 private:
  struct Head {
    uint64_t bytes;
    uint32_t type, pad;
  };
  struct Part {
    ParcelPtr parcel;
    uint64_t at, bytes;
  };
  bool send_more();
  bool ask_more();
  uint64_t part(uint64_t at) const;

  const Transfer& transfer_;
  const uint32_t rank_;
  const Member& peer_;
  PostOffice office_;
  std::deque<Part> under_way_;
  uint64_t at_ = 0;     // bytes given to the wire, or asked for
  uint32_t index_ = 0;  // parts so far
  bool known_ = false;  // of a receive: the head has come
  bool done_ = false;
};

}  // namespace softnpu::hccl
