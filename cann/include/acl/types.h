// The types of CANN's C ABI: handles, structures and callbacks (enumerations are generated from cann/abi/enums.yaml).
// What it is not: functions; their declarations are generated from cann/abi/acl.yaml into acl/api.h.
// Who includes it: the software NPU's rooms and the plugin's csrc/cann. Written from the ABI's sizes and offsets, which are asserted here.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/enums.h"

typedef int aclError;
#ifndef CANN_ACLNN_STATUS
#define CANN_ACLNN_STATUS
typedef int32_t aclnnStatus;
#endif

// Handles are opaque: only the library that made one looks inside.
typedef void* aclrtContext;
typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtNotify;
typedef void* aclrtDrvMemHandle;
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;
typedef void* aclrtArgsHandle;
typedef void* aclrtParamHandle;
typedef void* aclrtTaskGrp;
typedef void* aclrtMemPool;
typedef void* aclrtMbuf;
typedef void* aclrtCntNotify;
typedef void* aclrtLabel;
typedef void* aclrtLabelList;
typedef void* aclmdlRI;
typedef void* aclmdlRITask;
typedef void* aclmdlRICondHandle;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclopAttr aclopAttr;
typedef struct aclprofConfig aclprofConfig;
typedef struct aclprofAicoreEvents aclprofAicoreEvents;
typedef struct aclprofStepInfo aclprofStepInfo;

typedef void (*aclrtCallback)(void* userData);
typedef void (*aclrtHostFunc)(void* args);

// What libprofapi's functions take; opaque here.
typedef void* VOID_PTR;
typedef struct MsprofApi MsprofApi;
typedef struct MsprofEvent MsprofEvent;
typedef int32_t (*ProfCommandHandle)(uint32_t type, void* data, uint32_t len);

typedef struct aclrtStreamConfigHandle {
  void* workptr;
  size_t workSize;
  size_t flag;
  uint32_t priority;
} aclrtStreamConfigHandle;

typedef struct aclrtMemLocation {
  uint32_t id;
  aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct aclrtPtrAttributes {
  aclrtMemLocation location;
  uint32_t pageSize;
  uint32_t rsv[4];
} aclrtPtrAttributes;

typedef struct aclrtPhysicalMemProp {
  aclrtMemHandleType handleType;
  aclrtMemAllocationType allocationType;
  aclrtMemAttr memAttr;
  aclrtMemLocation location;
  uint64_t reserve;
} aclrtPhysicalMemProp;

typedef struct aclrtMemAccessDesc {
  aclrtMemAccessFlags flags;
  aclrtMemLocation location;
  uint8_t rsv[12];
} aclrtMemAccessDesc;

typedef struct aclrtMemUsageInfo {
  char name[32];
  uint64_t curMemSize;
  uint64_t memPeakSize;
  size_t reserved[8];
} aclrtMemUsageInfo;

typedef struct aclrtUtilizationInfo {
  int32_t cubeUtilization;
  int32_t vectorUtilization;
  int32_t aicpuUtilization;
  int32_t memoryUtilization;
  void* utilizationExtend;
} aclrtUtilizationInfo;

typedef union aclrtStreamAttrValue {
  uint64_t failureMode;
  uint32_t overflowSwitch;
  uint32_t userCustomTag;
  uint32_t cacheOpInfoSwitch;
  uint32_t streamPriority;
  uint32_t reserve[4];
} aclrtStreamAttrValue;

typedef struct aclrtUuid {
  char bytes[16];
} aclrtUuid;

typedef struct aclrtIpcEventHandle {
  char reserved[64];
} aclrtIpcEventHandle;

typedef struct aclrtMemFabricHandle {
  uint8_t data[128];
} aclrtMemFabricHandle;

typedef struct aclCANNPackageVersion {
  char version[128];
  char majorVersion[64];
  char minorVersion[64];
  char releaseVersion[64];
  char patchVersion[64];
  char reserved[128];
} aclCANNPackageVersion;

typedef struct aclrtMemUceInfo {
  void* addr;
  size_t len;
  size_t reserved[14];
} aclrtMemUceInfo;

// `detail` is opaque here: no memory or core of ours reports hardware errors.
typedef struct aclrtErrorInfo {
  uint8_t tryRepair;
  uint8_t hasDetail;
  uint8_t reserved[2];
  aclrtErrorType errorType;
  uint64_t detail[321];
} aclrtErrorInfo;

typedef struct aclrtMemcpyBatchAttr {
  aclrtMemLocation dstLoc;
  aclrtMemLocation srcLoc;
  uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

typedef struct aclrtMallocAttribute {
  aclrtMallocAttrType attr;
  uint32_t value[2];
} aclrtMallocAttribute;

typedef struct aclrtMallocConfig {
  aclrtMallocAttribute* attrs;
  size_t numAttrs;
} aclrtMallocConfig;

#ifdef __cplusplus
static_assert(sizeof(aclrtStreamConfigHandle) == 32);
static_assert(sizeof(aclrtMemLocation) == 8);
static_assert(sizeof(aclrtPtrAttributes) == 28);
static_assert(sizeof(aclrtPhysicalMemProp) == 32 && offsetof(aclrtPhysicalMemProp, reserve) == 24);
static_assert(sizeof(aclrtMemAccessDesc) == 24);
static_assert(sizeof(aclrtMemUsageInfo) == 112);
static_assert(sizeof(aclrtUtilizationInfo) == 24);
static_assert(sizeof(aclrtStreamAttrValue) == 16);
static_assert(sizeof(aclrtUuid) == 16);
static_assert(sizeof(aclrtIpcEventHandle) == 64);
static_assert(sizeof(aclCANNPackageVersion) == 512 && offsetof(aclCANNPackageVersion, reserved) == 384);
static_assert(sizeof(aclrtMemUceInfo) == 128);
static_assert(sizeof(aclrtErrorInfo) == 2576 && offsetof(aclrtErrorInfo, detail) == 8);
static_assert(sizeof(aclrtMemcpyBatchAttr) == 32);
static_assert(sizeof(aclrtMallocAttribute) == 12);
static_assert(sizeof(aclrtMallocConfig) == 16);
#endif
