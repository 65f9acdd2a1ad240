// Storages that other processes use: what torch.multiprocessing's queues carry. The memory is mapped by CANN's keys, never copied.
// It stays with its owner until all who received it have let go or died (shared_table.h); the owner gives it back to its cache at
// the next message, at ipc_collect, at empty_cache or before it is out of memory. A receiver keeps what it has when the owner dies.
// Who calls it: torch_npu.multiprocessing through csrc/python; the allocator. What it is not: what a message says in Python.
//
// Order: what was put on any stream before share_storage is done when it returns; what a receiver has put on streams is done before
// the memory goes back. Cost for programs that share nothing: none.
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/cann/export.h"

namespace npu {

// A message about the storage, good for one receiver. `channel` is the caller's name for the way it takes, for waiting_messages.
// Waits for the streams' work: without the GIL. A received storage may be sent on.
NPU_API std::string share_storage(const c10::Storage& storage, int64_t channel);
// The storage of a message: its own in the owner, one more view of the memory elsewhere; the same one while it is there. It is on the
// device that the memory is on, whatever its number here, where `device` is none or sent_device(); else on `device`, which then reads
// and writes the other's memory. Throws c10::Error when the owner has ended, or the message was received before; c10::ValueError for
// a device that is not there, and for another in the owner itself.
NPU_API c10::Storage receive_storage(std::string_view message, c10::DeviceIndex device = -1);
// The device that a message says, by the owner's number.
NPU_API c10::DeviceIndex sent_device(std::string_view message);

// Takes back what receivers have let go of. True if a storage's memory came back to the allocator.
NPU_API bool collect_shared() noexcept;
// Messages that nobody has received yet, as (slot, channel); and that nobody will.
NPU_API std::vector<std::pair<uint32_t, int64_t>> waiting_messages();
NPU_API void give_up_messages(const std::vector<uint32_t>& slots);
// How many messages are on their way or in use elsewhere.
NPU_API size_t outstanding_messages() noexcept;

// The allocator's own pointer inside one that was shared; null for any other.
const c10::DataPtr* shared_memory(const c10::DataPtr& data) noexcept;

}  // namespace npu
