// HcclCommInitRootInfoConfig, which blocks until all ranks have come or its time is over, in a thread of its own: so that whoever
// calls it can be told meanwhile that the group has ended. Who calls it: communicator.cpp.
#pragma once

#include <hccl/types.h>

#include "csrc/distributed/meeting.h"

namespace npu::distributed {

// On the current device, as number `meeting.me` of `meeting.ranks`. Throws what the call failed with, what `meeting.usable` throws, or
// DistBackendError some seconds after `meeting.limit`; then what the call still comes to is destroyed.
HcclComm initialized(const Meeting& meeting, const HcclRootInfo& info, const HcclCommConfig& config);

}  // namespace npu::distributed
