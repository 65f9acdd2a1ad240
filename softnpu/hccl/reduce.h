// Element-wise reduction of n inputs into m outputs, in the order of the inputs: the same bits whoever computes it.
// 16-bit floats are added up in fp32 and rounded once; integers wrap; a NaN in max or min stays.
// What it is not: which rank reduces what (schedule.h).
#pragma once

#include <cstddef>

#include "hccl/types.h"

namespace softnpu::hccl {

// Reads inputs[0..n)[0..count), then writes the result to outputs[0..m)[0..count). An output may be one of the inputs exactly; it
// must not overlap one otherwise. n >= 1, m >= 1.
using ReduceFn = void (*)(const void* const* inputs, size_t n, void* const* outputs, size_t m, size_t count) noexcept;

// The best version for this processor; null when the type cannot be reduced.
ReduceFn reduce_fn(HcclDataType type, HcclReduceOp op) noexcept;

// One table an instruction set: the same source compiled with other flags (CMakeLists.txt).
struct ReduceTable {
  ReduceFn fn[16][4];
};
extern const ReduceTable reduce_baseline;
extern const ReduceTable reduce_avx2;
extern const ReduceTable reduce_avx512;

}  // namespace softnpu::hccl
