// A connection to another process's wire: it calls, proves who it is, lets the other prove the same, and then sends parcels in order.
// Who calls it: carrier_tcp.cpp, on the wire's thread. Nothing here waits.
#pragma once

#include <deque>

#include "softnpu/hccl/network/incoming.h"

namespace softnpu::hccl {

class Outgoing {
 public:
  // Begins to connect, leaving by `from`. Throws when that cannot even be tried.
  Outgoing(const Addresses::Place& to, const std::string& from);
  ~Outgoing();  // what is not through is lost
  int fd() const { return socket_.get(); }
  void send(ParcelPtr parcel) { queue_.push_back(std::move(parcel)); }
  // Goes on as far as it gets. Throws when it is over; lost() then says what its parcels are told.
  void go_on(bool readable);
  void let_go(const ParcelPtr& parcel);
  bool idle() const { return queue_.empty(); }
  bool wants_to_write() const { return state_ == kCalling || (state_ == kOpen && !queue_.empty()); }
  void lost(const std::string& why) { why_ = why; }
  bool watched_for_writing = true;  // the carrier's

 private:
  void greet();
  void pump();
  enum State { kCalling, kGreeted, kOpen } state_ = kCalling;
  Fd socket_;
  const Key key_;
  const std::string where_;
  Hello hello_;
  FrameReader frames_;
  std::deque<ParcelPtr> queue_;
  size_t sent_ = 0;  // of the first one, with its head
  std::string why_ = "the connection was closed";
};

}  // namespace softnpu::hccl
