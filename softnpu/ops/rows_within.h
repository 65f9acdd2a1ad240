// The refusal of rows beyond the end of a dimension, in PyTorch's words. Who uses it: kernels that write or read rows at a place that
// a tensor names, which only the stream knows.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>

namespace softnpu::ops::kernels {

inline void check_rows_within(int64_t start, int64_t count, int64_t dim, int64_t size) {
  TORCH_CHECK(start >= 0 && start < size + (count == 0), "index ", start, " is out of bounds for dimension ", dim,
              " with size ", size);
  TORCH_CHECK(count <= size - start, "index ", start, " and the ", count, " rows from there on are out of bounds for ",
              "dimension ", dim, " with size ", size);
}

}  // namespace softnpu::ops::kernels
