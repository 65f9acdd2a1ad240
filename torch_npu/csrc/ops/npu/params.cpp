// See params.h.
#include "csrc/ops/npu/params.h"

namespace npu::ops {

int64_t rotary_code(std::string_view name) {
  constexpr std::string_view kNames[] = {"half", "interleave", "quarter", "interleave-half"};
  for (int64_t mode = 0; mode < 4; ++mode) {
    if (name == kNames[mode]) return mode;
  }
  TORCH_CHECK_VALUE(false, "rotary_mode is one of half, interleave, quarter and interleave-half, not ", name);
}

void check_rotary(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin) {
  TORCH_CHECK(input.dim() == cos.dim() && input.dim() == sin.dim(), "rotary: the input has ", input.dim(),
              " dimensions, cosine and sine ", cos.dim(), " and ", sin.dim());
  TORCH_CHECK(input.dim() > 0, "rotary: the input has no dimensions");
  for (int64_t d = 0; d < input.dim(); ++d) {
    const c10::SymInt size = cos.sym_size(d);
    TORCH_SYM_CHECK(size.sym_eq(sin.sym_size(d)), "rotary: cosine and sine differ in dimension ", d);
    const bool last = d == input.dim() - 1;
    TORCH_CHECK((!last && size == 1) || size == input.sym_size(d), "rotary: dimension ", d, " of cosine and sine is ",
                size, ", that of the input ", input.sym_size(d), last ? "" : "; they may also be 1");
  }
}

void check_gamma(const char* name, const at::Tensor& input, const at::Tensor& gamma) {
  const int64_t first = input.dim() - gamma.dim();
  TORCH_CHECK(gamma.dim() > 0 && first >= 0, name, ": gamma has ", gamma.dim(), " dimensions, the input ", input.dim());
  for (int64_t d = 0; d < gamma.dim(); ++d) {
    TORCH_CHECK(gamma.sym_size(d) == input.sym_size(first + d), name, ": gamma has sizes ", gamma.sym_sizes(),
                ", which are not the last of the input's ", input.sym_sizes());
  }
}

void check_same_sizes(const char* name, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sym_sizes() == b.sym_sizes(), name, ": tensors of ", a.sym_sizes(), " and ", b.sym_sizes(),
              " must have the same sizes");
}

void check_no_rotate(const OptionalTensor& rotate) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given(rotate),
                              "npu_rotary_mul: a rotation matrix is not implemented; leave out `rotate`");
}

void check_drawn_mask(const OptionalTensor& dropout_mask) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given(dropout_mask),
                              "npu_fusion_attention: the gradient with a given dropout_mask is not ",
                              "implemented; give seed and offset, or let them be drawn");
}

void check_halves_gradient(const at::Tensor& gradient, const at::Tensor& input, int64_t dim) {
  const Sizes expected = halved(input, dim);
  TORCH_CHECK(gradient.sym_sizes() == c10::SymIntArrayRef(expected), "the gradient has sizes ", gradient.sym_sizes(),
              " where ", c10::SymIntArrayRef(expected), " are expected for an input of ", input.sym_sizes());
}

}  // namespace npu::ops
