// The network between hosts, as ANYCEND_FAULT=link:cut has it (softnpu/sanitize/faults.h). Who asks: hccl/network, before it sends or
// receives.
#pragma once

#include "softnpu/runtime/enqueue.h"

namespace softnpu {

// Then nothing is sent or received, as if it stayed on its way. Thread-safe; one load where no fault is asked for.
SOFTNPU_API bool link_is_cut() noexcept;

}  // namespace softnpu
