// How far the device memory behind a pointer reaches, for the software NPU's other libraries to check what their callers ask for.
// What it is not: the check of kernels' pointers (enqueue.h, ANYCEND_CHECK); that one also says whose device it is.
// Who calls it: hccl, once a buffer; ascendc, where kernels are checked; operators of addresses in memory; the runtime.
#pragma once

#include <cstdint>

#include "softnpu/runtime/enqueue.h"

namespace softnpu {

constexpr uint64_t kHostMemory = UINT64_MAX;

// Bytes of device memory from `pointer` to the end of its allocation, or of what is mapped there without a gap. 0: it was freed, or is
// reserved and not mapped. kHostMemory: not the device's, its end is not known. Thread-safe; the cost of a lookup.
SOFTNPU_API uint64_t device_bytes_from(const void* pointer) noexcept;

}  // namespace softnpu
