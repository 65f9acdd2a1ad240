// See panel_rows.h. 32 registers of 16 bytes hold the sums of two rows and what is added to them.
#include "softnpu/ops/panel_rows.h"

namespace softnpu::ops::kernels {

template <class T>
MultiplyRows<T> multiply_rows() {
  return &all_rows<T, 2>;
}
template MultiplyRows<float> multiply_rows<float>();
template MultiplyRows<double> multiply_rows<double>();

const BrainProducts* brain_products() { return nullptr; }

}  // namespace softnpu::ops::kernels
