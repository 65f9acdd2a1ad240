// See inbox.h.
#include "softnpu/hccl/network/inbox.h"

#include <cstring>

namespace softnpu::hccl {
namespace {

void deliver(Parcel& parcel, const std::byte* data, size_t bytes) {
  if (bytes > parcel.block->size()) return parcel.end(Parcel::kLost, "a message is longer than expected");
  // It may be another rank's, which has its error and goes on, while this process stood still.
  if (parcel.block->lent() && parcel.bell.board->aborted())
    return parcel.end(Parcel::kLost, "its operation was given up");
  memcpy(parcel.block->data(), data, bytes);
  parcel.end(Parcel::kThrough);
}

}  // namespace

void Inbox::expect(ParcelPtr parcel) {
  const auto early = early_.find(parcel->tag);
  if (early == early_.end()) {
    const uint64_t tag = parcel->tag;
    expected_[tag] = std::move(parcel);
    return;
  }
  deliver(*parcel, early->second.block->data(), early->second.bytes);
  early_.erase(early);
}

void Inbox::forget(const ParcelPtr& parcel) {
  if (parcel->done()) return;
  if (const auto waits = expected_.find(parcel->tag); waits != expected_.end() && waits->second == parcel)
    expected_.erase(waits);
  parcel->end(Parcel::kLost, "nobody waits for it any more");
}

void Inbox::arrive(uint64_t tag, const std::byte* data, size_t bytes) {
  const auto waits = expected_.find(tag);
  if (waits == expected_.end()) {
    auto block = std::make_shared<Block>(bytes);
    memcpy(block->data(), data, bytes);
    early_[tag] = {std::move(block), bytes};
    return;
  }
  deliver(*waits->second, data, bytes);
  expected_.erase(waits);
}

void Inbox::arrive(uint64_t tag, BlockPtr block, size_t bytes) {
  if (expected_.count(tag)) return arrive(tag, block->data(), bytes);
  early_[tag] = {std::move(block), bytes};
}

ParcelPtr Inbox::take(uint64_t tag) {
  const auto waits = expected_.find(tag);
  if (waits == expected_.end()) return nullptr;
  ParcelPtr parcel = std::move(waits->second);
  expected_.erase(waits);
  return parcel;
}

void Inbox::lose(uint64_t tag, const std::string& why) {
  const auto waits = expected_.find(tag);
  if (waits == expected_.end()) return;
  waits->second->end(Parcel::kLost, why);
  expected_.erase(waits);
}

}  // namespace softnpu::hccl
