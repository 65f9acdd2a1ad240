// Resizing the memory behind a tensor. Who calls it: hooks.cpp (resize_, UntypedStorage.resize_).
#pragma once

#include <c10/core/Storage.h>

namespace npu {

// The storage keeps its first bytes; the copy is ordered on the current stream. It is described as one dimension in the format ND.
void resize_storage(const c10::Storage& storage, size_t bytes);

}  // namespace npu
