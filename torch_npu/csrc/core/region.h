// Where an allocation lies in what CANN gave to the allocator: what another process must map to see it.
// Who calls it: sharing.cpp, and allocator.cpp, which defines it.
#pragma once

#include <c10/core/Allocator.h>

#include <vector>

#include "acl/types.h"

namespace npu {

struct Region {
  char* base = nullptr;
  size_t bytes = 0;
  std::vector<aclrtDrvMemHandle> pieces;  // of an expandable segment, of equal size; empty: one block of CANN's
};

// Of [data, data + bytes). Throws c10::Error for memory that is not of the allocator.
Region region_of(const c10::DataPtr& data, size_t bytes);

}  // namespace npu
