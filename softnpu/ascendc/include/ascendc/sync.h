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
  if (failed) fail(at, what, "another block of the kernel failed");
}

}  // namespace detail

template <HardEvent event>
void SetFlag(int32_t eventID, ASCENDC_AT) {
  bool& set = detail::flag_of(event, eventID, "SetFlag", at);
  if (set)
    detail::fail(at, "SetFlag",
                 detail::format("HardEvent::%s with id %d is set, and nobody has waited for it: WaitFlag is missing",
                                detail::signal_of(event).name, eventID));
  set = true;
  detail::Core& c = detail::core();
  c.flag_clocks[static_cast<int>(event)][eventID] =
      c.hazards.now(static_cast<detail::Unit>(detail::unit_of(detail::signal_of(event).from)));
}
template <HardEvent event>
void WaitFlag(int32_t eventID, ASCENDC_AT) {
  bool& set = detail::flag_of(event, eventID, "WaitFlag", at);
  if (!set)
    detail::fail(
        at, "WaitFlag",
        detail::format("nobody has set HardEvent::%s with id %d, and the core would wait for ever: SetFlag is missing",
                       detail::signal_of(event).name, eventID));
  set = false;
  detail::Core& c = detail::core();
  c.hazards.learn(static_cast<detail::Unit>(detail::unit_of(detail::signal_of(event).to)),
                  c.flag_clocks[static_cast<int>(event)][eventID]);
}

template <pipe_t pipe>
void PipeBarrier(ASCENDC_AT) {
  static_assert(detail::unit_of(pipe) >= 0 || pipe == PIPE_ALL,
                "PipeBarrier: a vector core has PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_S and PIPE_ALL");
  detail::Core& c = detail::core(at, "PipeBarrier");
  if (pipe == PIPE_ALL) c.hazards.meet();
}

// All blocks meet. They must all be on cores at once, so there may be no more of them than the chip has.
template <bool isAIVOnly = true>
void SyncAll(ASCENDC_AT) {
  static_assert(isAIVOnly, "SyncAll<false> waits for the cube cores, too, which the software NPU does not run");
  detail::Core& c = detail::core(at, "SyncAll");
  if (c.block.blocks > c.block.chip->vector_cores)
    detail::fail(at, "SyncAll",
                 detail::format("%u blocks wait for each other, and %s has %u vector cores: launch no more",
                                c.block.blocks, c.block.chip->name, c.block.chip->vector_cores));
  detail::met(softnpuAscendcMeet(c.block.launch), "SyncAll", at);
  c.hazards.meet();
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

// Mode 0: the wait ends when all blocks have set the flag once more.
template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, ASCENDC_AT) {
  static_assert(modeId == 0,
                "CrossCoreSetFlag: modes 1 and 2 are for groups of cube and vector cores; the software NPU has mode 0");
  detail::Core& c = detail::core(at, "CrossCoreSetFlag");
  detail::met(softnpuAscendcSignal(c.block.launch, detail::core_flag_word(flagId, "CrossCoreSetFlag", at), 1),
              "CrossCoreSetFlag", at);
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, ASCENDC_AT) {
  static_assert(
      modeId == 0,
      "CrossCoreWaitFlag: modes 1 and 2 are for groups of cube and vector cores; the software NPU has mode 0");
  detail::Core& c = detail::core(at, "CrossCoreWaitFlag");
  const uint32_t word = detail::core_flag_word(flagId, "CrossCoreWaitFlag", at);
  const uint64_t round = ++c.waited[flagId];
  detail::met(softnpuAscendcAwait(c.block.launch, word, static_cast<int32_t>(round * c.block.blocks)),
              "CrossCoreWaitFlag", at);
  c.hazards.meet();
}

// One block tells another that it has come this far. The workspace of the API is not needed here.
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, int32_t blockIdx, int32_t eventID, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "IBSet");
  detail::met(softnpuAscendcSignal(c.block.launch, detail::pair_word(c, blockIdx, eventID, "IBSet", at), 1), "IBSet",
              at);
}
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, int32_t blockIdx, int32_t eventID, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "IBWait");
  const uint32_t word = detail::pair_word(c, blockIdx, eventID, "IBWait", at);
  detail::met(softnpuAscendcAwait(c.block.launch, word, 1), "IBWait", at);
  detail::met(softnpuAscendcSignal(c.block.launch, word, -1), "IBWait", at);
  c.hazards.meet();
}

}  // namespace AscendC
