// ASCEND_LAUNCH_BLOCKING=1: each operator waits for its end, so that its own call fails. What a graph captures is not launched, and does not
// wait; its replay does. Who calls it: what has just put work on the current stream of the current device.
#pragma once

#include <c10/macros/Macros.h>

#include "csrc/core/options.h"
#include "csrc/core/stream.h"

namespace npu {

inline void wait_if_blocking() {
  if (C10_LIKELY(!options().launch_blocking)) return;
  const c10::Stream stream = current_stream();
  if (!is_capturing(stream)) synchronize_stream(stream);
}

}  // namespace npu
