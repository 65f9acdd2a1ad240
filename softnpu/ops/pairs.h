// Moves of 4-bit floats, of which a byte holds two along a dimension: kernels move the bytes, and what would part a pair is refused. Functions
// that begin with `need` are phase one's, of calls with such operands. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
// What it is not: numbers made of elements and elements of numbers (mx_blocks.h).
#pragma once

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

inline bool is_pairs(at::ScalarType type) {
  return type == at::ScalarType::Float4_e2m1fn_x2 || type == at::ScalarType::Bits4x2;
}
inline bool is_pairs(const Tensor& t) { return is_pairs(t.scalar_type()); }

// Elements to numbers of another type.
void need_cast(const Tensor& self, const Tensor& out);
void cast(const Tensor& self, Tensor& out);
void need_same_pairs(const Tensor& from, const Tensor& to);
void copy_pairs(const Tensor& from, Tensor& to);
// A weight of 4-bit floats, [.., inner, columns] of which columns lie one after the other, its scales of 32 inner numbers and the bias, for a product
// with activations of these types. Memory of the software NPU is ND, so they are copies.
struct PreparedFor {
  at::ScalarType x, x_scale;
  int64_t group;
};
struct Prepared {
  const Tensor &weight, &scale, &offset, &bias;
};
void need_prepared(const Tensor& weight, const Tensor& scale, const OptionalTensor& offset, const OptionalTensor& bias,
                   const PreparedFor& product, const Prepared& out);
void copy_prepared(const Tensor& weight, const Tensor& scale, const OptionalTensor& bias, Tensor& out_weight,
                   Tensor& out_scale, Tensor& out_bias);
void need_joined_pairs(at::TensorList tensors, const Tensor& out);
void join(at::TensorList tensors, int64_t dim, Tensor& out);
void need_padded_pairs(const Tensor& self, IntArrayRef pad, const Scalar& value, const Tensor& out);
void pad(const Tensor& self, IntArrayRef pad, const Scalar& value, Tensor& out);

}  // namespace softnpu::ops::kernels
