// From an exported function to a task on a stream: checks, groups, tickets.
// Who calls it: the collectives' exports. What it is not: the work (execute.cpp).
#pragma once

#include <utility>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/schedule.h"
#include "softnpu/runtime/enqueue.h"

#define HCCL_EXPORT extern "C" SOFTNPU_API

namespace softnpu::hccl {

// Handles are numbers that are never used again: a stale one is an error, not a crash.
HcclComm publish(CommunicatorPtr communicator);
CommunicatorPtr lookup(HcclComm handle);  // throws HCCL_E_PARA
// Of a collective with a root, which must be one of its ranks; and whether this rank is it.
std::pair<CommunicatorPtr, bool> lookup(HcclComm handle, uint32_t root);
CommunicatorPtr withdraw(HcclComm handle);
// The one of this name whose rank in this process is on `device`: ranks that are threads share the name. Throws HCCL_E_PARA, where calls
// of the thread's open group are held back (group_start) HCCL_E_NOT_SUPPORT.
HcclComm find_named(const char* name, int device);

// Queue it now, or at the end of the calling thread's group. A buffer of which there are bytes must not be null.
void submit(HcclComm handle, aclrtStream stream, Call call);
void submit(HcclComm handle, aclrtStream stream, std::vector<Transfer> transfers, const char* name);

void group_start();
void group_end();  // throws the first error of the group's calls

// Checks that the collectives share.
uint64_t bytes_of(uint64_t count, HcclDataType type, uint64_t times = 1);  // of counts and displacements: at most 2^47
void require_buffer(const void* pointer, uint64_t bytes, const char* name);
void require_root(const Communicator& communicator, uint32_t root, const char* name);
void require_reducible(HcclDataType type, HcclReduceOp op);

}  // namespace softnpu::hccl
