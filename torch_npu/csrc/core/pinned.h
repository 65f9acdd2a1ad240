// Pinned host memory: tensor.pin_memory(), DataLoader(pin_memory=True). A caching allocator on ATen's: a block used by a copy
// on a stream (record_event) is given out again only when the stream has passed it.
// Who calls it: PyTorch, by at::getHostAllocator(kPrivateUse1) and the hooks; its copies record their streams (csrc/ops/copy.cpp).
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "csrc/cann/export.h"

namespace npu {

NPU_API at::HostAllocator* pinned_allocator();

// Frees a block, as the deleter of its tensor does. A use that is not over keeps it (pinned_use.h).
void free_pinned(void* block);

// Is this address in pinned host memory (ours or any other CANN knows)? False before initialization.
bool is_pinned(const void* data);

}  // namespace npu
