// Order inside a core (SetFlag, WaitFlag, PipeBarrier) and between cores (SyncAll, CrossCoreSetFlag, IBSet). Called by kernels.
// What it is not: needed for right results here, inside a core: instructions take effect in program order. A wait for a flag that nobody
// set would be for ever, and is an error; ANYCEND_CHECK=kernel finds flags that are missing (hazard.h).
#pragma once

#include <cstdint>

#include "ascendc/global_tensor.h"
#include "ascendc/local_tensor.h"

namespace AscendC {
namespace detail {

inline bool& flag_of(HardEvent event, int32_t id, const char* what, Site at) {
  if (id < 0 || id > 7) fail(at, what, format("event id %d: there are 0 to 7", id));
  return core(at, what).flags[static_cast<int>(event)][id];
}

inline void met(int failed, const char* what, Site at) {
  if (failed) fail(at, what, SOFTNPU_ASCENDC_FOLLOWS);
}

}  // namespace detail

namespace detail {
inline void set_flag(HardEvent event, int32_t id, Site at) {
  bool& set = flag_of(event, id, "SetFlag", at);
  if (set)
    fail(at, "SetFlag",
         format("HardEvent::%s with id %d is set, and nobody has waited for it: WaitFlag is missing",
                signal_of(event).name, id));
  set = true;
  Core& c = core();
  c.flags_at[static_cast<int>(event)][id] = at;
  c.flag_clocks[static_cast<int>(event)][id] = c.hazards.now(static_cast<Unit>(unit_of(signal_of(event).from)));
}
inline void wait_flag(HardEvent event, int32_t id, Site at) {
  bool& set = flag_of(event, id, "WaitFlag", at);
  if (!set)
    fail(at, "WaitFlag",
         format("nobody has set HardEvent::%s with id %d, and the core would wait for ever: SetFlag is missing",
                signal_of(event).name, id));
  set = false;
  Core& c = core();
  c.hazards.learn(static_cast<Unit>(unit_of(signal_of(event).to)), c.flag_clocks[static_cast<int>(event)][id]);
}
}  // namespace detail

template <HardEvent event>
void SetFlag(int32_t eventID, ASCENDC_AT) {
  detail::set_flag(event, eventID, at);
}
template <HardEvent event>
void WaitFlag(int32_t eventID, ASCENDC_AT) {
  detail::wait_flag(event, eventID, at);
}

namespace detail {
// The event from one unit to another; MAX if there is none.
constexpr HardEvent event_of(pipe_t from, pipe_t to) {
  for (int e = 0; e < static_cast<int>(HardEvent::MAX); ++e)
    if (kSignals[e].from == from && kSignals[e].to == to) return static_cast<HardEvent>(e);
  return HardEvent::MAX;
}
inline HardEvent event_between(pipe_t from, pipe_t to, const char* what, Site at) {
  const HardEvent event = event_of(from, to);
  if (event == HardEvent::MAX) fail(at, what, "between these two units there is no flag");
  return event;
}
}  // namespace detail

// A flag from one unit to another, by their names.
template <pipe_t src, pipe_t dst>
class TQueSync {
  static constexpr HardEvent kEvent = detail::event_of(src, dst);
  static_assert(kEvent != HardEvent::MAX, "TQueSync: between these two units there is no flag");

 public:
  void SetFlag(TEventID id, ASCENDC_AT) { AscendC::SetFlag<kEvent>(id, at); }
  void WaitFlag(TEventID id, ASCENDC_AT) { AscendC::WaitFlag<kEvent>(id, at); }
};

namespace detail {
inline void barrier(pipe_t pipe, Site at) {
  Core& c = core(at, "PipeBarrier");
  if (pipe == PIPE_ALL)
    c.hazards.meet();
  else
    c.hazards.settle(static_cast<Unit>(unit_of(pipe)));
}
}  // namespace detail

template <pipe_t pipe>
void PipeBarrier(ASCENDC_AT) {
  detail::barrier(pipe, at);
}

// The core waits for its instructions that reach memory. Which memory is taken as all of it.
enum class MemDsbT : uint8_t { ALL = 0, DDR, UB, SEQ };
template <MemDsbT arg0>
void DataSyncBarrier(ASCENDC_AT) {
  detail::core(at, "DataSyncBarrier").hazards.meet();
}

namespace detail {
// Words of the launch that are no flags of one core's: bits 28 and up say for what.
inline constexpr uint32_t kVectorsMeet = 1u << 28, kFlagOfCore = 2u << 28;

// Returns when `peers` cores have come here for the round-th time.
inline void barrier(Core& c, uint32_t word, uint64_t round, uint32_t peers, const char* what, Site at) {
  met(softnpuAscendcSignal(c.block.launch, word, 1), what, at);
  met(softnpuAscendcAwait(c.block.launch, word, static_cast<int32_t>((round + 1) * peers)), what, at);
}
}  // namespace detail

namespace detail {
// Blocks that all wait for each other must be on cores at once, so there may be no more of them than the chip has.
inline void check_at_once(const Core& c, const char* what, Site at) {
  const uint32_t most = c.cube() ? c.block.chip->cube_cores : c.block.chip->vector_cores;
  if (c.peers() > most)
    fail(at, what,
         format("%u blocks wait for each other, and %s has %u %s cores: launch no more", c.peers(), c.block.chip->name,
                most, c.cube() ? "cube" : "vector"));
}
}  // namespace detail

// All blocks meet.
template <bool isAIVOnly = true>
void SyncAll(ASCENDC_AT) {
  detail::Core& c = detail::core(at, "SyncAll");
  detail::check_at_once(c, "SyncAll", at);
  const bool vectors = isAIVOnly && c.mixed;
  if (vectors && c.cube())
    detail::fail(at, "SyncAll", "SyncAll<true> is for the vector cores: SyncAll<false> has all cores meet");
  c.hazards.meet();
  // Two words by turns: who is late does not hear what the others tell at the next meeting.
  const uint64_t round = vectors ? c.met++ : c.all_met++, word = detail::kToldByMeeting + 2 * vectors + round % 2;
  detail::tell(c, word, c.hazards.all());
  if (vectors)
    detail::barrier(c, detail::kVectorsMeet, round, c.peers(), "SyncAll", at);
  else
    detail::met(softnpuAscendcMeet(c.block.launch), "SyncAll", at);
  detail::hear(c, word);
}
// The same by a workspace, which is not needed here. usedCores: 0, or all blocks.
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, int32_t usedCores = 0, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "SyncAll");
  if (usedCores != 0 && static_cast<uint32_t>(usedCores) != c.block.blocks)
    detail::fail(at, "SyncAll",
                 detail::format("usedCores is %d, and the launch has %u blocks: some of them are not supported",
                                usedCores, c.block.blocks));
  SyncAll<isAIVOnly>(at);
}

namespace detail {
inline uint32_t pair_word(Core& c, int32_t block, int32_t event, const char* what, Site at) {
  if (block < 0 || static_cast<uint32_t>(block) >= c.block.blocks)
    fail(at, what, format("block %d: there are 0 to %u", block, c.block.blocks - 1));
  if (event < 0 || event > 255) fail(at, what, format("event id %d: 0 to 255", event));
  return static_cast<uint32_t>(event) * 65536u + static_cast<uint32_t>(block);
}
}  // namespace detail

namespace detail {
// Flags between cores, as the chip keeps them: a core has a number for each id, which a set raises by one and a wait lowers.
// Sets that go together (all cores of a kind, a block's vector cores) are gathered at a gate: when each of them has set
// the flag once more, the numbers of those it is for rise. So a core may be ahead of the others.
inline void check_flag(uint16_t id, const char* what, Site at) {
  if (id > 15) fail(at, what, format("flag %u: there are 0 to 15", id));
}
inline uint32_t flag_word(uint16_t id, bool cube, uint32_t number) {
  return kFlagOfCore + (uint32_t{cube} << 20) + (uint32_t{id} << 16) + number;
}
inline uint32_t flag_gate(uint16_t id, int mode, bool cube, uint32_t group) {
  return static_cast<uint32_t>(mode) << 21 | uint32_t{cube} << 20 | uint32_t{id} << 16 | (mode == 0 ? 0 : group);
}
struct Gate {
  uint32_t gate, teller, tellers;
  uint32_t first, count;  // the numbers that rise: the words of `count` cores
};
inline Gate gate_of(const Core& c, uint16_t id, int mode) {
  const uint32_t gate = flag_gate(id, mode, c.cube(), c.group), vectors = c.group * c.ratio;
  if (mode == 0) return {gate, c.number(), c.peers(), flag_word(id, c.cube(), 0), c.peers()};
  if (c.cube()) return {gate, 0, 1, flag_word(id, false, vectors), c.ratio};
  if (mode == 1) return {gate, c.sub, c.ratio, flag_word(id, false, vectors), c.ratio};
  return {gate, c.sub, c.ratio, flag_word(id, true, c.group), 1};
}
}  // namespace detail

// Mode 0: for all cores of the kind, once all of them have set the flag; mode 1: for the vector cores of the block, once all of these
// have. Mode 2: of the cube core, for each vector core of its block; of a vector core, for the cube core, once all of the block's have.
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, ASCENDC_AT) {
  static_assert(modeId <= 2, "CrossCoreSetFlag: the modes are 0, 1 and 2");
  detail::Core& c = detail::core(at, "CrossCoreSetFlag");
  detail::check_flag(flagId, "CrossCoreSetFlag", at);
  if (modeId != 0 && !c.mixed)
    detail::fail(at, "CrossCoreSetFlag",
                 "modes 1 and 2 are for kernels of both kinds of cores (KERNEL_TYPE_MIX_AIC_1_2)");
  if (modeId == 1 && c.cube()) detail::fail(at, "CrossCoreSetFlag", "mode 1 is for the vector cores of a block");
  if (modeId == 0) detail::check_at_once(c, "CrossCoreSetFlag", at);
  const int unit = detail::unit_of(pipe);
  const detail::Gate g = detail::gate_of(c, flagId, modeId);
  detail::tell(c, detail::kToldByFlag | g.gate,
               unit < 0 ? c.hazards.all() : c.hazards.now(static_cast<detail::Unit>(unit)));
  detail::met(softnpuAscendcArrive(c.block.launch, g.gate, g.teller, g.tellers, g.first, g.count), "CrossCoreSetFlag",
              at);
}
// Whatever the mode it was set in: a core has one number for each id.
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "CrossCoreWaitFlag");
  detail::check_flag(flagId, "CrossCoreWaitFlag", at);
  const uint32_t word = detail::flag_word(flagId, c.cube(), c.number());
  detail::met(softnpuAscendcAwait(c.block.launch, word, 1), "CrossCoreWaitFlag", at);
  for (int mode = 0; mode <= (c.mixed ? 2 : 0); ++mode) {
    const bool cube = mode == 2 ? !c.cube() : c.cube();
    detail::hear(c, detail::kToldByFlag | detail::flag_gate(flagId, mode, cube, c.group));
  }
  detail::met(softnpuAscendcSignal(c.block.launch, word, -1), "CrossCoreWaitFlag", at);
  c.hazards.meet();
}

// One block tells another that it has come this far. The workspace of the API is not needed here.
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, int32_t blockIdx, int32_t eventID, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "IBSet");
  const uint32_t word = detail::pair_word(c, blockIdx, eventID, "IBSet", at);
  detail::tell(c, word, c.hazards.all());
  detail::met(softnpuAscendcSignal(c.block.launch, word, 1), "IBSet", at);
}
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, int32_t blockIdx, int32_t eventID, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "IBWait");
  const uint32_t word = detail::pair_word(c, blockIdx, eventID, "IBWait", at);
  detail::met(softnpuAscendcAwait(c.block.launch, word, 1), "IBWait", at);
  detail::hear(c, word);
  detail::met(softnpuAscendcSignal(c.block.launch, word, -1), "IBWait", at);
  c.hazards.meet();
}

}  // namespace AscendC

// The same by the words that the chip's compiler itself has.
inline void set_flag(pipe_t from, pipe_t to, int32_t id, ASCENDC_AT) {
  AscendC::detail::set_flag(AscendC::detail::event_between(from, to, "set_flag", at), id, at);
}
inline void wait_flag(pipe_t from, pipe_t to, int32_t id, ASCENDC_AT) {
  AscendC::detail::wait_flag(AscendC::detail::event_between(from, to, "wait_flag", at), id, at);
}
inline void pipe_barrier(pipe_t pipe, ASCENDC_AT) { AscendC::detail::barrier(pipe, at); }
