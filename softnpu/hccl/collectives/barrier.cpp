// HcclBarrier: the stream goes on when every rank's stream has come here.
#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return guarded("HcclBarrier", [&] {
    submit(comm, stream, {.name = "HcclBarrier", .kind = HCCL_CMD_BARRIER, .type = HCCL_DATA_TYPE_INT8});
  });
}
