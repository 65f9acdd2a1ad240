// What CANN's operators that hold a collective ask of libhccl: the communicator of a name (docs/adr/0009-operators-find-their-group-by-name.md).
// What it is not: what plugins call (hccl/api.h), so it has no row in cann/abi/hccl.yaml. Who calls it: libopapi, by name.
#pragma once

#include "hccl/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// The name is that of HcclGetCommName; of several ranks in the process that share it, the one on the thread's current device.
HcclResult HcomGetCommHandleByGroup(const char* group, HcclComm* commHandle);

#ifdef __cplusplus
}
#endif
