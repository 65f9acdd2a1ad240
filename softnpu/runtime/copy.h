// Copies and fills, now or in a stream's order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/types.h"

namespace softnpu {

class Stream;

struct CopyRequest {
  void* dst;
  const void* src;
  size_t width;   // bytes of a row
  size_t height;  // 1: a plain copy
  size_t dst_pitch;
  size_t src_pitch;
};

// Both check their arguments and throw; `stream` null copies before returning, in no stream's order.
void copy(const CopyRequest& request, aclrtMemcpyKind kind, Stream* stream);
void fill(void* dst, size_t limit, int value, size_t count, Stream* stream);

}  // namespace softnpu
