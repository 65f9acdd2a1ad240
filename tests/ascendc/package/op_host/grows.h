#pragma once
#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(GrowsTilingData)
TILING_DATA_FIELD_DEF(uint32_t, half);
TILING_DATA_FIELD_DEF(uint32_t, tile);
TILING_DATA_FIELD_DEF(uint32_t, told);
TILING_DATA_FIELD_DEF(int32_t, number);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Grows, GrowsTilingData)
REGISTER_TILING_DATA_CLASS(Shrinks, GrowsTilingData)
}  // namespace optiling
