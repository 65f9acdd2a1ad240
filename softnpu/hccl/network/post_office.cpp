// See post_office.h.
#include "softnpu/hccl/network/post_office.h"

#include <thread>

#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

PostOffice::~PostOffice() {
  for (const ParcelPtr& parcel : to_drop_)
    if (!parcel->done()) wire_.drop(parcel);
  for (const ParcelPtr& parcel : to_drop_) wire_.await_return(parcel);
}

ParcelPtr PostOffice::send(Mail kind, uint32_t from, uint32_t to, uint32_t index, const Key& process, BlockPtr block,
                           size_t bytes) {
  const bool lent = block->lent();
  ParcelPtr parcel =
      wire_.send(process, tag_of(key_, kind, from, to, sequence_, index), std::move(block), bytes, bell_);
  return lent ? keep(std::move(parcel)) : parcel;  // the wire finishes the others by itself
}

ParcelPtr PostOffice::receive(Mail kind, uint32_t from, uint32_t to, uint32_t index, BlockPtr block) {
  return keep(wire_.receive(tag_of(key_, kind, from, to, sequence_, index), std::move(block), bell_));
}

ParcelPtr PostOffice::keep(ParcelPtr parcel) {
  std::erase_if(to_drop_, [](const ParcelPtr& p) { return p->done(); });
  to_drop_.push_back(parcel);
  return parcel;
}

uint32_t PostOffice::heard() const { return bell_.board->slot(bell_.rank).bell.value.load(std::memory_order_seq_cst); }

void PostOffice::listen(uint32_t heard, const std::function<void()>& late) {
  bell_.board->wait(bell_.board->slot(bell_.rank).bell, [&](uint32_t v) { return v != heard; }, late);
}

void PostOffice::wait(const Parcel& parcel, const std::function<void()>& late) {
  for (;;) {
    const uint32_t before = heard();
    if (through(parcel, late)) return;
    listen(before, late);
  }
}

bool PostOffice::through(const Parcel& parcel, const std::function<void()>& late) {
  const int state = parcel.state.load(std::memory_order_acquire);
  if (state != Parcel::kLost) return state == Parcel::kThrough;
  // Who died is better known than that a connection broke: leave the news a moment to come.
  const Deadline deadline = Clock::now() + std::chrono::milliseconds(2 * kHostTimeoutMs);
  while (Clock::now() < deadline) {
    if (bell_.board->aborted()) throw bell_.board->error();
    late();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail(HCCL_E_REMOTE, "the connection to a process on another host was lost: %s", parcel.error.c_str());
}

}  // namespace softnpu::hccl
