// HcclAllGather and HcclAllGatherV: every rank gets what each rank sends, in the order of the ranks or where it wants it.
#include <algorithm>

#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                                     HcclComm comm, aclrtStream stream) {
  return guarded("HcclAllGather", [&] {
    const uint32_t n = lookup(comm)->size();
    const uint64_t bytes = bytes_of(sendCount, dataType);
    submit(comm, stream,
           {.name = "HcclAllGather",
            .kind = HCCL_CMD_ALLGATHER,
            .type = dataType,
            .count = sendCount,
            .send = sendBuf,
            .recv = recvBuf,
            .send_bytes = bytes,
            .recv_bytes = bytes_of(sendCount, dataType, n),
            .largest_send = bytes,
            .plan = [](const Call& c, uint32_t ranks, const Tables&, std::vector<Segment>& out) {
              for (uint32_t r = 0; r < ranks; ++r) out.push_back({r, kAll, 0, r * c.send_bytes, c.send_bytes});
            }});
  });
}

HCCL_EXPORT HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                                      const void* recvDispls, HcclDataType dataType, HcclComm comm,
                                      aclrtStream stream) {
  return guarded("HcclAllGatherV", [&] {
    const CommunicatorPtr c = lookup(comm);
    const uint32_t n = c->size();
    if (!recvCounts || !recvDispls) fail(HCCL_E_PTR, "%s is null", recvCounts ? "recvDispls" : "recvCounts");
    const auto* counts = static_cast<const uint64_t*>(recvCounts);
    const auto* displs = static_cast<const uint64_t*>(recvDispls);
    std::vector<uint64_t> table(4 * n);
    uint64_t largest = 0, end = 0;
    for (uint32_t r = 0; r < n; ++r) {
      table[kRecvBytes * n + r] = bytes_of(counts[r], dataType);
      table[kRecvOffset * n + r] = bytes_of(displs[r], dataType);
      largest = std::max(largest, table[kRecvBytes * n + r]);
      if (counts[r]) end = std::max(end, table[kRecvOffset * n + r] + table[kRecvBytes * n + r]);
    }
    const uint64_t bytes = bytes_of(sendCount, dataType);
    if (bytes != table[kRecvBytes * n + c->rank()])
      fail(HCCL_E_PARA, "sendCount is %llu, but recvCounts[%u] (this rank) is %llu",
           static_cast<unsigned long long>(sendCount), c->rank(), static_cast<unsigned long long>(counts[c->rank()]));
    // Where a rank wants each piece is its own affair: pieces go one by one to each.
    submit(comm, stream,
           {.name = "HcclAllGatherV",
            .kind = HCCL_CMD_ALLGATHER_V,
            .type = dataType,
            .count = sendCount,
            .send = sendBuf,
            .recv = recvBuf,
            .send_bytes = bytes,
            .recv_bytes = end,
            .largest_send = largest,
            .uneven = true,
            .table = std::move(table),
            .plan = [](const Call&, uint32_t ranks, const Tables& tables, std::vector<Segment>& out) {
              for (uint32_t from = 0; from < ranks; ++from)
                for (uint32_t to = 0; to < ranks; ++to) {
                  const uint64_t *theirs = tables(to), bytes = tables(from)[kRecvBytes * ranks + from];
                  if (theirs[kRecvBytes * ranks + from] != bytes)
                    fail(HCCL_E_PARA, "HcclAllGatherV: rank %u sends %llu bytes, rank %u expects %llu", from,
                         static_cast<unsigned long long>(bytes), to,
                         static_cast<unsigned long long>(theirs[kRecvBytes * ranks + from]));
                  out.push_back({from, to, 0, theirs[kRecvOffset * ranks + from], bytes});
                }
            }});
  });
}
