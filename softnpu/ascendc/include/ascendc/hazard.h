// The kernel checker (ANYCEND_CHECK=kernel): the units of a core (scalar, vector or matrix, and those that copy) run beside each other, and
// only flags, queues and barriers order them. Instructions here take effect in program order; this keeps for each 32 bytes of the
// core's memories who used it last, and whether it holds anything, and refuses what the units' order does not promise. What it is not:
// bounds (op.h). It costs nothing but a branch when the kernel checker is off. Between the scalar unit and the vector unit or copies, and between
// vector instructions, the chip's compiler inserts what is missing, unless it is told --cce-auto-sync=off (`auto_sync` is false then).
// Within the other units, order is taken as given. Order by way of global memory is global_order.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "ascendc/memory.h"
#include "ascendc/runtime.h"
#include "ascendc/site.h"

namespace AscendC::detail {

enum Unit : uint8_t { kScalar, kVector, kCopyIn, kCopyOut, kLoad, kMatrix, kFix, kObject, kUnits };
static_assert(kUnits == SOFTNPU_ASCENDC_UNITS && kScalar == SOFTNPU_ASCENDC_SCALAR);
inline const char* unit_name(Unit u) {
  constexpr const char* kNames[] = {"scalar unit (S)",        "vector unit (V)",    "copy-in engine (MTE2)",
                                    "copy-out engine (MTE3)", "load engine (MTE1)", "matrix unit (M)",
                                    "fixpipe (FIX)",          "Matmul object"};
  return kNames[u];
}
inline const char* pipe_name(Unit u) {
  constexpr const char* kNames[] = {"S", "V", "MTE2", "MTE3", "MTE1", "M", "FIX", "FIX"};
  return kNames[u];
}
// -1 for PIPE_ALL, which is none.
constexpr int unit_of(pipe_t p) {
  constexpr int kUnitOf[] = {kScalar, kVector, kMatrix, kLoad, kCopyIn, kCopyOut, -1, kFix};
  return kUnitOf[p];
}

// How far each unit is known to have come.
struct Clock {
  std::array<uint32_t, kUnits> at{};
  void join(const Clock& o) {
    for (int u = 0; u < kUnits; ++u) at[u] = std::max(at[u], o.at[u]);
  }
};

// Which bytes an instruction touches of an operand that spans `bytes`: what of it is called is called f(first, bytes) with each piece.
struct AllBytes {
  template <class F>
  void operator()(uint64_t bytes, F f) const {
    f(0, bytes);
  }
};
// Pieces with gaps, which are others'.
struct Strided {
  uint64_t count, length, step;
  template <class F>
  void operator()(uint64_t, F f) const {
    if (length == step)
      f(0, count * length);
    else
      for (uint64_t i = 0; i < count; ++i) f(i * step, length);
  }
};

class Hazards {
 public:
  bool auto_sync = true;

  Hazards(bool on, const softnpuAscendcChip& chip) : on_(on) {
    for (int s = 0; on && s < kSpaces; ++s) blocks_[s].resize(space_bytes(chip, static_cast<Space>(s)) / 32);
  }
  bool on() const { return on_; }

  // The unit has been told of what `clock` has seen.
  void learn(Unit unit, const Clock& clock) {
    if (!on_) return;
    units_[unit].join(clock);
    settled_[unit] = std::max(settled_[unit], clock.at[unit]);
  }
  // What is over when the unit says so now.
  Clock now(Unit unit) const { return units_[unit]; }
  // How far each unit has come.
  Clock all() const {
    Clock all;
    for (const Clock& c : units_) all.join(c);
    return all;
  }
  // PipeBarrier<PIPE_ALL>, SyncAll.
  void meet() {
    if (!on_) return;
    units_.fill(all());
    for (int u = 0; u < kUnits; ++u) settle(static_cast<Unit>(u));
  }
  // PipeBarrier of one unit.
  void settle(Unit unit) { settled_[unit] = units_[unit].at[unit]; }
  // What the Matmul object did is over for the core's units when its call returns.
  void object_returns() {
    for (Clock& c : units_) c.at[kObject] = units_[kObject].at[kObject];
  }
  uint32_t when(Unit unit) const { return units_[unit].at[unit]; }
  // How far each unit's uses of global memory are over for `unit`. Copies out follow each other only after PipeBarrier<PIPE_MTE3>. The
  // Matmul object waits for all of the core's units, and they for it.
  Clock known(Unit unit) const {
    Clock known = units_[unit];
    for (int u = 0; u < kUnits; ++u)
      if (unit == kObject || u == kObject || (u == unit && u != kCopyOut) || by_compiler(unit, static_cast<Unit>(u)))
        known.at[u] = UINT32_MAX;
    if (unit == kCopyOut) known.at[unit] = settled_[unit];
    return known;
  }
  // The scalar unit issues all instructions: it knows nothing of their end, but what it has waited for is over for them, too.
  void issue(Unit unit, const char* what, Site at) {
    if (!on_) return;
    learn(unit, units_[kScalar]);
    ++units_[unit].at[unit];
    what_ = what;
    at_ = at;
  }
  void use(Unit unit, Space space, uint32_t start, uint32_t bytes, bool write) {
    if (!on_ || bytes == 0) return;
    for (uint32_t b = start / 32; b <= (start + bytes - 1) / 32 && b < blocks_[space].size(); ++b) {
      Block& k = blocks_[space][b];
      if ((!write || unit != k.writer) && must_wait(unit, k.writer, k.written))
        complain(unit, k.writer, k.written, space, b, write ? "writes" : "reads", "wrote");
      if (write) {
        for (int u = 0; u < kUnits; ++u)
          if (u != unit && must_wait(unit, static_cast<Unit>(u), k.read[u]))
            complain(unit, static_cast<Unit>(u), k.read[u], space, b, "writes", "read");
        k.writer = unit;
        k.written = {units_[unit].at[unit], what_, at_};
        k.holds = true;
        for (Access& a : k.read) a = {};
      } else {
        k.read[unit] = {units_[unit].at[unit], what_, at_};
      }
    }
  }
  // Has nothing been written into any of it since the block began, or since forget()?
  bool empty(Space space, uint32_t start, uint32_t bytes) const {
    if (!on_ || bytes == 0) return false;
    for (uint32_t b = start / 32; b <= (start + bytes - 1) / 32 && b < blocks_[space].size(); ++b)
      if (blocks_[space][b].holds) return false;
    return true;
  }
  void forget(Space space, uint32_t start, uint32_t bytes) {
    for (uint32_t b = start / 32; on_ && b < (start + bytes) / 32; ++b) blocks_[space][b].holds = false;
  }

 private:
  struct Access {
    uint32_t when = 0;
    const char* what = "";
    Site at;
  };
  struct Block {
    Unit writer = kScalar;
    Access written;
    Access read[kUnits];
    bool holds = false;
  };
  // Does the chip's compiler insert the flag between two units?
  bool by_compiler(Unit unit, Unit before) const {
    return auto_sync && (unit == kScalar || before == kScalar) && unit <= kCopyOut && before <= kCopyOut;
  }
  // Is there nothing that has `unit` wait for the end of what `before` did?
  bool must_wait(Unit unit, Unit before, const Access& a) {
    uint32_t& known = units_[unit].at[before];
    if (unit == before) return !auto_sync && unit == kVector && a.when > settled_[kVector];
    if (known >= a.when) return false;
    if (!by_compiler(unit, before)) return true;
    known = a.when;  // the compiler's own flag
    return false;
  }
  [[noreturn]] void complain(Unit unit, Unit before, const Access& a, Space space, uint32_t block, const char* does,
                             const char* did) const {
    if (unit == before)
      fail(at_, what_,
           format(
               "the vector unit (V) %s bytes %u to %u of the %s that %s:%d (%s) %s, and nothing makes it wait for its "
               "own instructions: PipeBarrier<PIPE_V> is missing",
               does, block * 32, block * 32 + 31, space_name(space), a.at.name(), a.at.line, a.what, did));
    fail(at_, what_,
         format("the %s %s bytes %u to %u of the %s that %s:%d (%s) %s, and nothing makes it wait for the "
                "%s: a queue "
                "(EnQue, DeQue, FreeTensor, AllocTensor) or SetFlag and WaitFlag<HardEvent::%s_%s> is missing",
                unit_name(unit), does, block * 32, block * 32 + 31, space_name(space), a.at.name(), a.at.line, a.what,
                did, unit_name(before), pipe_name(before), pipe_name(unit)));
  }

  const bool on_;
  std::array<Clock, kUnits> units_{};
  std::array<uint32_t, kUnits> settled_{};  // how far each unit has waited for itself
  std::vector<Block> blocks_[kSpaces];
  const char* what_ = "";
  Site at_;
};

}  // namespace AscendC::detail
