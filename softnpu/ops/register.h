// A register of 64 bytes as the compiler's own vector: a processor that has smaller ones takes several for it.
#pragma once

namespace softnpu::ops::kernels {

template <class T>
struct Register;
template <>
struct Register<float> {
  using Type = float __attribute__((vector_size(64), aligned(4), may_alias));
};
template <>
struct Register<double> {
  using Type = double __attribute__((vector_size(64), aligned(8), may_alias));
};

}  // namespace softnpu::ops::kernels
