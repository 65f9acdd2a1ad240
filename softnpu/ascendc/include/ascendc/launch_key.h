// The tiling key of the thread's next launch, which opp_build's entry to a kernel sets; by itself, since the entry is compiled for each
// kernel and needs nothing else. What it is not: the launch (launch.h).
#pragma once

#include <cstdint>

namespace AscendC::detail {

// What TILING_KEY_IS of the next launch compares with; the thread's own.
inline thread_local uint64_t t_launch_key = 0;

}  // namespace AscendC::detail
