// The parcels of one operation: those that nobody waits for any more, because the operation failed, are dropped with it.
#pragma once

#include <vector>

#include "softnpu/hccl/network/wire.h"
#include "softnpu/hccl/settings.h"

namespace softnpu::hccl {

class PostOffice {
 public:
  PostOffice(Wire& wire, const Key& key, uint32_t sequence, Bell bell)
      : wire_(wire), key_(key), sequence_(sequence), bell_(std::move(bell)) {}
  ~PostOffice();
  PostOffice(const PostOffice&) = delete;

  // `from`, `to`, `index`: whatever tells the operation's messages apart, the same at both ends.
  ParcelPtr send(Mail kind, uint32_t from, uint32_t to, uint32_t index, const Key& process, BlockPtr block,
                 size_t bytes);
  ParcelPtr receive(Mail kind, uint32_t from, uint32_t to, uint32_t index, BlockPtr block);
  // Until this one is through.
  void wait(const Parcel& parcel, Patience& patience);
  // Rings when one of its parcels, or anything else of the rank, went on.
  Signal& bell() const { return bell_.board->slot(bell_.rank).bell; }
  // True when it is through; throws when it was lost and the control connection had its time to say why.
  bool through(const Parcel& parcel, Patience& patience);

 private:
  Wire& wire_;
  const Key key_;
  const uint32_t sequence_;
  const Bell bell_;
  ParcelPtr keep(ParcelPtr parcel);
  std::vector<ParcelPtr> to_drop_;
};

}  // namespace softnpu::hccl
