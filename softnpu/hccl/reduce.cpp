// See reduce.h: choosing the version for this processor.
#include "softnpu/hccl/reduce.h"

#include "softnpu/hccl/datatype.h"

namespace softnpu::hccl {

namespace {

const ReduceTable& table_of_processor() noexcept {
#ifdef HCCL_X86_64
  static const ReduceTable& table = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
                                        ? reduce_avx512
                                    : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")
                                        ? reduce_avx2
                                        : reduce_baseline;
#else
  static const ReduceTable& table = reduce_baseline;
#endif
  return table;
}

}  // namespace

ReduceFn reduce_fn(HcclDataType type, HcclReduceOp op) noexcept {
  if (static_cast<unsigned>(type) >= 16 || static_cast<unsigned>(op) >= 4) return nullptr;
  return table_of_processor().fn[type][op];
}

SplitReduce split_reduce(HcclDataType type, HcclReduceOp op) noexcept {
  if (type != HCCL_DATA_TYPE_FP16 && type != HCCL_DATA_TYPE_BFP16) {
    const ReduceFn fn = reduce_fn(type, op);
    return {fn, fn, fn, element_size(type)};
  }
  const ReduceTable& table = table_of_processor();
  const int row = type == HCCL_DATA_TYPE_BFP16;
  return {table.begin[row][op], table.extend[row][op], table.end[row][op], sizeof(float)};
}

}  // namespace softnpu::hccl
