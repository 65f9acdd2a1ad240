// Backward operators and old names of the vendor's that are compositions of PyTorch's operators. Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

Pair depthwise_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        std::array<bool, 2> mask);
at::Tensor renorm_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Scalar& p, int64_t dim,
                           const at::Scalar& most);
at::Tensor complex_to_real_gradient(const at::Tensor& grad, at::IntArrayRef dim, int64_t normalization);
at::Tensor real_to_complex_gradient(const at::Tensor& grad, at::IntArrayRef dim, int64_t normalization, bool onesided,
                                    int64_t last);
at::Tensor stft_gradient(const at::Tensor& grad, const at::Tensor& input, int64_t n_fft, std::optional<int64_t> hop,
                         std::optional<int64_t> length, const OptionalTensor& window, bool normalized,
                         std::optional<bool> onesided, std::optional<bool> complex);
Triple matmul_second_gradient(const OptionalTensor& grad_self, const OptionalTensor& grad_other, const at::Tensor& grad,
                              const at::Tensor& self, const at::Tensor& other);
at::Tensor repeats_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& repeats,
                            std::optional<int64_t> dim);
at::Tensor product_gradient(const at::Tensor& a, const at::Tensor& b, c10::SymIntArrayRef size);
at::Tensor quantized(const at::Tensor& input, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
                     at::ScalarType type);

// Elements by begin, end and stride of each dimension; a set bit of a mask ignores a begin or an end, adds a dimension or takes one away.
struct IndexMasks {
  int64_t begin, end, ellipsis, new_axis, shrink;
};
at::Tensor strided_elements(const at::Tensor& input, at::IntArrayRef begin, at::IntArrayRef end,
                            at::IntArrayRef strides, IndexMasks masks);
at::Tensor sign_bits(const at::Tensor& input, int64_t rows);
at::Tensor signs_of_bits(const at::Tensor& input, int64_t rows, at::ScalarType type);

// Steps of Adam in place on {var, m, v}.
struct AdamStep {
  const at::Scalar &lr, &beta1, &beta2, &epsilon;
};
Triple adam_in_place(const AdamStep& step, const at::Scalar& power1, const at::Scalar& power2, const at::Tensor& grad,
                     bool nesterov, at::TensorList out);
Triple adam_w_in_place(const AdamStep& step, const at::Scalar& power1, const at::Scalar& power2,
                       const at::Scalar& decay, const at::Tensor& grad, const OptionalTensor& max_norm, bool amsgrad,
                       bool maximize, at::TensorList out);
Triple bert_adam_in_place(const AdamStep& step, const at::Tensor& grad, const at::Scalar& max_norm,
                          const at::Scalar& decay, const std::optional<at::Scalar>& step_size, int64_t mode,
                          at::TensorList out);
Triple needs_out(const char* op);  // the form without out has nothing to change

}  // namespace npu::ops
