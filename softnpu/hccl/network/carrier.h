// What takes parcels to other processes' wires and brings theirs: TCP connections of our own (carrier_tcp.cpp), or UCX where there
// is RDMA or the user named UCX_TLS (carrier_ucx.cpp). Who calls it: the wire's one thread; Addresses may be used by any.
// What it is not: waiting, or what a tag means (worker.h, inbox.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "softnpu/hccl/network/inbox.h"
#include "softnpu/hccl/settings.h"

namespace softnpu::hccl {

// How the processes of this one's communicators are reached, and the keys by which they are known.
class Addresses {
 public:
  struct Place {
    std::string name;
    Key key;
  };
  // A process may call with this key from now on; it is called with it once the communicator stands.
  void admit(const Key& process, const std::string& from, const Key& communicator);
  void learn(const Key& process, const std::string& name, const Key& communicator);
  Place of(const Key& process) const;                // throws when it did not say how to reach it
  std::optional<Key> called(const Key& name) const;  // the key with this name_of()
  std::set<std::string> callers() const;             // where they may come from (numeric); it only grows
  size_t callers_count() const { return count_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Place> places_;
  std::map<Key, Key> callers_;  // by name_of(key)
  std::set<std::string> from_;
  std::atomic<size_t> count_{0};  // of from_
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual const std::string& name() const = 0;
  virtual int events() const = 0;  // readable when progress() has something to do, once arm() was true
  virtual bool arm() { return true; }
  virtual bool progress() = 0;              // true: something moved
  virtual void send(ParcelPtr parcel) = 0;  // ends it when it is through or lost
  // Nobody waits for it any more: it is let go of if that is possible now. What is half under way stays.
  virtual void let_go(const ParcelPtr&) {}
  virtual void cut(const Key& process) = 0;   // what is under way to it is lost
  virtual void flush(Deadline deadline) = 0;  // what was given to send() is with the kernel or the card
};

// What a process's name begins with: how it is to be called.
constexpr std::string_view kTcpName = "tcp ", kUcxName = "ucx ";

// Both throw HCCL_E_TCP_CONNECT; UCX also HCCL_E_UNAVAIL.
std::unique_ptr<Carrier> make_tcp_carrier(const std::string& address, const Addresses& addresses, Inbox& inbox);
std::unique_ptr<Carrier> make_ucx_carrier(const std::string& address, const Addresses& addresses, Inbox& inbox);

}  // namespace softnpu::hccl
