// What caches of latent keys must be: pages of blocks, plain or in parts of columns, or the whole of a cache. Who uses it: mla.cpp.
#pragma once

#include "csrc/ops/npu/mla.h"

namespace npu::ops {

void check_latent(const char* op, const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches,
                  const MlaScales& scales, const MlaModes& modes);

}  // namespace npu::ops
