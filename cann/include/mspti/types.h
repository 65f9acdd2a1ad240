// The types of libmspti's and libms_tools_ext's C ABI: kinds, the records of activities as they lie in a buffer (packed, a multiple
// of 8 bytes each), callbacks. Functions are generated from cann/abi/mspti.yaml.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl/types.h"

typedef enum msptiResult {
  MSPTI_SUCCESS = 0,
  MSPTI_ERROR_INVALID_PARAMETER = 1,
  MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 2,
  MSPTI_ERROR_MAX_LIMIT_REACHED = 3,
  MSPTI_ERROR_DEVICE_OFFLINE = 4,
  MSPTI_ERROR_QUEUE_EMPTY = 5,
  MSPTI_ERROR_INNER = 999,
} msptiResult;

typedef enum msptiActivityKind {
  MSPTI_ACTIVITY_KIND_INVALID = 0,
  MSPTI_ACTIVITY_KIND_MARKER = 1,
  MSPTI_ACTIVITY_KIND_KERNEL = 2,
  MSPTI_ACTIVITY_KIND_API = 3,
  MSPTI_ACTIVITY_KIND_HCCL = 4,
  MSPTI_ACTIVITY_KIND_MEMORY = 5,
  MSPTI_ACTIVITY_KIND_MEMSET = 6,
  MSPTI_ACTIVITY_KIND_MEMCPY = 7,
  MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 8,
  MSPTI_ACTIVITY_KIND_COMMUNICATION = 9,
  MSPTI_ACTIVITY_KIND_ACL_API = 10,
  MSPTI_ACTIVITY_KIND_NODE_API = 11,
  MSPTI_ACTIVITY_KIND_RUNTIME_API = 12,
  // The software NPU's own, far from CANN's: the tensors of a kernel. Another libmspti refuses to enable it.
  SOFTNPU_ACTIVITY_KIND_TENSORS = 4096,
} msptiActivityKind;

typedef enum msptiExternalCorrelationKind {
  MSPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
  MSPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN = 1,
  MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 2,
  MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1 = 3,
  MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 = 4,
  MSPTI_EXTERNAL_CORRELATION_KIND_SIZE = 5,
} msptiExternalCorrelationKind;

typedef enum msptiActivityFlag {
  MSPTI_ACTIVITY_FLAG_NONE = 0,
  MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS = 1,
  MSPTI_ACTIVITY_FLAG_MARKER_START = 2,
  MSPTI_ACTIVITY_FLAG_MARKER_END = 4,
  MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS_WITH_DEVICE = 8,
  MSPTI_ACTIVITY_FLAG_MARKER_START_WITH_DEVICE = 16,
  MSPTI_ACTIVITY_FLAG_MARKER_END_WITH_DEVICE = 32,
} msptiActivityFlag;

typedef enum msptiActivitySourceKind {
  MSPTI_ACTIVITY_SOURCE_KIND_HOST = 0,
  MSPTI_ACTIVITY_SOURCE_KIND_DEVICE = 1,
} msptiActivitySourceKind;

typedef enum msptiActivityMemcpyKind {
  MSPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN = 0,
  MSPTI_ACTIVITY_MEMCPY_KIND_HOST = 1,
  MSPTI_ACTIVITY_MEMCPY_KIND_HTOD = 2,
  MSPTI_ACTIVITY_MEMCPY_KIND_DTOH = 3,
  MSPTI_ACTIVITY_MEMCPY_KIND_DTOD = 4,
  MSPTI_ACTIVITY_MEMCPY_KIND_DEFAULT = 5,
} msptiActivityMemcpyKind;

typedef struct msptiSubscriber_st* msptiSubscriberHandle;
typedef int msptiCallbackDomain;
typedef uint32_t msptiCallbackId;
typedef struct msptiCallbackData msptiCallbackData;
typedef void (*msptiCallbackFunc)(void* userdata, msptiCallbackDomain domain, msptiCallbackId cbid,
                                  const msptiCallbackData* cbdata);
typedef void (*msptiBuffersCallbackRequestFunc)(uint8_t** buffer, size_t* size, size_t* maxNumRecords);
typedef void (*msptiBuffersCallbackCompleteFunc)(uint8_t* buffer, size_t size, size_t validSize);

#define MSPTI_RECORD __attribute__((packed, aligned(8)))

typedef struct MSPTI_RECORD msptiActivity {
  msptiActivityKind kind;
} msptiActivity;

typedef struct MSPTI_RECORD msptiActivityMarker {
  msptiActivityKind kind;
  msptiActivityFlag flag;
  msptiActivitySourceKind sourceKind;
  uint64_t timestamp;
  uint64_t id;
  union {
    struct {
      uint32_t processId;
      uint32_t threadId;
    } pt;
    struct {
      uint32_t deviceId;
      uint32_t streamId;
    } ds;
  } objectId;
  const char* name;
  const char* domain;
} msptiActivityMarker;

typedef struct MSPTI_RECORD msptiActivityKernel {
  msptiActivityKind kind;
  uint64_t start;
  uint64_t end;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
  uint64_t correlationId;
  const char* type;
  const char* name;
} msptiActivityKernel;

typedef struct MSPTI_RECORD msptiActivityApi {
  msptiActivityKind kind;
  uint64_t start;
  uint64_t end;
  struct {
    uint32_t processId;
    uint32_t threadId;
  } pt;
  uint64_t correlationId;
  const char* name;
} msptiActivityApi;

typedef struct MSPTI_RECORD msptiActivityHccl {
  msptiActivityKind kind;
  uint64_t start;
  uint64_t end;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
  double bandWidth;
  const char* name;
  const char* commName;
} msptiActivityHccl;

typedef struct MSPTI_RECORD msptiActivityMemset {
  msptiActivityKind kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t deviceId;
  uint32_t streamId;
  uint64_t correlationId;
  uint8_t isAsync;
} msptiActivityMemset;

typedef struct MSPTI_RECORD msptiActivityMemcpy {
  msptiActivityKind kind;
  msptiActivityMemcpyKind copyKind;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t deviceId;
  uint32_t streamId;
  uint64_t correlationId;
  uint8_t isAsync;
} msptiActivityMemcpy;

// Not packed.
typedef struct msptiActivityExternalCorrelation {
  msptiActivityKind kind;
  msptiExternalCorrelationKind externalKind;
  uint64_t externalId;
  uint64_t correlationId;
} msptiActivityExternalCorrelation;

typedef struct MSPTI_RECORD msptiActivityCommunication {
  msptiActivityKind kind;
  int dataType;  // an HcclDataType
  uint64_t count;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
  uint64_t start;
  uint64_t end;
  const char* algType;
  const char* name;
  const char* commName;
  uint64_t correlationId;
} msptiActivityCommunication;

// Of SOFTNPU_ACTIVITY_KIND_TENSORS: "2,3;3", "FLOAT;FLOAT", "ND;ND".
typedef struct MSPTI_RECORD softnpuActivityTensors {
  msptiActivityKind kind;
  uint64_t taskId;  // in its stream
  uint64_t correlationId;
  const char* inputShapes;
  const char* inputTypes;
  const char* inputFormats;
  const char* outputShapes;
  const char* outputTypes;
  const char* outputFormats;
} softnpuActivityTensors;

#undef MSPTI_RECORD

typedef uint64_t mstxRangeId;
typedef struct mstxDomainRegistration_st* mstxDomainHandle_t;
typedef struct mstxMemHeap_st* mstxMemHeapHandle_t;
typedef struct mstxMemRegion_st* mstxMemRegionHandle_t;

// Heaps that a program's allocator cuts into regions, for checkers of memory.
typedef enum { MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR = 0 } mstxMemHeapUsageType;
typedef enum { MSTX_MEM_TYPE_VIRTUAL_ADDRESS = 0 } mstxMemType;
typedef enum { MSTX_MEM_REGION_REF_TYPE_POINTER = 0, MSTX_MEM_REGION_REF_TYPE_HANDLE = 1 } mstxMemRegionRefType;

typedef struct {
  uint32_t deviceId;
  const void* ptr;
  uint64_t size;
} mstxMemVirtualRangeDesc_t;

typedef struct {
  mstxMemHeapUsageType usage;
  mstxMemType type;
  const void* typeSpecificDesc;  // a mstxMemVirtualRangeDesc_t
} mstxMemHeapDesc_t;

typedef struct {
  mstxMemHeapHandle_t heap;
  mstxMemType regionType;
  size_t regionCount;
  const void* regionDescArray;  // of mstxMemVirtualRangeDesc_t
  mstxMemRegionHandle_t* regionHandleArrayOut;
} mstxMemRegionsRegisterBatch_t;

typedef struct {
  mstxMemRegionRefType refType;
  union {
    const void* pointer;
    mstxMemRegionHandle_t handle;
  };
} mstxMemRegionRef_t;

typedef struct {
  size_t refCount;
  const mstxMemRegionRef_t* refArray;
} mstxMemRegionsUnregisterBatch_t;

#ifdef __cplusplus
static_assert(sizeof(msptiActivity) == 8 && sizeof(msptiActivityMarker) == 56 && sizeof(msptiActivityKernel) == 56,
              "a record of libmspti");
static_assert(sizeof(msptiActivityApi) == 48 && sizeof(msptiActivityHccl) == 56 && sizeof(msptiActivityMemset) == 56,
              "a record of libmspti");
static_assert(sizeof(msptiActivityMemcpy) == 56 && sizeof(msptiActivityExternalCorrelation) == 24 &&
                  sizeof(msptiActivityCommunication) == 72,
              "a record of libmspti");
#endif
