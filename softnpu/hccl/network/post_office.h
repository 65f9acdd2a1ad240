// The parcels of one operation: those that nobody waits for any more, because the operation failed, are dropped with it.
#pragma once

#include <functional>
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
  // Until this one is through. `late` as in Board::wait.
  void wait(const Parcel& parcel, const std::function<void()>& late);
  // Until something rings that had not when `heard` was read.
  uint32_t heard() const;
  void listen(uint32_t heard, const std::function<void()>& late);
  // True when it is through; throws when it was lost and the control connection had its time to say why.
  bool through(const Parcel& parcel, const std::function<void()>& late);

 private:
  Wire& wire_;
  const Key key_;
  const uint32_t sequence_;
  const Bell bell_;
  ParcelPtr keep(ParcelPtr parcel);
  std::vector<ParcelPtr> to_drop_;
  Deadline lost_{};
};

}  // namespace softnpu::hccl
