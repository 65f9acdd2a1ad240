// HcclScatter: each rank gets its part of the root's buffer.
#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                                   uint32_t root, HcclComm comm, aclrtStream stream) {
  return guarded("HcclScatter", [&] {
    const auto [c, is_root] = lookup(comm, root);
    const uint64_t bytes = bytes_of(recvCount, dataType), all = bytes_of(recvCount, dataType, c->size());
    submit(comm, stream,
           {.name = "HcclScatter",
            .kind = HCCL_CMD_SCATTER,
            .type = dataType,
            .root = root,
            .count = recvCount,
            .send = is_root ? sendBuf : nullptr,
            .recv = recvBuf,
            .send_bytes = is_root ? all : 0,
            .recv_bytes = bytes,
            .largest_send = all,
            .needs = is_root ? Needs::kNobody : Needs::kRoot,
            .plan = [](const Call& c, uint32_t ranks, const Tables&, std::vector<Segment>& out) {
              for (uint32_t r = 0; r < ranks; ++r) out.push_back({c.root, r, r * c.recv_bytes, 0, c.recv_bytes});
            }});
  });
}
