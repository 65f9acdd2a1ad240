// HcclBarrier: the stream goes on when every rank's stream has come here.
#include "hccl/api.h"
#include "hccl/soft.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return guarded("HcclBarrier", [&] {
    submit(comm, stream, {.name = "HcclBarrier", .kind = HCCL_CMD_BARRIER, .type = HCCL_DATA_TYPE_INT8});
  });
}

HCCL_EXPORT HcclResult softnpuHcclBarrierWithin(HcclComm comm, const int64_t* limit_ms, aclrtStream stream) {
  return guarded("HcclBarrier", [&] {
    require_buffer(limit_ms, sizeof *limit_ms, "limit_ms");
    submit(comm, stream,
           {.name = "HcclBarrier", .kind = HCCL_CMD_BARRIER, .type = HCCL_DATA_TYPE_INT8, .limit_ms = limit_ms});
  });
}
