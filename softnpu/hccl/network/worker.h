// The wire's thread and its carrier. start(), wake(), order() and close() may be called by any thread; the rest is for the wire's.
#pragma once

#include <sys/eventfd.h>

#include <deque>
#include <mutex>
#include <vector>

#include "softnpu/hccl/network/carrier.h"

namespace softnpu::hccl {

struct Wire::Worker {
  Addresses addresses;
  Inbox inbox;
  std::unique_ptr<Carrier> carrier;
  Fd bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  std::mutex mutex;  // guards the next two
  std::deque<ParcelPtr> orders;
  bool closing = false;
  std::atomic<bool> asleep{false};
  Signal closed;  // 1: the thread has ended

  // The wire's own thread only:
  struct Leaving {
    ParcelPtr parcel;
    Deadline deadline;
  };
  std::vector<Leaving> leaving;  // dropped sends of lent memory

  explicit Worker(const std::string& address);
  void start();
  void wake();
  void order(ParcelPtr parcel);
  void run();
  bool waiting();
  bool serve();
  void begin(ParcelPtr parcel);
  // A send is given a moment: a process that lives reads whatever comes, so this one's end is near; else the connection is cut,
  // which ends it.
  void forget(ParcelPtr parcel);
  void see_off();
  // At exit: what was said to be sent goes out before the process ends.
  bool finish();
  void close();
};

}  // namespace softnpu::hccl
