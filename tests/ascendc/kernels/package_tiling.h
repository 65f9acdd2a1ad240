// The host side's half of package.asc, as an operator package has it; bisheng --tiling-data= makes the kernel's structs of it.
#pragma once

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(HypotTilingData)
TILING_DATA_FIELD_DEF(bool, twice);
TILING_DATA_FIELD_DEF(uint64_t, length);
TILING_DATA_FIELD_DEF_ARR(int32_t, 3, numbers);
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, product);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(OtherTilingData)
TILING_DATA_FIELD_DEF(float, unused);
END_TILING_DATA_DEF

REGISTER_TILING_DATA_CLASS(Hypot, HypotTilingData)
REGISTER_TILING_DATA_CLASS(HypotGrad, OtherTilingData)
}  // namespace optiling
