// See wire.h.
#include "softnpu/hccl/network/wire.h"

#include <cstdlib>

#include "softnpu/hccl/network/worker.h"

namespace softnpu::hccl {

Wire::Wire(const std::string& address) : worker_(new Worker(address)) {
  worker_->start();
  static Worker* at_exit = worker_;
  atexit([] {
    if (!forked()) at_exit->close();
  });
}

Wire& Wire::get(const std::string& address) {
  static Wire* const the = new Wire(address);  // leaked: its thread uses it to the end
  return *the;
}

const std::string& Wire::name() const { return worker_->carrier->name(); }

void Wire::admit(const Key& process, const std::string& from, const Key& communicator) {
  worker_->addresses.admit(process, from, communicator);
  worker_->wake();
}

void Wire::learn(const Key& process, const std::string& name, const Key& communicator) {
  worker_->addresses.learn(process, name, communicator);
}

ParcelPtr Wire::send(const Key& process, uint64_t tag, BlockPtr block, size_t bytes, Bell bell) {
  auto parcel = std::make_shared<Parcel>();
  parcel->out = true;
  parcel->to = process, parcel->tag = tag, parcel->block = std::move(block), parcel->bytes = bytes;
  parcel->bell = std::move(bell);
  worker_->order(parcel);
  return parcel;
}

ParcelPtr Wire::receive(uint64_t tag, BlockPtr block, Bell bell) {
  auto parcel = std::make_shared<Parcel>();
  parcel->tag = tag, parcel->block = std::move(block);
  parcel->bell = std::move(bell);
  worker_->order(parcel);
  return parcel;
}

void Wire::drop(const ParcelPtr& parcel) {
  parcel->dropped = true;
  worker_->order(parcel);
}

bool Wire::closed() const { return worker_->closed.value.load(std::memory_order_acquire) != 0; }

}  // namespace softnpu::hccl
