// A matrix in the order in which a product of a few rows with it reads it, packed once and used at each step of a sequence:
// a library packs it anew at each call, and starts its threads. One thread multiplies; several may share a Panel.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

template <class T>  // float, double
class Panel {
 public:
  // [k, n], of any strides and any floating type. A bf16 matrix is multiplied by the processor's bf16 products if it has
  // them, with `a` rounded to bf16.
  explicit Panel(const at::Tensor& matrix);

  int64_t padded_columns() const noexcept { return columns_; }
  // c[rows, padded_columns()] += a[rows, k] * matrix; rows of `a` start every `stride` elements. The columns from n on become
  // nothing of use.
  void multiply_add(const T* a, int64_t stride, int64_t rows, T* c) const;

  static constexpr int64_t kWidth = 128 / sizeof(T);  // columns a panel: two registers of AVX-512

 private:
  at::Tensor packed_;  // [columns / kWidth, k, kWidth]; bf16: [columns / kWidth, k / 2, kWidth, 2]
  int64_t depth_, columns_;
  bool brain_;
};

}  // namespace softnpu::ops::kernels
