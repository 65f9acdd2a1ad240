// Kernels of types that CANN's documentation lists and ATen's kernel of the operator refuses: computed by the page's formula in a type
// that holds the numbers, and converted once. Of all other types they are ATen's. Who calls it: expressions of ops/aclnn.yaml that
// name it as their header. What it is not: a promotion of its own; results that documented conversions do not give are ATen's refusals.
#pragma once

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

// body(result) writes numbers that have fractions: into `out`, or, where `out` holds whole numbers or truth, into a tensor that is
// converted. The fraction is cut off; what is not zero is true.
template <class Body>
void in_floats(Tensor& out, const Body& body) {
  if (!at::isIntegralType(out.scalar_type(), /*includeBool=*/true)) return body(out);
  Tensor result = at::empty(out.sizes(), at::TensorOptions().dtype(at::kDouble));
  body(result);
  put(out, result);
}

// Booleans are the numbers 0 and 1, and of a difference or quotient true is what is not zero.
void subtract(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out);
void floor_divide(const Tensor& self, const Tensor& other, Tensor& out);
void addmv(const Tensor& self, const Tensor& matrix, const Tensor& vector, const Scalar& beta, const Scalar& alpha,
           Tensor& out);
void hardtanh(const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out);
// In the type that the three make together, which ATen of PyTorch 2.10 leaves to the caller.
void mse_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                       Tensor& out);
void is_in(const Tensor& self, const Scalar& number, bool invert, Tensor& out);
// `out` has the shape of `numbers`, or no dimensions: is the number among them?
void is_in(const Scalar& number, const Tensor& numbers, bool invert, Tensor& out);
// A magnitude of half-precision complex numbers too.
void magnitude(const Tensor& self, Tensor& out);

// Into whole numbers: of whole ones exact (division.cpp), of others in fp64.
void quotient(const Tensor& self, const Tensor& other, Tensor& out);
void arctangent(const Tensor& self, const Tensor& other, Tensor& out);
void x_log_y(const Tensor& self, const Tensor& other, Tensor& out);

// Quotients of whole numbers, exact until the sum is cut off.
void addcdiv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out);
// A whole `type`: the sum in 64 bits, divided without a fraction.
void mean(const Tensor& self, IntArrayRef dims, bool keep, at::ScalarType type, Tensor& out);
void round_decimals(const Tensor& self, int64_t decimals, Tensor& out);  // halves to the even number
void hardsigmoid(const Tensor& self, Tensor& out);

// Wide unsigned integers (uint16, uint32, uint64), and logarithms of sums of powers of all whole numbers.
enum class Shift { kLeft, kRight };
void shift(Shift way, const Tensor& self, const Tensor& bits, Tensor& out);
void cumprod(const Tensor& self, int64_t dim, at::ScalarType type, Tensor& out);  // modulo the type's range
void log_add_exp(bool of_two, const Tensor& self, const Tensor& other, Tensor& out);

// What phase one asks of types that go together; of quotients (division.cpp) the sizes, and that complex ones are not rounded.
void need_mean(const Tensor& self, at::ScalarType type, const Tensor& out);  // whole ones are of whole numbers
// A spectrum of complex numbers, or of pairs of real ones where `returns_complex` is false; complex signals have both sides.
void need_spectrum(const Tensor& self, bool onesided, bool returns_complex, const Tensor& out);
void need_quotient(const Tensor& self, const Tensor& other, int64_t mode, const Tensor& out);
// convolution.cpp: which convolutions there are of whole numbers, and of 8-bit floats.
void need_convolved(const Tensor& input, const OptionalTensor& bias, IntArrayRef dilation, bool transposed);
// A bias is of the input's type, or beside hifloat8 of a floating one.
void need_bias_type(const Tensor& input, const OptionalTensor& bias);
// A gradient is of the weight's type, or float8_e4m3fn or hifloat8, which no weight is.
void need_weight_gradient(const Tensor& weight, const Tensor& gradient);

// The gradient of the distances `distances` of rows of x1 and rows of x2; of 16-bit ones they are computed again in fp32.
Tensor cdist_backward(const Tensor& gradient, const Tensor& x1, const Tensor& x2, double p, const Tensor& distances);

// Values are moved, so that integers travel as doubles of their bits.
void max_unpool2d(const Tensor& self, const Tensor& indices, IntArrayRef size, Tensor& out);
void max_unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef size, IntArrayRef stride, IntArrayRef padding,
                  Tensor& out);

}  // namespace softnpu::ops::kernels
