// The tiling of scale_shift.
#pragma once

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(ScaleShiftPart)
TILING_DATA_FIELD_DEF(uint8_t, negate);
TILING_DATA_FIELD_DEF(uint64_t, each);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(ScaleShiftTilingData)
TILING_DATA_FIELD_DEF(uint16_t, hasBias);
TILING_DATA_FIELD_DEF(uint32_t, total);
TILING_DATA_FIELD_DEF_ARR(int64_t, (2 + (1)), steps);
TILING_DATA_FIELD_DEF(float, scale);
TILING_DATA_FIELD_DEF_STRUCT(ScaleShiftPart, part);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleShift, ScaleShiftTilingData)
}  // namespace optiling
