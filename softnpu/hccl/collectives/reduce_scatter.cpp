// HcclReduceScatter and HcclReduceScatterV: each rank gets its part of the reduction of all.
#include <algorithm>

#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                                         HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return guarded("HcclReduceScatter", [&] {
    const uint32_t n = lookup(comm)->size();
    require_reducible(dataType, op);
    const uint64_t bytes = bytes_of(recvCount, dataType), all = bytes_of(recvCount, dataType, n);
    submit(comm, stream,
           {.name = "HcclReduceScatter",
            .kind = HCCL_CMD_REDUCE_SCATTER,
            .type = dataType,
            .op = op,
            .count = recvCount,
            .send = sendBuf,
            .recv = recvBuf,
            .send_bytes = all,
            .recv_bytes = bytes,
            .largest_send = all,
            .plan = [](const Call& c, uint32_t ranks, const Tables&, std::vector<Segment>& out) {
              for (uint32_t r = 0; r < ranks; ++r) out.push_back({kAll, r, r * c.recv_bytes, 0, c.recv_bytes});
            }});
  });
}

HCCL_EXPORT HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                                          uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                          aclrtStream stream) {
  return guarded("HcclReduceScatterV", [&] {
    const CommunicatorPtr c = lookup(comm);
    const uint32_t n = c->size();
    if (!sendCounts || !sendDispls) fail(HCCL_E_PTR, "%s is null", sendCounts ? "sendDispls" : "sendCounts");
    require_reducible(dataType, op);
    const auto* counts = static_cast<const uint64_t*>(sendCounts);
    const auto* displs = static_cast<const uint64_t*>(sendDispls);
    std::vector<uint64_t> table(4 * n);
    uint64_t end = 0;
    for (uint32_t r = 0; r < n; ++r) {
      table[kSendBytes * n + r] = bytes_of(counts[r], dataType);
      table[kSendOffset * n + r] = bytes_of(displs[r], dataType);
      if (counts[r]) end = std::max(end, table[kSendOffset * n + r] + table[kSendBytes * n + r]);
    }
    const uint64_t bytes = bytes_of(recvCount, dataType);
    if (bytes != table[kSendBytes * n + c->rank()])
      fail(HCCL_E_PARA, "recvCount is %llu, but sendCounts[%u] (this rank) is %llu",
           static_cast<unsigned long long>(recvCount), c->rank(), static_cast<unsigned long long>(counts[c->rank()]));
    submit(comm, stream,
           {.name = "HcclReduceScatterV",
            .kind = HCCL_CMD_REDUCE_SCATTER_V,
            .type = dataType,
            .op = op,
            .count = recvCount,
            .send = sendBuf,
            .recv = recvBuf,
            .send_bytes = end,
            .recv_bytes = bytes,
            .largest_send = end,
            .uneven = true,
            .table = std::move(table),
            .plan = [](const Call&, uint32_t ranks, const Tables& tables, std::vector<Segment>& out) {
              const uint64_t* first = tables(0);
              for (uint32_t r = 0; r < ranks;
                   ++r)  // every rank's parts must lie alike: they are added up where they lie
                if (!std::equal(first, first + 2 * ranks, tables(r)))
                  fail(HCCL_E_PARA, "HcclReduceScatterV: rank %u gives other sendCounts or sendDispls than rank 0", r);
              for (uint32_t r = 0; r < ranks; ++r)
                out.push_back({kAll, r, first[kSendOffset * ranks + r], 0, first[kSendBytes * ranks + r]});
            }});
  });
}
