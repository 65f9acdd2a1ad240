// See types.h.
#include "csrc/distributed/types.h"

#include "csrc/core/type_name.h"

namespace npu::distributed {

HcclDataType hccl_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return HCCL_DATA_TYPE_FP32;
    case at::kHalf:
      return HCCL_DATA_TYPE_FP16;
    case at::kBFloat16:
      return HCCL_DATA_TYPE_BFP16;
    case at::kDouble:
      return HCCL_DATA_TYPE_FP64;
    case at::kChar:
      return HCCL_DATA_TYPE_INT8;
    case at::kByte:
    case at::kBool:
      return HCCL_DATA_TYPE_UINT8;
    case at::kShort:
      return HCCL_DATA_TYPE_INT16;
    case at::kInt:
      return HCCL_DATA_TYPE_INT32;
    case at::kLong:
      return HCCL_DATA_TYPE_INT64;
    case at::kUInt16:
      return HCCL_DATA_TYPE_UINT16;
    case at::kUInt32:
      return HCCL_DATA_TYPE_UINT32;
    case at::kUInt64:
      return HCCL_DATA_TYPE_UINT64;
    case at::kFloat8_e4m3fn:
      return HCCL_DATA_TYPE_FP8E4M3;
    case at::kFloat8_e5m2:
      return HCCL_DATA_TYPE_FP8E5M2;
    default:
      TORCH_CHECK_TYPE(false, "ProcessGroupHCCL: HCCL cannot move tensors of ", type_name(type));
  }
}

HcclReduceOp hccl_op(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
    case c10d::ReduceOp::PREMUL_SUM:
      return HCCL_REDUCE_SUM;
    case c10d::ReduceOp::PRODUCT:
      return HCCL_REDUCE_PROD;
    case c10d::ReduceOp::MAX:
      return HCCL_REDUCE_MAX;
    case c10d::ReduceOp::MIN:
      return HCCL_REDUCE_MIN;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
      C10_THROW_ERROR(ValueError, "ProcessGroupHCCL: HCCL has no bitwise reductions (ReduceOp.BAND, BOR, BXOR)");
    default:
      C10_THROW_ERROR(ValueError, "ProcessGroupHCCL: unknown ReduceOp");
  }
}

}  // namespace npu::distributed
