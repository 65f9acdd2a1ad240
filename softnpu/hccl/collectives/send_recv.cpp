// HcclSend, HcclRecv, HcclBatchSendRecv.
#include "hccl/api.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

HCCL_EXPORT HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                                aclrtStream stream) {
  return guarded("HcclSend", [&] {
    submit(comm, stream, {{true, destRank, sendBuf, bytes_of(count, dataType), dataType}}, "HcclSend");
  });
}

HCCL_EXPORT HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                                aclrtStream stream) {
  return guarded("HcclRecv", [&] {
    submit(comm, stream, {{false, srcRank, recvBuf, bytes_of(count, dataType), dataType}}, "HcclRecv");
  });
}

HCCL_EXPORT HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                                         aclrtStream stream) {
  return guarded("HcclBatchSendRecv", [&] {
    if (!sendRecvInfo || !itemNum) fail(HCCL_E_PTR, "there are no items");
    std::vector<Transfer> transfers;
    for (uint32_t i = 0; i < itemNum; ++i) {
      const HcclSendRecvItem& item = sendRecvInfo[i];
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV)
        fail(HCCL_E_PARA, "item %u is neither a send nor a receive", i);
      transfers.push_back({item.sendRecvType == HCCL_SEND, item.remoteRank, item.buf,
                           bytes_of(item.count, item.dataType), item.dataType});
    }
    submit(comm, stream, std::move(transfers), "HcclBatchSendRecv");
  });
}
