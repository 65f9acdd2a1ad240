// See panel.h.
#include "softnpu/ops/panel.h"

#include <ATen/ops/zeros.h>

#include <type_traits>
#include <vector>

#include "softnpu/ops/panel_rows.h"

namespace softnpu::ops::kernels {

template <class T>
Panel<T>::Panel(const at::Tensor& matrix) : depth_(matrix.size(0)) {
  const int64_t n = matrix.size(1);
  columns_ = (n + kWidth - 1) / kWidth * kWidth;
  brain_ = matrix.scalar_type() == at::kBFloat16 && depth_ % 2 == 0 && brain_products() != nullptr;
  at::Tensor padded = brain_ ? matrix : matrix.to(c10::CppTypeToScalarType<T>::value);
  if (n != columns_) {
    padded = at::zeros({depth_, columns_}, padded.options());
    padded.narrow(1, 0, n).copy_(matrix);
  }
  const int64_t panels = columns_ / kWidth;
  packed_ = brain_ ? padded.reshape({depth_ / 2, 2, panels, kWidth}).permute({2, 0, 3, 1}).contiguous()
                   : padded.reshape({depth_, panels, kWidth}).transpose(0, 1).contiguous();
}

template <class T>
void Panel<T>::multiply_add(const T* a, int64_t stride, int64_t rows, T* c) const {
  if constexpr (std::is_same_v<T, float>) {
    if (brain_) {
      const BrainProducts& brain = *brain_products();
      std::vector<uint16_t> rounded(rows * depth_);
      for (int64_t r = 0; r < rows; r++) brain.round(a + r * stride, depth_, &rounded[r * depth_]);
      const auto* panel = static_cast<const uint16_t*>(packed_.const_data_ptr());
      for (int64_t column = 0; column < columns_; column += kWidth, panel += depth_ * kWidth) {
        brain.multiply(rounded.data(), depth_, rows, panel, depth_ / 2, c + column, columns_);
      }
      return;
    }
  }
  static const auto multiply = multiply_rows<T>();
  const T* panel = packed_.const_data_ptr<T>();
  for (int64_t column = 0; column < columns_; column += kWidth, panel += depth_ * kWidth) {
    multiply(a, stride, rows, panel, depth_, c + column, columns_);
  }
}

template class Panel<float>;
template class Panel<double>;

}  // namespace softnpu::ops::kernels
