// What comes and what is waited for, by tag: a message that nobody waits for yet is kept. On the wire's thread only.
#pragma once

#include <unordered_map>

#include "softnpu/hccl/network/wire.h"

namespace softnpu::hccl {

class Inbox {
 public:
  void expect(ParcelPtr parcel);
  void forget(const ParcelPtr& parcel);  // what comes for it later is written nowhere
  void arrive(uint64_t tag, const std::byte* data, size_t bytes);
  void arrive(uint64_t tag, BlockPtr block, size_t bytes);
  // What is waited for, to be written into its block as it comes: from then on it is the caller's to end. Null when nothing is.
  ParcelPtr take(uint64_t tag);
  void lose(uint64_t tag, const std::string& why);

 private:
  struct Early {
    BlockPtr block;
    size_t bytes;
  };
  std::unordered_map<uint64_t, ParcelPtr> expected_;
  std::unordered_map<uint64_t, Early> early_;
};

}  // namespace softnpu::hccl
