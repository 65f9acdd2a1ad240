// The types of HCCL's C ABI. Functions are generated from cann/abi/hccl.yaml into hccl/api.h.
#pragma once

#include "acl/types.h"

typedef void* HcclComm;
typedef void* HcclCommSymWindow;
typedef void* LcalCommPtr;

typedef struct HcclRootInfo {
  char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

// The caller's own sizeof and version stand at the head of `reserved` (size_t size; uint32_t magic; uint32_t version; ...):
// only fields that lie inside that size may be read.
typedef struct HcclCommConfig {
  char reserved[HCCL_COMM_CONFIG_INFO_BYTES];
  uint32_t hcclBufferSize;
  uint32_t hcclDeterministic;
  char hcclCommName[COMM_NAME_MAX_LENGTH];
  char hcclUdi[UDI_MAX_LENGTH];
  uint32_t hcclOpExpansionMode;
  uint32_t hcclRdmaTrafficClass;
  uint32_t hcclRdmaServiceLevel;
  uint32_t hcclWorldRankID;
  uint64_t hcclJobID;
  uint8_t aclGraphZeroCopyEnable;
  int32_t hcclExecTimeOut;
  char hcclAlgo[HCCL_COMM_ALGO_MAX_LENGTH];
  char hcclRetryEnable[HCCL_COMM_RETRY_ENABLE_MAX_LENGTH];
  char hcclRetryParams[HCCL_COMM_RETRY_PARAMS_MAX_LENGTH];
  char hcclBufferName[BUFFER_NAME_MAX_LENGTH];
  uint32_t hcclQos;
} HcclCommConfig;

typedef struct HcclSendRecvItem {
  HcclSendRecvType sendRecvType;
  void* buf;
  uint64_t count;
  HcclDataType dataType;
  uint32_t remoteRank;
} HcclSendRecvItem;

typedef union HcclConfigValue {
  int32_t value;
} HcclConfigValue;

// Not CANN's: what the software NPU takes as HcclConfig in HcclSetCommConfig and HcclGetCommConfig. How long the communicator's calls
// wait for other ranks, in milliseconds, 0 for ever; it holds for those that wait already. CANN's library refuses the number.
#define ANYCEND_HCCL_EXEC_TIMEOUT_MS 0x414e0001u

#ifdef __cplusplus
static_assert(sizeof(HcclRootInfo) == 4108 && alignof(HcclRootInfo) == 1);
static_assert(sizeof(HcclCommConfig) == 2232 && alignof(HcclCommConfig) == 8);
static_assert(offsetof(HcclCommConfig, hcclBufferSize) == 24 && offsetof(HcclCommConfig, hcclCommName) == 32 &&
              offsetof(HcclCommConfig, hcclUdi) == 160 && offsetof(HcclCommConfig, hcclOpExpansionMode) == 288 &&
              offsetof(HcclCommConfig, hcclWorldRankID) == 300 && offsetof(HcclCommConfig, hcclJobID) == 304 &&
              offsetof(HcclCommConfig, aclGraphZeroCopyEnable) == 312 &&
              offsetof(HcclCommConfig, hcclExecTimeOut) == 316 && offsetof(HcclCommConfig, hcclAlgo) == 320 &&
              offsetof(HcclCommConfig, hcclRetryEnable) == 1920 && offsetof(HcclCommConfig, hcclRetryParams) == 1970 &&
              offsetof(HcclCommConfig, hcclBufferName) == 2098 && offsetof(HcclCommConfig, hcclQos) == 2228);
static_assert(sizeof(HcclSendRecvItem) == 32 && offsetof(HcclSendRecvItem, buf) == 8 &&
              offsetof(HcclSendRecvItem, count) == 16 && offsetof(HcclSendRecvItem, dataType) == 24 &&
              offsetof(HcclSendRecvItem, remoteRank) == 28);
#endif
