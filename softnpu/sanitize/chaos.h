// Delays at random, by seed: each thread yields or sleeps at the points of hooks.h, so that orders of events which a quiet
// machine never shows are tried. Who calls it: the first stream of a process with ANYCEND_CHAOS.
#pragma once

#include <cstdint>

namespace softnpu::sanitize {

// From now on, and for the life of the process; later calls change nothing. The seed decides each thread's sequence of
// delays, threads being numbered as they come to their first point.
void start_chaos(uint64_t seed) noexcept;

}  // namespace softnpu::sanitize
