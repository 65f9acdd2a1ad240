// What CANN would allocate for a tensor in one of its formats. Here memory stays ND, and the sizes are reported only.
// Who calls it: format.cpp.
#pragma once

#include <c10/core/SymIntArrayRef.h>

#include <vector>

#include "acl/types.h"

namespace npu::ops {

// ND where CANN keeps such a tensor ND: FRACTAL_NZ of fewer than two dimensions. ValueError for a number that is no format, and for a
// format that a tensor of so many dimensions cannot have.
aclFormat checked_format(int64_t format, c10::SymIntArrayRef sizes);

// Of a format that checked_format returned; elements of `itemsize` bytes.
std::vector<int64_t> padded_sizes(aclFormat format, c10::IntArrayRef sizes, size_t itemsize);

}  // namespace npu::ops
