// The chip that kernels see: the sizes of its buffers by architecture. What it is not: the choice of the chip (ANYCEND_SOC, which
// libascendcl answers). Called by launches.
#pragma once

#include "softnpu/ascendc/include/ascendc/runtime.h"

namespace softnpu::ascendc {

// Null when libascendcl names no chip with a known architecture. Thread-safe; the answer is kept.
const softnpuAscendcChip* chip() noexcept;

}  // namespace softnpu::ascendc
