// TPipe and TBuf: who gives out the core's memories. What it is not: queues (queue.h). One TPipe a block at a time.
#pragma once

#include <cstdint>

#include "ascendc/local_tensor.h"

namespace AscendC {

template <TPosition src, TPosition dst, int32_t depth, auto mask>
class TQueBind;
template <TPosition position>
class TBuf;

class TPipe {
 public:
  TPipe(ASCENDC_AT) { Init(at); }
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;
  ~TPipe() { leave(); }

  void Init(ASCENDC_AT) {
    detail::Core& c = detail::core(at, "TPipe");
    if (c.pipe && c.pipe != this) detail::fail(at, "TPipe", "a kernel has one TPipe at a time: Destroy the first");
    c.pipe = this;
    c.reset_rooms();
  }
  void Destroy() { leave(); }
  void Reset(ASCENDC_AT) { Init(at); }

  // `num` buffers of `length` bytes, rounded up to 32.
  template <TPosition src, TPosition dst, int32_t depth, auto mask>
  bool InitBuffer(TQueBind<src, dst, depth, mask>& queue, uint8_t num, uint32_t length, ASCENDC_AT) {
    queue.place(mine(at).give("TQue", TQueBind<src, dst, depth, mask>::kPosition, num, length, at));
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, uint32_t length, ASCENDC_AT) {
    buffer.place(mine(at).give("TBuf", position, 1, length, at));
    return true;
  }

  // An id that nobody has taken; it stays free.
  TEventID FetchEventID(HardEvent event, ASCENDC_AT) { return free_id(event, "FetchEventID", at); }
  template <HardEvent event>
  TEventID FetchEventID(ASCENDC_AT) {
    return free_id(event, "FetchEventID", at);
  }
  template <HardEvent event>
  TEventID AllocEventID(ASCENDC_AT) {
    const TEventID id = free_id(event, "AllocEventID", at);
    mine(at).events[static_cast<int>(event)] |= static_cast<uint8_t>(1 << id);
    return id;
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id, ASCENDC_AT) {
    uint8_t& taken = mine(at).events[static_cast<int>(event)];
    if (id < 0 || id > 7 || !(taken >> id & 1))
      detail::fail(at, "ReleaseEventID", detail::format("%d is no id that AllocEventID gave out", id));
    taken &= static_cast<uint8_t>(~(1 << id));
  }

 private:
  detail::Core& mine(detail::Site at) {
    detail::Core& c = detail::core(at, "TPipe");
    if (c.pipe != this) detail::fail(at, "TPipe", "was destroyed: Init makes it ready again");
    return c;
  }
  TEventID free_id(HardEvent event, const char* what, detail::Site at) {
    const uint8_t taken = mine(at).events[static_cast<int>(event)];
    if (taken == 0xff)
      detail::fail(
          at, what,
          detail::format("all 8 ids of HardEvent::%s are taken: ReleaseEventID", detail::signal_of(event).name));
    return static_cast<TEventID>(std::countr_one(taken));
  }
  void leave() noexcept {
    detail::Core* c = detail::t_core;
    if (c == nullptr || c->pipe != this) return;
    if (c->hazards.on() && c->leak.empty() && std::uncaught_exceptions() == 0) {
      for (const detail::Room& r : c->rooms)
        for (auto s : r.states)
          if (s != detail::Room::State::kFree)
            c->leak = r.name() + (s == detail::Room::State::kQueued
                                      ? ": a tensor was put in by EnQue and never taken out by DeQue"
                                      : ": a tensor of AllocTensor was never given back by FreeTensor");
    }
    c->pipe = nullptr;
    c->reset_rooms();
  }
};

inline TPipe* GetTPipePtr(ASCENDC_AT) {
  TPipe* pipe = detail::core(at, "GetTPipePtr").pipe;
  if (pipe == nullptr) detail::fail(at, "GetTPipePtr", "the kernel has no TPipe");
  return pipe;
}

// A buffer without a queue: the kernel orders its uses itself.
template <TPosition position = TPosition::VECCALC>
class TBuf {
  static_assert(detail::of_vector_unit(position) || detail::of_cube(position),
                "TBuf: the software NPU has the positions VECIN, VECCALC, VECOUT, A1, B1, C1, A2, B2, C2 and CO1");

 public:
  template <class T>
  LocalTensor<T> Get(ASCENDC_AT) {
    return LocalTensor<T>(&mine(at), 0, room_->start, room_->bytes());
  }
  template <class T>
  LocalTensor<T> Get(uint32_t elements, ASCENDC_AT) {
    return GetWithOffset<T>(elements, 0, at);
  }
  // `elements` of T from byte `offset` on.
  template <class T>
  LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset, ASCENDC_AT) {
    const uint64_t end = offset + detail::bytes_of<T>(elements);
    if (end > mine(at).bytes())
      detail::fail(at, "TBuf::Get",
                   detail::format("%u elements from byte %u on need %llu bytes, and %s has %u", elements, offset,
                                  static_cast<unsigned long long>(end), room_->name().c_str(), room_->bytes()));
    if (detail::core(at, "TBuf::Get").hazards.on())
      room_->part(room_->start + offset, room_->start + static_cast<uint32_t>(end), at);
    return LocalTensor<T>(room_, 0, room_->start + offset, static_cast<uint32_t>(end - offset));
  }
  // As a queue's, of the one buffer: there is nothing to wait for, and nothing to give back.
  template <class T>
  LocalTensor<T> AllocTensor(ASCENDC_AT) {
    return Get<T>(at);
  }
  template <class T>
  void FreeTensor(const LocalTensor<T>&) {}
  void place(detail::Room& room) { room_ = &room; }

 private:
  detail::Room& mine(detail::Site at) {
    if (room_ == nullptr) detail::fail(at, "TBuf::Get", "the TBuf has no memory: InitBuffer is missing");
    if (room_->closed) detail::fail(at, "TBuf::Get", "it is " + room_->name() + ": InitBuffer is missing");
    return *room_;
  }
  detail::Room* room_ = nullptr;
};

}  // namespace AscendC

using AscendC::GetTPipePtr;
