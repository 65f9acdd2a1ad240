// Old operators on parts of tensors: ranges that are filled, sequences that are normalized, channels that are added, a random choice, the search
// for a scale. Compositions of PyTorch's operators. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

at::Tensor filled_ranges(const at::Tensor& input, const at::Tensor& begin, const at::Tensor& end,
                         const at::Tensor& value, int64_t axis);
at::Tensor normalized_sequences(const at::Tensor& input, const at::Tensor& lengths, int64_t kind);
at::Tensor added_channels(const at::Tensor& a, const at::Tensor& b, const at::Scalar& from_a, const at::Scalar& from_b,
                          const at::Scalar& blocks);
Pair random_choice(const at::Tensor& x, int64_t count, int64_t seed, int64_t seed2);

struct ScaleSearch {
  double low_part, high_part, begin, end, step;
  bool offset;
};
Pair searched_scale(const at::Tensor& data, const at::Tensor& least, const at::Tensor& most, const at::Tensor& cumsum,
                    const ScaleSearch& search);

}  // namespace npu::ops
