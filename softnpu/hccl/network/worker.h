// The wire's thread and its UCX worker. start(), wake(), order() and close() may be called by any thread; the rest is for the wire's.
#pragma once

#include <sys/eventfd.h>

#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "softnpu/hccl/network/inbox.h"
#include "softnpu/hccl/network/ucx.h"

namespace softnpu::hccl {

struct Wire::Worker {
  const Ucx& api = ucx();
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  int events = -1;
  Fd bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::string name;

  std::mutex mutex;  // guards the next three
  std::deque<ParcelPtr> orders;
  std::map<Key, std::string> names;
  bool closing = false;
  std::atomic<bool> asleep{false};
  Signal closed;  // 1: the thread has ended

  // The wire's own thread only:
  struct Ep {
    ucp_ep_h ep = nullptr;
    bool broken = false;
  };
  struct Leaving {
    ParcelPtr parcel;
    Deadline deadline;
  };
  std::map<Key, std::unique_ptr<Ep>> endpoints;
  std::vector<std::unique_ptr<Ep>> broken;
  Inbox inbox;
  std::vector<Leaving> leaving;   // dropped sends of lent memory
  const bool eager = tcp_only();  // by TCP everything is read as it comes; with RDMA UCX chooses

  explicit Worker(const std::string& address);
  void start();
  void wake();
  void order(ParcelPtr parcel);
  void run();
  bool waiting();
  bool serve();
  void begin(ParcelPtr parcel);
  // A message that is already in memory, on this thread: the one copy that UCX's TCP makes of it, straight to where it belongs.
  static ucs_status_t came(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                           const ucp_am_recv_param_t* param);
  // One that the sender still holds (RDMA). It comes into a block of ours: such a receive cannot be taken back.
  ucs_status_t fetch(uint64_t tag, void* there, size_t bytes);
  // A send is given a moment: a process that lives reads whatever comes, so this one's end is near; else the connection is cut,
  // which ends it.
  void forget(ParcelPtr parcel);
  void see_off();
  ucp_ep_h endpoint(const Key& process);
  void close_broken();
  // At exit: what was said to be sent goes out before the process ends.
  bool finish();
  void close();
};

}  // namespace softnpu::hccl
