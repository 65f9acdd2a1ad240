// One instruction while it runs: its name, its place, and the only way to its operands' memory, which checks alignment, the bounds of
// the buffer and, where that is asked for, the order of the core's units. Called by every instruction, not by kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ascendc/global_tensor.h"
#include "ascendc/local_tensor.h"

namespace AscendC::detail {

class Op {
 public:
  Op(const char* name, Site at, Unit unit = kVector)
      : name_(name), at_(at), unit_(unit), core_(detail::core(at, name)) {
    core_.hazards.issue(unit, name, at);
  }

  // The operand's first `bytes`, of which it touches `pieces` (hazard.h); `which` is "dst", "src0".
  template <class T, class Pieces = AllBytes>
  const T* reads(const LocalTensor<T>& t, uint64_t bytes, const char* which = "src", uint32_t alignment = 32,
                 const Pieces& pieces = {}) const {
    return reinterpret_cast<const T*>(place(t, bytes, which, alignment, false, pieces));
  }
  template <class T, class Pieces = AllBytes>
  T* writes(const LocalTensor<T>& t, uint64_t bytes, const char* which = "dst", uint32_t alignment = 32,
            const Pieces& pieces = {}) const {
    return reinterpret_cast<T*>(place(t, bytes, which, alignment, true, pieces));
  }
  // A stretch of the unified buffer by its address (TransDataTo5HD with lists of addresses).
  uint8_t* at_address(uint64_t address, uint32_t bytes, bool write, const char* which) const {
    const uint32_t capacity = core_.block.chip->unified_buffer;
    core_.reach(kUnified, name_, at_);
    if (address % 32)
      fail(format("%s: address %llu is not aligned to 32 bytes", which, static_cast<unsigned long long>(address)));
    if (address > capacity || bytes > capacity - address)
      fail(format("%s: bytes %lld to %lld lie outside of the unified buffer of %u", which,
                  static_cast<long long>(address), static_cast<long long>(address + bytes), capacity));
    core_.hazards.use(unit_, kUnified, static_cast<uint32_t>(address), bytes, write);
    return core_.block.unified_buffer + address;
  }

  // ANYCEND_CHECK=kernel. Operands of one type, by count, are one stretch of memory or apart, or dst lies lower by a repeat
  // or more: then no repeat reads what one before it wrote.
  template <class T>
  void need_apart(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t bytes, const char* which) const {
    const uint64_t d = dst.GetPhyAddr(), s = src.GetPhyAddr();
    if (__builtin_expect(!core_.hazards.on() || d == s || d >= s + bytes || s >= d + std::min<uint64_t>(bytes, 256), 1))
      return;
    if (dst.room() == src.room())
      fail(format(
          "dst and %s overlap in part (%llu bytes from bytes %llu and %llu of the %s on): they are one stretch or "
          "apart",
          which, static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(d),
          static_cast<unsigned long long>(s), space_name(dst.room()->space())));
  }
  [[noreturn]] void fail(const std::string& text) const { detail::fail(at_, name_, text); }
  void need_repeats(int64_t n, int64_t most = MAX_REPEAT_TIMES) const {
    if (__builtin_expect(n < 0 || n > most, 0))
      fail(format("%lld repeats: an instruction has 0 to %lld", static_cast<long long>(n),
                  static_cast<long long>(most)));
  }
  void need_count(int64_t n) const {
    if (__builtin_expect(n < 0, 0)) fail(format("%lld elements are fewer than none", static_cast<long long>(n)));
  }

  Core& core() const { return core_; }
  Site at() const { return at_; }
  const char* name() const { return name_; }
  Unit unit() const { return unit_; }
  // The unit reads these pieces of global memory (global_order.h).
  void reads_global(const GlobalPieces& p) const { detail::reads_global(core_, unit_, p, name_, at_); }

 private:
  template <class T, class Pieces>
  uint8_t* place(const LocalTensor<T>& t, uint64_t bytes, const char* which, uint32_t alignment, bool write,
                 const Pieces& pieces) const {
    const Room* room = t.room();
    const uint64_t start = t.GetPhyAddr();
    if (__builtin_expect(room == nullptr, 0))
      fail(format("%s has no buffer: a LocalTensor comes from AllocTensor, DeQue or Get", which));
    const uint64_t inside =
        start - room->begin(t.piece());  // of a tensor that begins before the buffer a very large one
    if (__builtin_expect(start % alignment, 0))
      fail(format("%s begins at byte %lld of %s, which is not a multiple of %u", which, static_cast<long long>(inside),
                  room->name().c_str(), alignment));
    if (__builtin_expect(inside > room->length || bytes > room->length - inside, 0))
      outside(*room, static_cast<int64_t>(inside), bytes, which);
    const Space space = room->space();
    core_.reach(space, name_, at_);
    // The vector unit knows the unified buffer alone; the cube's instructions check the position that they take.
    if (__builtin_expect((unit_ == kVector || unit_ == kCopyOut) && space != kUnified, 0))
      fail(format("%s is in the %s: the %s reaches the unified buffer alone", which, space_name(space),
                  unit_name(unit_)));
    if (__builtin_expect(core_.hazards.on(), 0)) {
      if (write && bytes > t.GetLength()) check_part(*room, start, t.GetLength(), bytes, which, pieces);
      check(*room, t.piece(), start, bytes, which, write, pieces);
    }
    return core_.memory(space) + start;
  }

  [[noreturn]] void outside(const Room& room, int64_t inside, uint64_t bytes, const char* which) const {
    if (inside < 0)
      fail(format("%s begins at byte %lld of %s: the tensor's offset is negative", which,
                  static_cast<long long>(inside), room.name().c_str()));
    fail(format("%s needs %llu bytes from byte %lld on, and %s has %u", which, static_cast<unsigned long long>(bytes),
                static_cast<long long>(inside), room.name().c_str(), room.length));
  }

  // ANYCEND_CHECK=kernel. A tensor of TBuf::Get(length) ends there. Kernels write beyond its end, whole repeats, which does no harm where
  // nobody has what follows; it ruins what another such tensor has, once that was written.
  template <class Pieces>
  void check_part(const Room& room, uint64_t start, uint32_t own, uint64_t bytes, const char* which,
                  const Pieces& pieces) const {
    for (const Room::Part& part : room.parts) {
      if (own == 0 || part.start < start + own || core_.hazards.empty(room.space(), part.start, part.end - part.start))
        continue;
      pieces(bytes, [&](uint64_t first, uint64_t n) {
        if (start + first < part.end && part.start < start + first + n)
          fail(format(
              "%s needs %llu bytes, and the tensor has %u: what follows, bytes %u to %u of %s, is another's, which "
              "TBuf::Get gave out at %s:%d",
              which, static_cast<unsigned long long>(bytes), own, part.start - room.start, part.end - room.start - 1,
              room.name().c_str(), part.at.name(), part.at.line));
      });
    }
  }

  // ANYCEND_CHECK=kernel.
  template <class Pieces>
  void check(const Room& room, uint32_t piece, uint64_t start, uint64_t bytes, const char* which, bool write,
             const Pieces& pieces) const {
    if (room.given_back(piece))
      fail(format("%s is in %s, and FreeTensor has given that buffer back", which, room.name().c_str()));
    const Space space = room.space();
    const auto from = static_cast<uint32_t>(start), length = static_cast<uint32_t>(bytes);
    bool empty = !write && length != 0;
    if (empty)
      pieces(bytes, [&](uint64_t first, uint64_t n) {
        empty = empty &&
                (n == 0 || core_.hazards.empty(space, from + static_cast<uint32_t>(first), static_cast<uint32_t>(n)));
      });
    if (empty)
      fail(format("%s reads bytes %u to %u of the %s, in %s, and nothing has been written there since %s", which, from,
                  from + length - 1, space_name(space), room.name().c_str(),
                  room.queue() ? "AllocTensor" : "the block began"));
    pieces(bytes, [&](uint64_t first, uint64_t n) {
      core_.hazards.use(unit_, space, from + static_cast<uint32_t>(first), static_cast<uint32_t>(n), write);
    });
  }

  const char* name_;
  const Site at_;
  const Unit unit_;
  Core& core_;
};

}  // namespace AscendC::detail
