// TQueBind and TQue: buffers that go from a unit of the core to the next: AllocTensor, EnQue, DeQue, FreeTensor. What it is not: waiting.
// Instructions take effect in program order, so a queue that would have to wait would wait for ever: that is an error.
#pragma once

#include <cstdint>

#include "ascendc/pipe.h"

namespace AscendC {

namespace detail {
// Who fills a queue's buffers, and who empties them.
constexpr Unit filler(TPosition src, TPosition position) {
  const Space s = space_of(position);
  if (s != kUnified) return s == kL1 ? kCopyIn : s == kL0C ? kMatrix : kLoad;
  return src == TPosition::GM || src == TPosition::VECIN ? kCopyIn : kVector;
}
constexpr Unit emptier(TPosition dst, TPosition position) {
  const Space s = space_of(position);
  if (s != kUnified) return s == kL1 ? kLoad : s == kL0C ? kFix : kMatrix;
  return dst == TPosition::GM || dst == TPosition::VECOUT ? kCopyOut : kVector;
}
}  // namespace detail

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
 public:
  static constexpr TPosition kPosition = src == TPosition::GM ? dst : src;
  static_assert(detail::of_vector_unit(kPosition) || detail::of_cube(kPosition),
                "TQue: the software NPU has the positions VECIN, VECCALC, VECOUT, A1, B1, C1, A2, B2, C2 and CO1");
  static_assert(depth >= 0, "TQue: the depth is 0 or more");

  template <class T>
  LocalTensor<T> AllocTensor(ASCENDC_AT) {
    using State = detail::Room::State;
    detail::Room& room = mine("AllocTensor", at);
    for (uint32_t k = 0; k < room.num; ++k) {
      const uint32_t i = (next_ + k) % room.num;
      if (room.states[i] != State::kFree) continue;
      next_ = (i + 1) % room.num;
      room.states[i] = State::kAllocated;
      detail::Hazards& hazards = detail::core().hazards;
      hazards.learn(detail::filler(src, kPosition), room.freed[i]);
      hazards.forget(room.space(), room.start + i * room.length, room.length);
      return tensor<T>(i);
    }
    detail::fail(
        at, "AllocTensor",
        detail::format("all %u buffers of %s are in use, and the core would wait for ever: FreeTensor is missing",
                       room.num, room.name().c_str()));
  }
  template <class T>
  void AllocTensor(LocalTensor<T>& tensor, ASCENDC_AT) {
    tensor = AllocTensor<T>(at);
  }

  template <class T>
  void FreeTensor(const LocalTensor<T>& t, ASCENDC_AT) {
    detail::Room& room = owner(t, "FreeTensor", at);
    auto& state = room.states[t.piece()];
    if (state == detail::Room::State::kFree)
      detail::fail(at, "FreeTensor", "the tensor of " + room.name() + " was freed before");
    if (state == detail::Room::State::kQueued)
      detail::fail(at, "FreeTensor", "the tensor is still in " + room.name() + ": DeQue comes before FreeTensor");
    state = detail::Room::State::kFree;
    room.freed[t.piece()] = detail::core().hazards.now(detail::emptier(dst, kPosition));
  }

  template <class T>
  bool EnQue(const LocalTensor<T>& t, ASCENDC_AT) {
    detail::Room& room = owner(t, "EnQue", at);
    if (room.states[t.piece()] != detail::Room::State::kAllocated)
      detail::fail(at, "EnQue",
                   "the tensor is not one that AllocTensor of " + room.name() + " gave out, or it was put in before");
    if (depth > 0 && room.queued.size() >= static_cast<size_t>(depth))
      detail::fail(
          at, "EnQue",
          detail::format("%s has depth %d and holds as many tensors: DeQue is missing", room.name().c_str(), depth));
    room.states[t.piece()] = detail::Room::State::kQueued;
    room.queued.emplace_back(t.piece(), detail::core().hazards.now(detail::filler(src, kPosition)));
    return true;
  }
  template <TPosition from, TPosition to, class T>
  bool EnQue(const LocalTensor<T>& t, ASCENDC_AT) {
    return EnQue(t, at);
  }

  template <class T>
  LocalTensor<T> DeQue(ASCENDC_AT) {
    detail::Room& room = mine("DeQue", at);
    if (room.queued.empty())
      detail::fail(at, "DeQue", room.name() + " is empty, and the core would wait for ever: EnQue is missing");
    const auto [piece, filled] = room.queued.front();
    room.queued.pop_front();
    room.states[piece] = detail::Room::State::kTaken;
    detail::core().hazards.learn(detail::emptier(dst, kPosition), filled);
    return tensor<T>(piece);
  }
  template <TPosition from, TPosition to, class T>
  LocalTensor<T> DeQue(ASCENDC_AT) {
    return DeQue<T>(at);
  }
  template <class T>
  void DeQue(LocalTensor<T>& t, ASCENDC_AT) {
    t = DeQue<T>(at);
  }

  bool VacantInQue(ASCENDC_AT) {
    return mine("VacantInQue", at).queued.size() < static_cast<size_t>(depth > 0 ? depth : room_->num);
  }
  bool HasTensorInQue(ASCENDC_AT) { return !mine("HasTensorInQue", at).queued.empty(); }
  int32_t GetTensorCountInQue(ASCENDC_AT) {
    return static_cast<int32_t>(mine("GetTensorCountInQue", at).queued.size());
  }
  bool HasIdleBuffer(ASCENDC_AT) {
    for (auto s : mine("HasIdleBuffer", at).states)
      if (s == detail::Room::State::kFree) return true;
    return false;
  }
  void FreeAllEvent() {}

  void place(detail::Room& room) { room_ = &room, next_ = 0; }

 private:
  template <class T>
  LocalTensor<T> tensor(uint32_t i) {
    return LocalTensor<T>(room_, i, room_->start + i * room_->length, room_->length);
  }
  detail::Room& mine(const char* what, detail::Site at) {
    if (room_ == nullptr) detail::fail(at, what, "the queue has no buffers: InitBuffer is missing");
    if (room_->closed) detail::fail(at, what, "the queue is " + room_->name() + ": InitBuffer is missing");
    return *room_;
  }
  template <class T>
  detail::Room& owner(const LocalTensor<T>& t, const char* what, detail::Site at) {
    if (t.room() == &mine(what, at)) return *room_;
    detail::fail(at, what,
                 t.room() ? "the tensor is of " + t.room()->name() + ", and the queue is " + room_->name()
                          : "the tensor has no buffer, and the queue is " + room_->name());
  }

  detail::Room* room_ = nullptr;
  uint32_t next_ = 0;
};

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<position == TPosition::VECIN ? TPosition::GM : position,
                             position == TPosition::VECIN ? TPosition::VECIN : TPosition::GM, depth, mask> {};
// Vector to vector.
template <int32_t depth, auto mask>
class TQue<TPosition::VECCALC, depth, mask> : public TQueBind<TPosition::VECCALC, TPosition::VECCALC, depth, mask> {};

}  // namespace AscendC
