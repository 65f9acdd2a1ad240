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
inline constexpr uint32_t kVectorsMeet = 1u << 28, kPeersMeet = 2u << 28, kGroupMeets = 3u << 28, kToCore = 4u << 28;

// Returns when `peers` cores have come here for the round-th time.
inline void barrier(Core& c, uint32_t word, uint64_t round, uint32_t peers, const char* what, Site at) {
  met(softnpuAscendcSignal(c.block.launch, word, 1), what, at);
  met(softnpuAscendcAwait(c.block.launch, word, static_cast<int32_t>((round + 1) * peers)), what, at);
}
}  // namespace detail

// All blocks meet. They must all be on cores at once, so there may be no more of them than the chip has.
template <bool isAIVOnly = true>
void SyncAll(ASCENDC_AT) {
  detail::Core& c = detail::core(at, "SyncAll");
  const uint32_t most = c.cube() ? c.block.chip->cube_cores : c.block.chip->vector_cores;
  if (c.peers() > most)
    detail::fail(at, "SyncAll",
                 detail::format("%u blocks wait for each other, and %s has %u %s cores: launch no more", c.peers(),
                                c.block.chip->name, most, c.cube() ? "cube" : "vector"));
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
// Words of the launch: flags between cores, then those of IBSet.
inline uint32_t core_flag_word(uint16_t id, const char* what, Site at) {
  if (id > 15) fail(at, what, format("flag %u: there are 0 to 15", id));
  return id;
}
inline uint32_t pair_word(Core& c, int32_t block, int32_t event, const char* what, Site at) {
  if (block < 0 || static_cast<uint32_t>(block) >= c.block.blocks)
    fail(at, what, format("block %d: there are 0 to %u", block, c.block.blocks - 1));
  if (event < 0 || event > 255) fail(at, what, format("event id %d: 0 to 255", event));
  return 16 + static_cast<uint32_t>(event) * 65536u + static_cast<uint32_t>(block);
}
}  // namespace detail

namespace detail {
// Where the cores of one kind (mode 0), or a group's vector cores (mode 1), count.
inline uint32_t peers_word(const Core& c, uint16_t id, int mode) {
  if (mode == 1) return kGroupMeets + (uint32_t{id} << 20) + c.group;
  return c.mixed ? kPeersMeet + (uint32_t{id} << 1) + c.cube() : id;
}
// Mode 2: where a core of a group is told something. Place 0 is the cube core.
inline uint32_t core_word(const Core& c, uint16_t id, uint32_t place) {
  return kToCore + (uint32_t{id} << 20) + c.group * (c.ratio + 1) + place;
}
}  // namespace detail

// Mode 0: the wait ends when all cores of the kind have set the flag once more; mode 1: when the vector cores of the block have. Mode 2:
// the cube core tells each vector core of its block; of the cube core the wait ends when all of these have told it.
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, ASCENDC_AT) {
  static_assert(modeId <= 2, "CrossCoreSetFlag: the modes are 0, 1 and 2");
  detail::Core& c = detail::core(at, "CrossCoreSetFlag");
  const uint16_t id = static_cast<uint16_t>(detail::core_flag_word(flagId, "CrossCoreSetFlag", at));
  if (modeId != 0 && !c.mixed)
    detail::fail(at, "CrossCoreSetFlag",
                 "modes 1 and 2 are for kernels of both kinds of cores (KERNEL_TYPE_MIX_AIC_1_2)");
  if (modeId == 1 && c.cube()) detail::fail(at, "CrossCoreSetFlag", "mode 1 is for the vector cores of a block");
  c.flag_modes[id] = modeId;
  const int unit = detail::unit_of(pipe);
  const detail::Clock over = unit < 0 ? c.hazards.all() : c.hazards.now(static_cast<detail::Unit>(unit));
  const auto tell = [&](uint32_t word) {
    detail::tell(c, word, over);
    detail::met(softnpuAscendcSignal(c.block.launch, word, 1), "CrossCoreSetFlag", at);
  };
  if (modeId < 2) return tell(detail::peers_word(c, id, modeId));
  if (!c.cube()) return tell(detail::core_word(c, id, 0));
  for (uint32_t place = 1; place <= c.ratio; ++place) tell(detail::core_word(c, id, place));
}
// The wait has the mode in which the core itself set the flag; if it never did, mode 2 in kernels of both kinds of cores.
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "CrossCoreWaitFlag");
  const uint16_t id = static_cast<uint16_t>(detail::core_flag_word(flagId, "CrossCoreWaitFlag", at));
  const int mode = c.flag_modes[id] >= 0 ? c.flag_modes[id] : c.mixed ? 2 : 0;
  if (mode == 2) {
    const uint32_t word = detail::core_word(c, id, c.cube() ? 0 : c.sub + 1);
    const int32_t tellers = c.cube() ? static_cast<int32_t>(c.ratio) : 1;
    detail::met(softnpuAscendcAwait(c.block.launch, word, tellers), "CrossCoreWaitFlag", at);
    detail::hear(c, word);
    detail::met(softnpuAscendcSignal(c.block.launch, word, -tellers), "CrossCoreWaitFlag", at);
  } else {
    const uint64_t round = ++c.waited[id];
    const uint32_t peers = mode == 1 ? c.ratio : c.peers();
    const uint32_t word = detail::peers_word(c, id, mode);
    detail::met(softnpuAscendcAwait(c.block.launch, word, static_cast<int32_t>(round * peers)), "CrossCoreWaitFlag",
                at);
    detail::hear(c, word);
  }
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
