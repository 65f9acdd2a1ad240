// Operators for which CANN has no function and PyTorch no composite kernel, composed of the device's own operators. What it is
// not: a fallback; nothing here leaves the device. A place of last resort: a row of ops/aten.yaml is better where aclnn has one.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/result_type_native.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/view_as_real_native.h>
#include <torch/library.h>

#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/castable.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/params.h"
#include "csrc/ops/storage.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

at::Tensor isnan(const at::Tensor& self) { return self.ne(self); }

at::Tensor count_nonzero(const at::Tensor& self, at::IntArrayRef dims) { return self.ne(0).sum(dims); }

// PyTorch's for the CPU ignores the output's strides.
at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out) {
  const NPUGuard guard(self.device().index());
  return copy_into(out, self.narrow(dim, start, length));
}

template <class Op>
void run_addmm_activation(Op& op, const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                          const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu) {
  check_addmm(self, mat1, mat2);
  check_empty_product(self, mat1, mat2, beta);
  op.meta(self, mat1, mat2, beta, alpha, use_gelu);
  const at::Tensor& out = op.output(0);
  if (out.numel() == 0) return;
  ACLNN(aclnnAddmm)(self, mat1, mat2, beta, alpha, out, cube_math_type());
  if (use_gelu) {
    ACLNN(aclnnGelu)(out, out);
  } else {
    ACLNN(aclnnRelu)(out, out);
  }
}

at::Tensor addmm_activation(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                            const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu) {
  const NPUGuard guard(first_device(self, mat1));
  Structured<at::meta::structured__addmm_activation, 1> op;
  run_addmm_activation(op, self, mat1, mat2, beta, alpha, use_gelu);
  return op.take(0);
}

at::Tensor& addmm_activation_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu, at::Tensor& out) {
  const NPUGuard guard(first_device(self, mat1));
  Structured<at::meta::structured__addmm_activation, 1> op(Outputs::kGiven, out);
  run_addmm_activation(op, self, mat1, mat2, beta, alpha, use_gelu);
  return out;
}

// Each element against each where that is little work; else a search in the sorted test elements, whose memory is linear.
at::Tensor found_in(const at::Tensor& elements, const at::Tensor& test) {
  if (test.numel() < 10 * std::pow(static_cast<double>(elements.numel()), 0.145)) {  // PyTorch's bound
    return elements.unsqueeze(-1).eq(test.reshape({-1})).any(-1);
  }
  const at::ScalarType type = at::native::result_type(elements, test);
  const at::Tensor wanted = elements.to(type);
  const at::Tensor sorted = std::get<0>(test.to(type).reshape({-1}).sort());
  const at::Tensor place = at::searchsorted(sorted, wanted.contiguous()).clamp_max(sorted.numel() - 1);
  return sorted.take(place).eq(wanted);
}

template <class Op>
void run_isin(Op& op, const at::Tensor& elements, const at::Tensor& test, bool assume_unique, bool invert) {
  op.meta(elements, test, assume_unique, invert);
  const at::Tensor& out = op.output(0);
  if (out.numel() == 0) return;
  if (test.numel() == 0) {
    out.fill_(invert);
    return;
  }
  const at::Tensor found = found_in(elements, test);
  out.copy_(invert ? found.logical_not() : found);
}

at::Tensor isin(const at::Tensor& elements, const at::Tensor& test, bool assume_unique, bool invert) {
  const NPUGuard guard(elements.device().index());
  Structured<at::meta::structured_isin_Tensor_Tensor, 1> op;
  run_isin(op, elements, test, assume_unique, invert);
  return op.take(0);
}

at::Tensor& isin_out(const at::Tensor& elements, const at::Tensor& test, bool assume_unique, bool invert,
                     at::Tensor& out) {
  const NPUGuard guard(elements.device().index());
  Structured<at::meta::structured_isin_Tensor_Tensor, 1> op(Outputs::kGiven, out);
  run_isin(op, elements, test, assume_unique, invert);
  return out;
}

std::tuple<at::Tensor, at::Tensor> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const at::Tensor norm = at::norm_except_dim(v, 2, dim);
  return {v.mul(g.div(norm)), norm};
}

std::tuple<at::Tensor, at::Tensor> weight_norm_backward(const at::Tensor& grad, const at::Tensor& v,
                                                        const at::Tensor& g, const at::Tensor& norm, int64_t dim) {
  Ints others;
  for (int64_t i = 0; i < v.dim(); ++i) {
    if (i != at::maybe_wrap_dim(dim, v.dim())) others.push_back(i);
  }
  const at::Tensor dot = grad.mul(v).sum(others, /*keepdim=*/true);
  const at::Tensor grad_g = dot.div(norm);
  const at::Tensor grad_v = g.div(norm).mul(grad.sub(v.mul(dot.div(norm.mul(norm)))));
  return {grad_v, grad_g};
}

// Where both have the same shape: one number comes back from the device.
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              other.device(), "!");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  if (self.scalar_type() != other.scalar_type()) return self.eq(other).all().item<bool>();
  const NPUGuard guard(self.device().index());
  const at::Tensor out = empty({}, at::kBool);
  ACLNN(aclnnEqual)(self, other, out);
  return out.item<bool>();
}

// What a lazily conjugated tensor shows changes as its memory does: the imaginary part changes its sign in both.
void conjugate(const at::Tensor& self) {
  if (self.is_complex()) at::native::view_as_real(self.is_conj() ? self.conj() : self).select(-1, 1).neg_();
}

at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "Found dtype ", out.scalar_type(), " but expected ",
              self.scalar_type());
  resize_out(out, self.sizes());
  out.copy_(self);
  conjugate(out);
  return out;
}

at::Tensor& conj_physical_(at::Tensor& self) {
  conjugate(self);
  return self;
}

// CANN takes the replacements in single precision: of what a double tensor wants they are written by their masks.
at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  resize_out(out, self.sizes());
  if (c10::isIntegralType(self.scalar_type(), true)) return out.copy_(self);
  const double most = dtype_max(self), inf = std::numeric_limits<double>::infinity();
  const double other = nan.value_or(0), high = posinf.value_or(most), low = neginf.value_or(-most);
  if (self.scalar_type() != at::kDouble && self.scalar_type() != at::kComplexDouble) {
    ACLNN(aclnnNanToNum)(self, other, high, low, out);
    return out;
  }
  if (self.is_complex()) {
    at::Tensor parts = at::native::view_as_real(out);
    nan_to_num_out(at::native::view_as_real(self.resolve_conj()), nan, posinf, neginf, parts);
    return out;
  }
  return out.copy_(
      self.masked_fill(isnan(self), other).masked_fill(self.eq(inf), high).masked_fill(self.eq(-inf), low));
}

// x 2^n, where 2^n alone may be too large or too small: in three steps in double precision, rounded once.
at::Tensor ldexp(const at::Tensor& self, const at::Tensor& other) {
  const at::Tensor two = at::native::wrapped_scalar_tensor(2.0);
  if (!self.is_floating_point() || !c10::isIntegralType(other.scalar_type(), true)) return self.mul(two.pow(other));
  const at::Tensor exponent = other.to(at::kDouble).clamp(-3000, 3000), third = truncated(exponent.div(3));
  const at::Tensor step = two.pow(third), rest = two.pow(exponent.sub(third, 2));
  return self.to(at::kDouble).mul(step).mul(step).mul(rest).to(self.scalar_type());
}

at::Tensor& ldexp_(at::Tensor& self, const at::Tensor& other) { return self.copy_(ldexp(self, other)); }

at::Tensor& ldexp_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  for (const at::Tensor& read : {self, other}) at::assert_no_partial_overlap(out, read);
  const at::Tensor result = ldexp(self, other);
  check_one_device(result, out);
  return cast_into(out, result);
}

at::Tensor vdot(const at::Tensor& self, const at::Tensor& other) { return self.conj().resolve_conj().dot(other); }

at::Tensor remainder(const at::Scalar& self, const at::Tensor& other) {
  return at::native::wrapped_scalar_tensor(self).remainder(other);
}

at::Tensor left_shift(const at::Tensor& self, const at::Tensor& other) { return self.bitwise_left_shift(other); }
at::Tensor left_shift_number(const at::Tensor& self, const at::Scalar& other) { return self.bitwise_left_shift(other); }
at::Tensor& left_shift_(at::Tensor& self, const at::Tensor& other) { return self.bitwise_left_shift_(other); }
at::Tensor& left_shift_number_(at::Tensor& self, const at::Scalar& other) { return self.bitwise_left_shift_(other); }
at::Tensor right_shift(const at::Tensor& self, const at::Tensor& other) { return self.bitwise_right_shift(other); }
at::Tensor right_shift_number(const at::Tensor& self, const at::Scalar& other) {
  return self.bitwise_right_shift(other);
}
at::Tensor& right_shift_(at::Tensor& self, const at::Tensor& other) { return self.bitwise_right_shift_(other); }
at::Tensor& right_shift_number_(at::Tensor& self, const at::Scalar& other) { return self.bitwise_right_shift_(other); }

std::tuple<at::Tensor, at::Tensor> grid_sampler_2d_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t interpolation,
                                                            int64_t padding, bool align_corners,
                                                            std::array<bool, 2> mask) {
  const NPUGuard guard(input.device().index());
  const at::Tensor grad_input = mask[0] ? empty(input.sizes(), input.scalar_type()) : at::Tensor();
  const at::Tensor grad_grid = empty(grid.sizes(), grid.scalar_type());
  at::globalContext().alertNotDeterministic("grid_sampler_2d_backward_npu");
  ACLNN(aclnnGridSampler2DBackward)(grad_output, input, grid, interpolation, padding, align_corners, mask, grad_input,
                                    grad_grid);
  return {grad_input, grad_grid};
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_3d_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t interpolation,
                                                            int64_t padding, bool align_corners,
                                                            std::array<bool, 2> mask) {
  check_grid_sampler_3d(input, grid, interpolation);
  const NPUGuard guard(input.device().index());
  const at::Tensor grad_input = mask[0] ? empty(input.sizes(), input.scalar_type()) : at::Tensor();
  const at::Tensor grad_grid = empty(grid.sizes(), grid.scalar_type());
  at::globalContext().alertNotDeterministic("grid_sampler_3d_backward_npu");
  ACLNN(aclnnGridSampler3DBackward)(grad_output, input, grid, interpolation, padding, align_corners, mask, grad_input,
                                    grad_grid);
  return {grad_input, grad_grid};
}

at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  const NPUGuard guard(self.device().index());
  if (indices.numel()) ACLNN(aclnnEmbeddingRenorm)(self, indices, max_norm, norm_type);
  return self;
}

void cummax_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnCummax)(self, dim, values, indices);
}

void cummin_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnCummin)(self, dim, values, indices);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK_VALUE(stream.device_type() == c10::DeviceType::PrivateUse1, "npu: a tensor of ", self.device(),
                    " is used on streams of an npu, not on one of ", stream.device(), ": give a torch.npu.Stream");
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("isnan", TORCH_FN(isnan));
  m.impl("count_nonzero.dim_IntList", TORCH_FN(count_nonzero));
  m.impl("narrow_copy.out", NPU_FN(narrow_copy_out));
  m.impl("_addmm_activation", NPU_FN(addmm_activation));
  m.impl("_addmm_activation.out", NPU_FN(addmm_activation_out));
  m.impl("isin.Tensor_Tensor", NPU_FN(isin));
  m.impl("isin.Tensor_Tensor_out", NPU_FN(isin_out));
  m.impl("_weight_norm_interface", NPU_FN(weight_norm));
  m.impl("_weight_norm_interface_backward", NPU_FN(weight_norm_backward));
  m.impl("equal", NPU_FN(equal));
  m.impl("conj_physical.out", NPU_FN(conj_physical_out));
  m.impl("conj_physical_", TORCH_FN(conj_physical_));
  m.impl("nan_to_num.out", NPU_FN(nan_to_num_out));
  m.impl("ldexp.Tensor", TORCH_FN(ldexp));  // one of the operands may be a number on the CPU
  m.impl("ldexp.out", TORCH_FN(ldexp_out));
  m.impl("ldexp_", TORCH_FN(ldexp_));
  m.impl("vdot", NPU_FN(vdot));
  m.impl("remainder.Scalar_Tensor", TORCH_FN(remainder));
  m.impl("__lshift__.Tensor", TORCH_FN(left_shift));
  m.impl("__lshift__.Scalar", TORCH_FN(left_shift_number));
  m.impl("__ilshift__.Tensor", TORCH_FN(left_shift_));
  m.impl("__ilshift__.Scalar", TORCH_FN(left_shift_number_));
  m.impl("__rshift__.Tensor", TORCH_FN(right_shift));
  m.impl("__rshift__.Scalar", TORCH_FN(right_shift_number));
  m.impl("__irshift__.Tensor", TORCH_FN(right_shift_));
  m.impl("__irshift__.Scalar", TORCH_FN(right_shift_number_));
  m.impl("grid_sampler_2d_backward", NPU_FN(grid_sampler_2d_backward));
  m.impl("grid_sampler_3d_backward", NPU_FN(grid_sampler_3d_backward));
  m.impl("embedding_renorm_", NPU_FN(embedding_renorm_));
  m.impl("_cummax_helper", NPU_FN(cummax_helper));
  m.impl("_cummin_helper", NPU_FN(cummin_helper));
  m.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace npu
