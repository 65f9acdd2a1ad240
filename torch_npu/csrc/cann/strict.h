// Whether a chip's documented types are all that its library takes. Who calls it: csrc/ops, before it converts operands for a chip.
#pragma once

#include "csrc/cann/export.h"

namespace cann {

// False for the software NPU without ANYCEND_STRICT, which computes more types than the chip that it stands for. Loads libascendcl.
NPU_API bool takes_documented_types_only();

}  // namespace cann
