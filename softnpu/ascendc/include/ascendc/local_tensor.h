// LocalTensor: a typed stretch of one of the core's memories. What it is not: owner of it (pipe.h, queue.h). Used by one thread.
// It knows the buffer that it was cut from, so that an instruction which leaves the buffer is an error that names it.
#pragma once

#include <cstdint>

#include "ascendc/core.h"
#include "ascendc/shape.h"
#include "ascendc/types.h"

namespace AscendC {
namespace detail {
template <class T>
struct Whole;
template <class T>
struct Compared;
}  // namespace detail

template <class T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() = default;
  LocalTensor(detail::Room* room, uint32_t piece, uint32_t start, uint32_t bytes)
      : room_(room), piece_(piece), start_(start), bytes_(bytes) {}

#define ASCENDC_WHOLE_BYTES(Name)              \
  static_assert(detail::per_byte<T> == 1, Name \
                ": numbers of 4 bits have no address of their own: ReinterpretCast<int8_t> reaches a pair of them")
  T GetValue(uint32_t index, ASCENDC_AT) const {
    ASCENDC_WHOLE_BYTES("GetValue");
    return *element(index, false, "GetValue", at);
  }
  void SetValue(uint32_t index, detail::Plain<T> value, ASCENDC_AT) const {
    ASCENDC_WHOLE_BYTES("SetValue");
    *element(index, true, "SetValue", at) = value;
  }
  T& operator()(uint32_t index, ASCENDC_AT) const {
    ASCENDC_WHOLE_BYTES("LocalTensor()");
    return *element(index, true, "LocalTensor()", at);
  }
#undef ASCENDC_WHOLE_BYTES

  // Elements from `offset` on, to the end of this tensor.
  LocalTensor operator[](uint32_t offset) const {
    LocalTensor t = *this;
    const uint64_t skipped = bytes(offset, "LocalTensor[]");
    t.start_ = static_cast<uint32_t>(start_ + skipped);
    t.bytes_ = skipped < bytes_ ? static_cast<uint32_t>(bytes_ - skipped) : 0;
    return t;
  }
  template <class U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> t(room_, piece_, start_, bytes_);
    t.SetUserTag(tag_);
    return t;
  }

  uint32_t GetSize() const { return bytes_ / sizeof(T) * detail::per_byte<T>; }
  void SetSize(uint32_t elements) { bytes_ = static_cast<uint32_t>(bytes(elements, "SetSize")); }
  uint32_t GetLength() const { return bytes_; }
  void SetBufferLen(uint32_t bytes) { bytes_ = bytes; }
  // The address in the unified buffer, as instructions that take lists of addresses want it.
  uint64_t GetPhyAddr() const { return start_; }
  uint64_t GetPhyAddr(uint32_t offset) const { return start_ + bytes(offset, "GetPhyAddr"); }
  TPosition GetPosition() const { return room_ ? room_->position : TPosition::MAX; }
  void SetUserTag(uint32_t tag) { tag_ = tag; }
  uint32_t GetUserTag() const { return tag_; }
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
  ShapeInfo GetShapeInfo() const { return shape_; }
  template <class U>
  void SetAddrWithOffset(const LocalTensor<U>& from, uint32_t offset) {
    const auto cut = from[offset];
    room_ = cut.room();
    piece_ = cut.piece();
    start_ = static_cast<uint32_t>(cut.GetPhyAddr());
    bytes_ = cut.GetLength();
  }

  // dst = src0 + src1 (vector_binary.h): all elements of dst. dst = src0 < src1 (compare.h): all of src0, a bit each.
  void operator=(const detail::Whole<T>& all) const { all.f(*this, all.src0, all.src1, GetSize()); }
  template <class U>
  void operator=(const detail::Compared<U>& all) const {
    Compare(*this, all.src0, all.src1, all.mode, all.src0.GetSize());
  }

  detail::Room* room() const { return room_; }
  uint32_t piece() const { return piece_; }

 private:
  static uint64_t bytes(uint32_t elements, const char* what) {
    if (elements % detail::per_byte<T>)
      detail::fail({}, what,
                   detail::format("%u numbers of 4 bits fill no whole bytes: it takes an even number", elements));
    return detail::bytes_of<T>(elements);
  }
  T* element(uint32_t index, bool write, const char* what, detail::Site at) const {
    detail::Core& c = detail::core(at, what);
    const uint64_t first = start_ + static_cast<uint64_t>(index) * sizeof(T);
    if (room_ == nullptr) detail::fail(at, what, "the tensor has no buffer: it comes from AllocTensor, DeQue or Get");
    if (first + sizeof(T) > room_->end(piece_))
      detail::fail(
          at, what,
          detail::format("element %u lies beyond the %u bytes of %s", index, room_->length, room_->name().c_str()));
    if (room_->space() != detail::kUnified)
      detail::fail(at, what, room_->name() + " is not in the unified buffer, and the scalar unit reaches no other");
    c.reach(detail::kUnified, what, at);
    if (c.hazards.on()) {
      if (room_->given_back(piece_))
        detail::fail(at, what, "the tensor is in " + room_->name() + ", and FreeTensor has given that buffer back");
      if (!write && c.hazards.empty(detail::kUnified, static_cast<uint32_t>(first), sizeof(T)))
        detail::fail(at, what,
                     detail::format("element %u, in %s, was never written: nothing is there since %s", index,
                                    room_->name().c_str(), room_->queue() ? "AllocTensor" : "the block began"));
    }
    c.hazards.issue(detail::kScalar, what, at);
    c.hazards.use(detail::kScalar, detail::kUnified, static_cast<uint32_t>(first), sizeof(T), write);
    return reinterpret_cast<T*>(c.block.unified_buffer + first);
  }

  detail::Room* room_ = nullptr;
  uint32_t piece_ = 0, start_ = 0, bytes_ = 0, tag_ = 0;
  ShapeInfo shape_;
};

}  // namespace AscendC
