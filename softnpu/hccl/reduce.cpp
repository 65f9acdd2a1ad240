// See reduce.h: choosing the version for this processor.
#include "softnpu/hccl/reduce.h"

namespace softnpu::hccl {

ReduceFn reduce_fn(HcclDataType type, HcclReduceOp op) noexcept {
  if (static_cast<unsigned>(type) >= 16 || static_cast<unsigned>(op) >= 4) return nullptr;
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
  return table.fn[type][op];
}

}  // namespace softnpu::hccl
