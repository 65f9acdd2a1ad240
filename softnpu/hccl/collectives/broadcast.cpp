// HcclBroadcast: the root's buffer goes to every rank's.
#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                                     aclrtStream stream) {
  return guarded("HcclBroadcast", [&] {
    const auto [c, is_root] = lookup(comm, root);
    const uint64_t bytes = bytes_of(count, dataType);
    require_buffer(buf, bytes, "buf");
    submit(comm, stream,
           {.name = "HcclBroadcast",
            .kind = HCCL_CMD_BROADCAST,
            .type = dataType,
            .root = root,
            .count = count,
            .send = is_root ? buf : nullptr,
            .recv = buf,
            .send_bytes = is_root ? bytes : 0,
            .recv_bytes = bytes,
            .largest_send = bytes,
            .needs = is_root ? Needs::kNobody : Needs::kRoot,
            .plan = [](const Call& c, uint32_t, const Tables&, std::vector<Segment>& out) {
              out.push_back({c.root, kAll, 0, 0, c.recv_bytes});
            }});
  });
}
