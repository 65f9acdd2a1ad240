// HcclAlltoAll, HcclAlltoAllV, HcclAlltoAllVC: every rank has a part for every rank. The counts arrays live on the host.
#include <algorithm>

#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

namespace {

void require_one_type(HcclDataType a, HcclDataType b) {
  if (a != b) fail(HCCL_E_PARA, "sendType and recvType differ");
}

// From the table of byte counts and offsets; each rank's may differ.
void submit_uneven(const char* name, HcclCMDType kind, const void* send, const void* recv, HcclDataType type,
                   std::vector<uint64_t> table, HcclComm comm, uint32_t n, aclrtStream stream) {
  uint64_t send_end = 0, recv_end = 0;
  for (uint32_t r = 0; r < n; ++r) {
    if (table[kSendBytes * n + r])
      send_end = std::max(send_end, table[kSendOffset * n + r] + table[kSendBytes * n + r]);
    if (table[kRecvBytes * n + r])
      recv_end = std::max(recv_end, table[kRecvOffset * n + r] + table[kRecvBytes * n + r]);
  }
  submit(
      comm, stream,
      {.name = name,
       .kind = kind,
       .type = type,
       .send = send,
       .recv = const_cast<void*>(recv),
       .send_bytes = send_end,
       .recv_bytes = recv_end,
       .largest_send = send_end,
       .uneven = true,
       .table = std::move(table),
       .plan = [](const Call& c, uint32_t ranks, const Tables& tables, std::vector<Segment>& out) {
         for (uint32_t from = 0; from < ranks; ++from)
           for (uint32_t to = 0; to < ranks; ++to) {
             const uint64_t *sender = tables(from), *receiver = tables(to), bytes = sender[kSendBytes * ranks + to];
             if (bytes != receiver[kRecvBytes * ranks + from])
               fail(HCCL_E_PARA, "%s: rank %u sends %llu bytes to rank %u, which expects %llu", c.name, from,
                    static_cast<unsigned long long>(bytes), to,
                    static_cast<unsigned long long>(receiver[kRecvBytes * ranks + from]));
             out.push_back({from, to, sender[kSendOffset * ranks + to], receiver[kRecvOffset * ranks + from], bytes});
           }
       }});
}

}  // namespace

HCCL_EXPORT HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                                    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return guarded("HcclAlltoAll", [&] {
    require_one_type(sendType, recvType);
    if (sendCount != recvCount) fail(HCCL_E_PARA, "sendCount and recvCount differ");
    const uint64_t all = bytes_of(sendCount, sendType, lookup(comm)->size());
    submit(comm, stream,
           {.name = "HcclAlltoAll",
            .kind = HCCL_CMD_ALLTOALL,
            .type = sendType,
            .count = sendCount,
            .send = sendBuf,
            .recv = const_cast<void*>(recvBuf),
            .send_bytes = all,
            .recv_bytes = all,
            .largest_send = all,
            .plan = [](const Call& c, uint32_t ranks, const Tables&, std::vector<Segment>& out) {
              const uint64_t part = c.send_bytes / ranks;
              for (uint32_t from = 0; from < ranks; ++from)
                for (uint32_t to = 0; to < ranks; ++to) out.push_back({from, to, to * part, from * part, part});
            }});
  });
}

HCCL_EXPORT HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                                     HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                                     const void* rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return guarded("HcclAlltoAllV", [&] {
    require_one_type(sendType, recvType);
    const uint32_t n = lookup(comm)->size();
    const void* const rows[4] = {sendCounts, sdispls, recvCounts, rdispls};  // in the order of Row
    std::vector<uint64_t> table(4 * n);
    for (uint32_t row = 0; row < 4; ++row) {
      if (!rows[row]) fail(HCCL_E_PTR, "an array of counts or displacements is null");
      for (uint32_t r = 0; r < n; ++r)
        table[row * n + r] = bytes_of(static_cast<const uint64_t*>(rows[row])[r], sendType);
    }
    submit_uneven("HcclAlltoAllV", HCCL_CMD_ALLTOALLV, sendBuf, recvBuf, sendType, std::move(table), comm, n, stream);
  });
}

HCCL_EXPORT HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType,
                                      const void* recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return guarded("HcclAlltoAllVC", [&] {
    require_one_type(sendType, recvType);
    const CommunicatorPtr c = lookup(comm);
    const uint32_t n = c->size(), me = c->rank();
    if (!sendCountMatrix) fail(HCCL_E_PTR, "sendCountMatrix is null");
    const auto* matrix = static_cast<const uint64_t*>(sendCountMatrix);
    std::vector<uint64_t> table(4 * n);
    uint64_t sent = 0, received = 0;
    for (uint32_t r = 0; r < n; ++r) {
      table[kSendOffset * n + r] = sent, table[kRecvOffset * n + r] = received;
      sent += table[kSendBytes * n + r] = bytes_of(matrix[me * n + r], sendType);
      received += table[kRecvBytes * n + r] = bytes_of(matrix[r * n + me], sendType);
    }
    submit_uneven("HcclAlltoAllVC", HCCL_CMD_ALLTOALLVC, sendBuf, recvBuf, sendType, std::move(table), comm, n, stream);
  });
}
