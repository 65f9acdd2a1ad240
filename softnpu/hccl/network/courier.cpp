// See courier.h.
#include "softnpu/hccl/network/courier.h"

#include <algorithm>
#include <cstring>

#include "softnpu/hccl/board.h"

namespace softnpu::hccl {
namespace {

constexpr uint64_t kPart = 512 * 1024;
constexpr size_t kUnderWay = 4;

}  // namespace

// The first part has the head before its bytes, and so much less room for them.
uint64_t Courier::part(uint64_t at) const { return std::min(transfer_.bytes - at, at ? kPart : kPart - sizeof(Head)); }

bool Courier::send_more() {
  bool moved = false;
  while (under_way_.size() < kUnderWay && (!index_ || at_ < transfer_.bytes)) {
    const uint64_t bytes = part(at_), head = index_ ? 0 : sizeof(Head);
    auto block = std::make_shared<Block>(head + bytes);
    if (head) {
      const Head h{transfer_.bytes, static_cast<uint32_t>(transfer_.type), 0};
      memcpy(block->data(), &h, sizeof h);
    }
    if (bytes) memcpy(block->data() + head, static_cast<const std::byte*>(transfer_.buffer) + at_, bytes);
    under_way_.push_back(
        {office_.send(Mail::kMessage, rank_, peer_.rank, index_, peer_.process.id, std::move(block), head + bytes), at_,
         bytes});
    at_ += bytes, ++index_, moved = true;
  }
  return moved;
}

bool Courier::ask_more() {
  bool moved = false;
  while (under_way_.size() < kUnderWay && (!index_ || (known_ && at_ < transfer_.bytes))) {
    const uint64_t bytes = part(at_);
    // Room for whatever a first part may be: what does not fit the call is to be named, not cut off.
    under_way_.push_back(
        {office_.receive(Mail::kMessage, peer_.rank, rank_, index_, std::make_shared<Block>(index_ ? bytes : kPart)),
         at_, bytes});
    at_ += bytes, ++index_, moved = true;
  }
  return moved;
}

bool Courier::step(Patience& patience, const std::function<void(uint32_t type, uint64_t bytes)>& mismatch) {
  bool moved = transfer_.send ? send_more() : ask_more();
  while (!under_way_.empty() && office_.through(*under_way_.front().parcel, patience)) {
    const Part part = under_way_.front();
    under_way_.pop_front();
    moved = true;
    if (transfer_.send) continue;
    const std::byte* data = part.parcel->block->data();
    if (!known_) {
      Head head;
      memcpy(&head, data, sizeof head);
      if (head.bytes != transfer_.bytes || head.type != static_cast<uint32_t>(transfer_.type))
        mismatch(head.type, head.bytes);
      data += sizeof head, known_ = true;
    }
    if (part.bytes) memcpy(static_cast<std::byte*>(transfer_.buffer) + part.at, data, part.bytes);
  }
  // A short message is on its way without the receiver, as on one host.
  done_ = at_ == transfer_.bytes && index_ &&
          (under_way_.empty() || (transfer_.send && transfer_.bytes <= kPairInlineBytes));
  return moved || done_;
}

}  // namespace softnpu::hccl
