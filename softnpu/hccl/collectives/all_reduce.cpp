// HcclAllReduce: every rank gets the reduction of all.
#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                                     HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return guarded("HcclAllReduce", [&] {
    require_reducible(dataType, op);
    const uint64_t bytes = bytes_of(count, dataType);
    submit(comm, stream,
           {.name = "HcclAllReduce",
            .kind = HCCL_CMD_ALLREDUCE,
            .type = dataType,
            .op = op,
            .count = count,
            .send = sendBuf,
            .recv = recvBuf,
            .send_bytes = bytes,
            .recv_bytes = bytes,
            .largest_send = bytes,
            .plan = [](const Call& c, uint32_t, const Tables&, std::vector<Segment>& out) {
              out.push_back({kAll, kAll, 0, 0, c.send_bytes});
            }});
  });
}
