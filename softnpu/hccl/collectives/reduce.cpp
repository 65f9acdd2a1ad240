// HcclReduce: the root gets the reduction of all.
#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                                  uint32_t root, HcclComm comm, aclrtStream stream) {
  return guarded("HcclReduce", [&] {
    const bool is_root = lookup(comm, root).second;
    require_reducible(dataType, op);
    const uint64_t bytes = bytes_of(count, dataType);
    submit(comm, stream,
           {.name = "HcclReduce",
            .kind = HCCL_CMD_REDUCE,
            .type = dataType,
            .op = op,
            .root = root,
            .count = count,
            .send = sendBuf,
            .recv = is_root ? recvBuf : nullptr,
            .send_bytes = bytes,
            .recv_bytes = is_root ? bytes : 0,
            .largest_send = bytes,
            .needs = is_root ? Needs::kEverybody : Needs::kNobody,
            .plan = [](const Call& c, uint32_t, const Tables&, std::vector<Segment>& out) {
              out.push_back({kAll, c.root, 0, 0, c.send_bytes});
            }});
  });
}
