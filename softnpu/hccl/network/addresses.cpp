// See carrier.h: who may call, and how they are called.
#include "softnpu/hccl/handshake.h"
#include "softnpu/hccl/network/carrier.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

// Of the connections from one process to another: known to those only who know the communicator's key, and not that key.
Key wire_key(const Key& communicator, const Key& from, const Key& to) {
  return derived_key(communicator, "wire " + hex(from) + " " + hex(to));
}

}  // namespace

void Addresses::admit(const Key& process, const std::string& from, const Key& communicator) {
  const Key key = wire_key(communicator, process, this_process().id);
  std::lock_guard lock(mutex_);
  callers_[name_of(key)] = key;
  from_.insert(from);
  count_.store(from_.size(), std::memory_order_release);
}

void Addresses::learn(const Key& process, const std::string& name, const Key& communicator) {
  std::lock_guard lock(mutex_);
  places_[process] = {name, wire_key(communicator, this_process().id, process)};
}

Addresses::Place Addresses::of(const Key& process) const {
  std::lock_guard lock(mutex_);
  const auto found = places_.find(process);
  if (found == places_.end() || found->second.name.empty())
    fail(HCCL_E_INTERNAL, "the process did not say how to reach it");
  return found->second;
}

std::optional<Key> Addresses::called(const Key& name) const {
  std::lock_guard lock(mutex_);
  const auto found = callers_.find(name);
  return found == callers_.end() ? std::nullopt : std::optional<Key>(found->second);
}

std::set<std::string> Addresses::callers() const {
  std::lock_guard lock(mutex_);
  return from_;
}

}  // namespace softnpu::hccl
