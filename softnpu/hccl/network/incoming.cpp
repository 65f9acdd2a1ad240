// See incoming.h.
#include "softnpu/hccl/network/incoming.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kStrangersFrame = 256;
constexpr size_t kBuffer = 16 << 10;       // what is larger goes straight to its place
constexpr size_t kChunk = 512 << 10;       // written between two looks at whether the operation still stands
constexpr size_t kReceiveShare = 4 << 20;  // of one connection, before the others' turn

}  // namespace

Incoming::~Incoming() {
  if (parcel_) parcel_->end(Parcel::kLost, "the connection broke");
}

void Incoming::greet() {
  const std::optional<Frame> frame = frames_.read(socket_.get(), kStrangersFrame);
  if (!frame) return;
  if (!asked_) {
    Hello asks;
    if (frame->type != kWireHello || frame->bytes.size() != sizeof asks) fail(HCCL_E_TCP_TRANSFER, "not a hello");
    memcpy(&asks, frame->bytes.data(), sizeof asks);
    const std::optional<Key> key = addresses_.called(asks.meant);
    if (!key || asks.version != kHandshake) fail(HCCL_E_TCP_TRANSFER, "not one of us");
    key_ = *key;
    asked_ = {asks, challenge(key_, asks)};
    const std::string answer = frame_bytes(kWireChallenge, &asked_->second, sizeof(Challenge));
    // The first bytes on this connection: they fit.
    if (send(socket_.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        static_cast<ssize_t>(answer.size()))
      fail(HCCL_E_TCP_TRANSFER, "it takes no answer");
    return;
  }
  Digest proof;
  if (frame->type != kWireProof || frame->bytes.size() != sizeof proof) fail(HCCL_E_TCP_TRANSFER, "not a proof");
  memcpy(&proof, frame->bytes.data(), sizeof proof);
  if (!same(proof, answer(key_, asked_->first, asked_->second, "parcels"))) fail(HCCL_E_TCP_TRANSFER, "not one of us");
  believed_ = true;
  buffer_.resize(kBuffer);
}

void Incoming::read() {
  if (!believed_) return greet();
  drained_ = false;
  for (size_t share = 0; share < kReceiveShare || from_ < to_;) {
    if (!moving_ && !head()) return;
    const size_t before = got_;
    const bool whole = body();
    share += sizeof head_ + got_ - before;
    if (!whole) return;
    moving_ = false;
    if (parcel_)
      std::exchange(parcel_, nullptr)->end(Parcel::kThrough);
    else if (block_)
      inbox_.arrive(head_.tag, std::exchange(block_, nullptr), head_.bytes);
  }
}

// Bytes that are there now, 0 when none are.
size_t Incoming::take(void* to, size_t size) {
  while (!drained_) {
    const ssize_t got = recv(socket_.get(), to, size, MSG_DONTWAIT | (to ? 0 : MSG_TRUNC));
    drained_ = got > 0 && static_cast<size_t>(got) < size;
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return 0;
    fail(HCCL_E_TCP_TRANSFER, "the connection was closed by the other side");
  }
  return 0;
}

bool Incoming::head() {
  while (to_ - from_ < sizeof head_) {
    std::copy(buffer_.begin() + static_cast<ptrdiff_t>(from_), buffer_.begin() + static_cast<ptrdiff_t>(to_),
              buffer_.begin());
    to_ -= from_, from_ = 0;
    const size_t got = take(buffer_.data() + to_, buffer_.size() - to_);
    if (!got) return false;
    to_ += got;
  }
  memcpy(&head_, buffer_.data() + from_, sizeof head_);
  from_ += sizeof head_;
  got_ = 0;
  moving_ = true;
  parcel_ = inbox_.take(head_.tag);
  if (parcel_ && head_.bytes > parcel_->block->size())
    std::exchange(parcel_, nullptr)->end(Parcel::kLost, "a message is longer than expected");
  else if (!parcel_)
    block_ = std::make_shared<Block>(head_.bytes);
  return true;
}

bool Incoming::body() {
  while (got_ < head_.bytes) {
    // The block may be another rank's, which has its error and goes on, while this process stood still.
    if (parcel_ && parcel_->block->lent() && parcel_->bell.board->aborted())
      std::exchange(parcel_, nullptr)->end(Parcel::kLost, "its operation was given up");
    std::byte* const block = parcel_ ? parcel_->block->data() : block_ ? block_->data() : nullptr;
    const size_t left = head_.bytes - got_;
    size_t got = std::min(left, to_ - from_);
    if (got) {
      if (block) memcpy(block + got_, buffer_.data() + from_, got);
      from_ += got;
    } else {
      got = take(block ? block + got_ : nullptr, std::min(left, kChunk));
      if (!got) return false;
    }
    got_ += got;
  }
  return true;
}

void Incoming::let_go(const ParcelPtr& parcel) {
  if (parcel_ != parcel) return;
  parcel_.reset();
  parcel->end(Parcel::kLost, "nobody waits for it any more");
}

}  // namespace softnpu::hccl
