// Where rows of latent keys go: pages of blocks, plain or in parts of columns, or the whole of a cache. Who uses it: mla.cpp.
#pragma once

#include "csrc/ops/npu/mla.h"

namespace npu::ops {

// key [tokens, latent] and its rotated columns, both float32, into the caches, quantized as modes.cache says.
void put_latent(const char* op, const MlaRows& rows, const MlaCaches& caches, const MlaScales& scales,
                const MlaModes& modes, const at::Tensor& key, const at::Tensor& rope);

}  // namespace npu::ops
