// What the software NPU's libhccl exports beyond CANN: a barrier whose time limit is said when its stream comes to it. What it is not: CANN's
// ABI (hccl/api.h). Who calls it: libopapi.so, which looks it up as it does CANN's own (ADR 9).
#pragma once

#include <stdint.h>

#include "hccl/types.h"

// What stands for a limit beside milliseconds, which are positive: that of the communicator; and that the call is passed over, in which
// this rank neither waits nor says that it has come.
#define ANYCEND_HCCL_OWN_LIMIT 0
#define ANYCEND_HCCL_NOT_ENTERED (-1)

#ifdef __cplusplus
extern "C" {
#endif

// `limit_ms` is device memory, read when the barrier runs, and holds for this call alone.
HcclResult softnpuHcclBarrierWithin(HcclComm comm, const int64_t* limit_ms, aclrtStream stream);

#ifdef __cplusplus
}
#endif
