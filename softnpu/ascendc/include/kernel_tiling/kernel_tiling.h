// The structs that the host's tiling functions of the high-level API fill. What it is not: the structs of a kernel's own tiling.
#pragma once

#include <cstdint>

#include "../ascendc/cube_fields.h"

// Of the host's GetTiling.
struct TCubeTiling {
#define ASCENDC_FIELD(name) int32_t name = 0;
  ASCENDC_CUBE_FIELDS(ASCENDC_FIELD)
#undef ASCENDC_FIELD
};

namespace AscendC::tiling {
using ::TCubeTiling;
}
