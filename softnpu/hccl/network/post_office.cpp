// See post_office.h.
#include "softnpu/hccl/network/post_office.h"

#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

PostOffice::~PostOffice() {
  for (const ParcelPtr& parcel : to_drop_)
    if (!parcel->done()) wire_.drop(parcel);
  Certain patience;  // the wire lets go of it soon, whatever the other host does
  for (const ParcelPtr& parcel : to_drop_)
    if (parcel->block->lent()) hccl::wait(bell(), [&] { return parcel->done() || wire_.closed(); }, patience);
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

void PostOffice::wait(const Parcel& parcel, Patience& patience) {
  hccl::wait(bell(), [&] { return through(parcel, patience); }, patience);
}

bool PostOffice::through(const Parcel& parcel, Patience& patience) {
  const int state = parcel.state.load(std::memory_order_acquire);
  if (state != Parcel::kLost) return state == Parcel::kThrough;
  // Who died is better known than that a connection broke: leave the news a moment to come.
  pause(settings().host_timeout + std::chrono::seconds(1), patience);
  fail(HCCL_E_REMOTE, "the connection to a process on another host was lost: %s", parcel.error.c_str());
}

}  // namespace softnpu::hccl
