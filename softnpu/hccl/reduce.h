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

// A reduction that goes from host to host, in steps that give the same bits as reduce_fn() at once: in between it is held in the type
// that it is added up in (fp32 for 16-bit floats, else the type itself). begin: inputs -> partial result; extend: a partial result,
// then inputs -> partial result; end: a partial result, then inputs -> outputs, rounded once.
struct SplitReduce {
  ReduceFn begin, extend, end;
  size_t partial_size;  // bytes of an element in between
};
SplitReduce split_reduce(HcclDataType type, HcclReduceOp op) noexcept;

// One table an instruction set: the same source compiled with other flags (CMakeLists.txt).
struct ReduceTable {
  ReduceFn fn[16][4];
  ReduceFn begin[2][4], extend[2][4], end[2][4];  // of fp16, bf16
};
extern const ReduceTable reduce_baseline;
extern const ReduceTable reduce_avx2;
extern const ReduceTable reduce_avx512;

}  // namespace softnpu::hccl
