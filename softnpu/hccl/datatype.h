// Sizes and names of HcclDataType, names of HcclReduceOp and of the collectives. What it is not: arithmetic (reduce.h).
#pragma once

#include <cstddef>

#include "hccl/types.h"

namespace softnpu::hccl {

// Bytes of one element, 0 for a type that does not exist.
constexpr size_t element_size(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0:
      return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64:
      return 8;
    case HCCL_DATA_TYPE_INT128:
      return 16;
    default:
      return 0;
  }
}

constexpr const char* type_name(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return "int8";
    case HCCL_DATA_TYPE_INT16:
      return "int16";
    case HCCL_DATA_TYPE_INT32:
      return "int32";
    case HCCL_DATA_TYPE_FP16:
      return "fp16";
    case HCCL_DATA_TYPE_FP32:
      return "fp32";
    case HCCL_DATA_TYPE_INT64:
      return "int64";
    case HCCL_DATA_TYPE_UINT64:
      return "uint64";
    case HCCL_DATA_TYPE_UINT8:
      return "uint8";
    case HCCL_DATA_TYPE_UINT16:
      return "uint16";
    case HCCL_DATA_TYPE_UINT32:
      return "uint32";
    case HCCL_DATA_TYPE_FP64:
      return "fp64";
    case HCCL_DATA_TYPE_BFP16:
      return "bfp16";
    case HCCL_DATA_TYPE_INT128:
      return "int128";
    case HCCL_DATA_TYPE_HIF8:
      return "hif8";
    case HCCL_DATA_TYPE_FP8E4M3:
      return "fp8e4m3";
    case HCCL_DATA_TYPE_FP8E5M2:
      return "fp8e5m2";
    case HCCL_DATA_TYPE_FP8E8M0:
      return "fp8e8m0";
    default:
      return "unknown type";
  }
}

constexpr const char* collective_name(HcclCMDType type) {
  switch (type) {
    case HCCL_CMD_BROADCAST:
      return "HcclBroadcast";
    case HCCL_CMD_ALLREDUCE:
      return "HcclAllReduce";
    case HCCL_CMD_REDUCE:
      return "HcclReduce";
    case HCCL_CMD_ALLGATHER:
      return "HcclAllGather";
    case HCCL_CMD_ALLGATHER_V:
      return "HcclAllGatherV";
    case HCCL_CMD_REDUCE_SCATTER:
      return "HcclReduceScatter";
    case HCCL_CMD_REDUCE_SCATTER_V:
      return "HcclReduceScatterV";
    case HCCL_CMD_SCATTER:
      return "HcclScatter";
    case HCCL_CMD_ALLTOALL:
      return "HcclAlltoAll";
    case HCCL_CMD_ALLTOALLV:
      return "HcclAlltoAllV";
    case HCCL_CMD_ALLTOALLVC:
      return "HcclAlltoAllVC";
    case HCCL_CMD_BARRIER:
      return "HcclBarrier";
    default:
      return "unknown collective";
  }
}

constexpr const char* op_name(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return "sum";
    case HCCL_REDUCE_PROD:
      return "prod";
    case HCCL_REDUCE_MAX:
      return "max";
    case HCCL_REDUCE_MIN:
      return "min";
    default:
      return "unknown operation";
  }
}

}  // namespace softnpu::hccl
