// What an operator of ops/npu.yaml returns, said once for the device's kernel and for the meta kernel: sizes, which may be symbolic, and
// a dtype. What it is not: a tensor; generated code makes it, on the device or on "meta". Who uses it: `out:` of the table's rows, and what
// tools/codegen/custom.py writes for users: this header is installed, so it includes ours by relative paths alone.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/DimVector.h>

#include <initializer_list>
#include <optional>

#include "../../cann/export.h"

namespace npu::ops {

using Sizes = c10::SymDimVector;
using OptionalTensor = std::optional<at::Tensor>;

struct Result {
  Sizes sizes;
  at::ScalarType type;
};

NPU_API at::Tensor on_device(const Result& result);
NPU_API at::Tensor on_meta(const Result& result);

// Contiguous, with the tensor's sizes, and its dtype or another.
NPU_API Result like(const at::Tensor& tensor);
NPU_API Result like(const at::Tensor& tensor, at::ScalarType type);
NPU_API Result sized(std::initializer_list<c10::SymInt> sizes, at::ScalarType type);
NPU_API Result sized(const Sizes& sizes, at::ScalarType type);
NPU_API Result nothing(at::ScalarType type);  // a result that was not asked for: no elements
NPU_API Result absent();                      // a result that is None

// Sizes.
NPU_API Sizes sizes_of(const at::Tensor& tensor);
NPU_API Sizes with_size(const at::Tensor& tensor, int64_t dim, const c10::SymInt& size);
NPU_API Sizes without_last(const at::Tensor& tensor, int64_t count = 1);
NPU_API Sizes halved(const at::Tensor& tensor, int64_t dim);  // the dimension is two halves, of which one is left
NPU_API Sizes reduced(const at::Tensor& tensor,
                      const at::Tensor& gamma);               // the dimensions of gamma, the last ones, become 1
NPU_API int64_t wrap(const at::Tensor& tensor, int64_t dim);  // a negative dimension counts from the end

inline bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

}  // namespace npu::ops
