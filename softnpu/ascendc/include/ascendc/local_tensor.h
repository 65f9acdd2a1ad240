// LocalTensor: a typed stretch of one of the core's memories. What it is not: owner of it (pipe.h, queue.h). Used by one thread.
// It knows the buffer that it was cut from, so that an instruction which leaves the buffer is an error that names it.
#pragma once

#include <algorithm>
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
      : room_(room), piece_(piece), start_(start), end_(int64_t{start} + bytes) {}

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

  // Elements from `offset` on, to the end of this tensor. It may lie outside of the buffer (also before it: t[-8] is t[4294967288] here),
  // as long as no instruction uses it there.
  LocalTensor operator[](uint32_t offset) const {
    LocalTensor t = *this;
    t.start_ += bytes(static_cast<int32_t>(offset), "LocalTensor[]");
    return t;
  }
  template <class U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> t;
    t.become(*this);
    t.SetUserTag(tag_);
    return t;
  }

  uint32_t GetSize() const { return GetLength() / sizeof(T) * detail::per_byte<T>; }
  void SetSize(uint32_t elements) { end_ = start_ + bytes(elements, "SetSize"); }
  uint32_t GetLength() const { return static_cast<uint32_t>(std::clamp<int64_t>(end_ - start_, 0, UINT32_MAX)); }
  void SetBufferLen(uint32_t bytes) { end_ = start_ + bytes; }
  // The address in the unified buffer, as instructions that take lists of addresses want it. Below 0 it wraps.
  uint64_t GetPhyAddr() const { return static_cast<uint64_t>(start_); }
  uint64_t GetPhyAddr(uint32_t offset) const { return (*this)[offset].GetPhyAddr(); }
  TPosition GetPosition() const { return room_ ? room_->position : TPosition::MAX; }
  void SetUserTag(uint32_t tag) { tag_ = tag; }
  uint32_t GetUserTag() const { return tag_; }
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
  ShapeInfo GetShapeInfo() const { return shape_; }
  template <class U>
  void SetAddrWithOffset(const LocalTensor<U>& from, uint32_t offset) {
    become(from[offset]);
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
  template <class U>
  friend class LocalTensor;

  // The same stretch, of another type.
  template <class U>
  void become(const LocalTensor<U>& t) {
    room_ = t.room_, piece_ = t.piece_, start_ = t.start_, end_ = t.end_;
  }
  static int64_t bytes(int64_t elements, const char* what) {
    constexpr int64_t kPer = detail::per_byte<T>;
    if (elements % kPer)
      detail::fail({}, what,
                   detail::format("%lld numbers of 4 bits fill no whole bytes: it takes an even number",
                                  static_cast<long long>(elements)));
    return elements * static_cast<int64_t>(sizeof(T)) / kPer;
  }
  T* element(uint32_t index, bool write, const char* what, detail::Site at) const {
    detail::Core& c = detail::core(at, what);
    const int64_t first = start_ + int64_t{static_cast<int32_t>(index)} * static_cast<int64_t>(sizeof(T));
    if (room_ == nullptr) detail::fail(at, what, "the tensor has no buffer: it comes from AllocTensor, DeQue or Get");
    const int64_t inside = first - room_->begin(piece_);
    if (inside < 0)
      detail::fail(
          at, what,
          detail::format("element %d begins at byte %lld of %s: the index, or the tensor's offset, is negative",
                         static_cast<int32_t>(index), static_cast<long long>(inside), room_->name().c_str()));
    if (inside + static_cast<int64_t>(sizeof(T)) > room_->length)
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
  uint32_t piece_ = 0, tag_ = 0;
  int64_t start_ = 0, end_ = 0;  // bytes of the memory; the room says which of them the tensor may touch
  ShapeInfo shape_;
};

}  // namespace AscendC
