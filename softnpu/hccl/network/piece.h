// A plan cut into pieces. All ranks cut alike, so a piece's number says what it is; on each host one rank does the host's part of it.
// A reduction goes from host to host in their order, so that its bits are those of one host with the same ranks; what arises at one
// host and is for all goes round: each hands it on to the next.
#pragma once

#include <list>
#include <vector>

#include "softnpu/hccl/network/hosts.h"
#include "softnpu/hccl/network/post_office.h"
#include "softnpu/hccl/reduce.h"
#include "softnpu/hccl/schedule.h"

namespace softnpu::hccl {

// What a piece needs to know about the operation; on the stack of the one that carries it out.
struct Across {
  const Hosts& hosts;
  const std::vector<Member>& members;
  PostOffice& office;
  std::vector<const std::byte*> send;  // by rank, of this host's
  std::vector<std::byte*> recv;
  SplitReduce reduce;
  size_t element;
};

class Piece {
 public:
  Piece(const Across& across, const Segment& segment, uint64_t offset, uint64_t bytes, uint32_t number);

  // Has this host a part in it?
  bool concerns(const Hosts& hosts) const;
  // It needs no memory of its own on the way: from a rank's buffer into another's.
  bool direct() const { return segment_.from != kAll && segment_.to != kAll; }
  bool stays() const { return direct() && a_.hosts.of(segment_.from) == a_.hosts.of(segment_.to); }
  // Says what this host has to say first, and asks for what it needs.
  void start();
  // Goes on with what has come; true when it went on.
  bool step(Patience& patience);
  bool done() const { return !partial_.parcel && !result_.parcel && sent_.empty(); }
  // Marks the ranks that it waits for.
  void blame(std::vector<bool>* ranks) const;

 private:
  struct Awaited {
    ParcelPtr parcel;
    uint32_t rank;  // at the other end
  };
  bool for_host(uint32_t host) const { return segment_.to == kAll || a_.hosts.of(segment_.to) == host; }
  void reduce_on(const Block* partial);
  void spread(BlockPtr result);
  void deliver(const void* from) const;
  void post(Mail kind, uint32_t host, BlockPtr block, size_t bytes);
  Awaited ask(Mail kind, uint32_t host, BlockPtr block);

  const Across& a_;
  const Segment segment_;                  // of this piece alone
  const uint32_t number_, last_, origin_;  // hosts: the last one, and the one where the result arises
  Awaited partial_{}, result_{};
  std::vector<Awaited> sent_;
};

}  // namespace softnpu::hccl
