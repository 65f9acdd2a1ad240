// MX quantization: blocks of numbers with a power of two each, kept as its exponent in a byte (float8_e8m0fnu), and elements of 8-bit or, two in
// a byte, of 4-bit floating types; and what ends with it. Arithmetic is fp32. Functions that begin with `need` are phase one's: they look at
// sizes, types and numbers alone. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// How blocks are scaled: `alg` 0 by the largest exponent, 1 so that nothing is above the type's largest number, 2 so for another number.
struct MxForm {
  std::string_view round{};
  int64_t type = 0;  // a number of aclDataType; 0: the result's own
  int64_t alg = 0;
  double largest = 0;
  double least = 0;  // of a block's largest magnitude
  int64_t block = 32;
};

// -- mx.cpp: blocks along a dimension, along the last two, of 32 x 32, in two levels; and back
void need_mx(const at::Tensor& x, int64_t axis, const MxForm& form, const at::Tensor& y, const at::Tensor& scale);
void mx_quant(const at::Tensor& x, int64_t axis, const MxForm& form, at::Tensor& y, at::Tensor& scale);
void need_mx_twice(const at::Tensor& x, const MxForm& form, const at::Tensor& y1, const at::Tensor& scale1,
                   const at::Tensor& y2, const at::Tensor& scale2);
void mx_quant_twice(const at::Tensor& x, const MxForm& form, at::Tensor& y1, at::Tensor& scale1, at::Tensor& y2,
                    at::Tensor& scale2);
void need_mx_squares(const at::Tensor& x, const MxForm& form, const at::Tensor& y, const at::Tensor& scale1,
                     const at::Tensor& scale2);
void mx_quant_squares(const at::Tensor& x, const MxForm& form, at::Tensor& y, at::Tensor& scale1, at::Tensor& scale2);
struct MxLevels {
  const Maybe& smooth;
  int64_t level0, level1;
};
void need_mx_levels(const at::Tensor& x, const MxLevels& levels, const MxForm& form, const at::Tensor& y,
                    const at::Tensor& level0, const at::Tensor& level1);
void mx_quant_levels(const at::Tensor& x, const MxLevels& levels, const MxForm& form, at::Tensor& y, at::Tensor& level0,
                     at::Tensor& level1);
void need_mx_values(const at::Tensor& x, const at::Tensor& scale, int64_t axis, int64_t type, const at::Tensor& y);
void mx_values(const at::Tensor& x, const at::Tensor& scale, int64_t axis, at::Tensor& y);

// -- mx_groups.cpp: blocks that begin anew with each group of rows
void need_mx_groups(const at::Tensor& x, const at::Tensor& ends, const MxForm& form, const at::Tensor& y,
                    const at::Tensor& scale);
void mx_quant_groups(const at::Tensor& x, const at::Tensor& ends, const MxForm& form, at::Tensor& y, at::Tensor& scale);
struct BlockForm {  // without powers of two
  double least = 0;
  std::string_view round{};
  int64_t type = 0;
  int64_t rows = 1, columns = 128, list = 0;
  double largest = 0;
};
void need_block_groups(const at::Tensor& x, const at::Tensor& ends, const BlockForm& form, const at::Tensor& y,
                       const at::Tensor& scale);
void block_quant_groups(const at::Tensor& x, const at::Tensor& ends, const BlockForm& form, at::Tensor& y,
                        at::Tensor& scale);

// -- mx_norm.cpp: behind RMS normalization, of a sum where `x2` is given; behind products with small matrices
struct MxNorm {
  const at::Tensor& gamma;
  const Maybe& beta;
  double eps;
  bool rstd;  // whether 1 / rms is wanted
};
void need_mx_norm(const at::Tensor& x1, const Maybe& x2, const MxNorm& norm, const MxForm& form, const at::Tensor& y,
                  const at::Tensor& sum, const at::Tensor& scale, const at::Tensor& rstd);
void mx_norm(const at::Tensor& x1, const Maybe& x2, const MxNorm& norm, const MxForm& form, at::Tensor& y,
             at::Tensor& sum, at::Tensor& scale, at::Tensor& rstd);
struct Rotation {
  const Maybe& alpha;
  int64_t axis;
  bool turned;
};
void need_rotated(const at::Tensor& x, const at::Tensor& rotation, const Rotation& how, const MxForm& form,
                  const at::Tensor& y, const at::Tensor& scale);
void rotated_quant(const at::Tensor& x, const at::Tensor& rotation, const Rotation& how, const MxForm& form,
                   at::Tensor& y, at::Tensor& scale);
void need_kronecker(const at::Tensor& x, const at::Tensor& left, const at::Tensor& right, double clip, double largest,
                    const at::Tensor& y, const at::Tensor& scale);
void kronecker_quant(const at::Tensor& x, const at::Tensor& left, const at::Tensor& right, double clip, double largest,
                     at::Tensor& y, at::Tensor& scale);

// -- mx_gate.cpp: behind a gate, and behind its gradient
struct MxGate {
  int64_t dim = -1;
  bool left = false;
  int64_t mode = 0;
  double limit = 7, alpha = 1.702, bias = 1;
  int64_t group_mode = 0, axis = -1;
};
void need_mx_gate(const at::Tensor& x, const Maybe& groups, const MxGate& gate, const MxForm& form, const at::Tensor& y,
                  const at::Tensor& scale);
void mx_gate(const at::Tensor& x, const MxGate& gate, const MxForm& form, at::Tensor& y, at::Tensor& scale);
struct TwoAxes {
  at::Tensor &y1, &scale1, &y2, &scale2;
};
// Where it is not set, documents put the gradient of the second half first.
inline void need_left(bool left) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      left, "activateLeft false is not implemented: the documents leave open where its gradients lie");
}
// Of a gate where there is no gradient, of a gate's gradient where there is.
void need_mx_gate_twice(const at::Tensor& x, const Maybe& gradient, const Maybe& ends, const MxForm& form,
                        const TwoAxes& out);
void mx_gate_twice(const at::Tensor& x, const Maybe& gradient, const Maybe& ends, bool left, const MxForm& form,
                   const TwoAxes& out);
struct GroupGate {
  const Maybe &weight, &counts, &scale;
  int64_t type, mode, block;
  bool round;
  double limit, largest;
  bool origin;
};
void need_group_gate(const at::Tensor& x, const GroupGate& gate, const at::Tensor& y, const at::Tensor& scale,
                     const at::Tensor& origin);
void group_gate_quant(const at::Tensor& x, const GroupGate& gate, at::Tensor& y, at::Tensor& scale, at::Tensor& origin);
struct GroupGateGrad {
  const Maybe &weight, &origin, &counts;
  double limit;
};
void need_group_gate_backward(const at::Tensor& dy, const at::Tensor& x, const GroupGateGrad& gate,
                              const at::Tensor& dx, const at::Tensor& dweight);
void group_gate_backward(const at::Tensor& dy, const at::Tensor& x, const GroupGateGrad& gate, at::Tensor& dx,
                         at::Tensor& dweight);

}  // namespace softnpu::ops::kernels
