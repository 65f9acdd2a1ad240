// See params.h.
#include "csrc/ops/npu/params.h"

#include <c10/util/accumulate.h>

#include "csrc/core/type_name.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

int64_t rotary_code(std::string_view name) {
  constexpr std::string_view kNames[] = {"half", "interleave", "quarter", "interleave-half"};
  for (int64_t mode = 0; mode < 4; ++mode) {
    if (name == kNames[mode]) return mode;
  }
  TORCH_CHECK_VALUE(false, "rotary_mode is one of half, interleave, quarter and interleave-half, not ", name);
}

// They are r1 and r2 of npu_rotary_mul and its gradient, else cos and sin.
constexpr const char* kAngles = "cosine and sine (r1 and r2, or cos and sin)";

void check_rotary(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin, std::string_view mode) {
  TORCH_CHECK(input.dim() == cos.dim() && input.dim() == sin.dim(), "rotary: the input has ", input.dim(),
              " dimensions, ", kAngles, " have ", cos.dim(), " and ", sin.dim());
  TORCH_CHECK(input.dim() > 0, "rotary: the input has no dimensions");
  rotary_code(mode);
  const int64_t together = mode == "quarter" ? 4 : 2;
  TORCH_SYM_CHECK((input.sym_size(-1) % together).sym_eq(0), "rotary: the input has ", input.sym_size(-1),
                  " columns; rotary_mode ", mode, " takes a multiple of ", together);
  for (int64_t d = 0; d < input.dim(); ++d) {
    const c10::SymInt size = cos.sym_size(d);
    TORCH_SYM_CHECK(size.sym_eq(sin.sym_size(d)), "rotary: ", kAngles, " have the sizes ", cos.sym_sizes(), " and ",
                    sin.sym_sizes(), "; they must be the same");
    const bool last = d == input.dim() - 1;
    TORCH_CHECK((!last && size == 1) || size == input.sym_size(d), "rotary: dimension ", d, " of ", kAngles, " is ",
                size, ", that of the input ", input.sym_size(d), last ? "" : "; they may also be 1");
  }
}

void check_norm_gradient(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef shape, const at::Tensor& mean,
                         const at::Tensor& rstd, const OptionalTensor& weight, const OptionalTensor& bias) {
  constexpr const char* kOp = "npu_layernorm_grad";
  const auto normalized = static_cast<int64_t>(shape.size());
  TORCH_CHECK(normalized <= input.dim(), kOp, ": normalized_shape ", shape, " is longer than the sizes of input, ",
              input.sym_sizes());
  check_same_sizes(kOp, "grad", grad, "input", input);
  const c10::SymInt rows = c10::multiply_integers(input.sym_sizes().slice(0, input.dim() - normalized));
  need_elements(kOp, "mean", mean, {rows});
  need_elements(kOp, "rstd", rstd, {rows});
  const Sizes last(input.sym_sizes().slice(input.dim() - normalized));
  TORCH_CHECK(c10::SymIntArrayRef(last) == c10::fromIntArrayRefSlow(shape), kOp, ": normalized_shape ", shape,
              " is not that of the last dimensions of input, ", input.sym_sizes());
  need_sizes(kOp, "weight", weight, last);
  need_sizes(kOp, "bias", bias, last);
}

void check_gamma(const char* name, const at::Tensor& input, const at::Tensor& gamma) {
  const int64_t first = input.dim() - gamma.dim();
  TORCH_CHECK(gamma.dim() > 0 && first >= 0, name, ": gamma has ", gamma.dim(), " dimensions, the input ", input.dim());
  for (int64_t d = 0; d < gamma.dim(); ++d) {
    TORCH_CHECK(gamma.sym_size(d) == input.sym_size(first + d), name, ": gamma has sizes ", gamma.sym_sizes(),
                ", which are not the last of the input's ", input.sym_sizes());
  }
}

void check_same_sizes(const char* op, const char* a, const at::Tensor& x, const char* b, const at::Tensor& y) {
  TORCH_CHECK(x.sym_sizes() == y.sym_sizes(), op, ": ", a, " and ", b, " must have the same sizes, they have ",
              x.sym_sizes(), " and ", y.sym_sizes());
}

void check_add_layer_norm_gradient(const OptionalTensor& dy, const at::Tensor& x1, const at::Tensor& x2,
                                   const at::Tensor& rstd, const at::Tensor& mean, const at::Tensor& gamma,
                                   const OptionalTensor& dsum) {
  constexpr const char* kOp = "npu_add_layer_norm_backward";
  TORCH_CHECK(given(dy), kOp, ": dy_opt, the gradient of y, is needed; give zeros where only dsum_opt counts");
  check_same_sizes(kOp, "x1", x1, "x2", x2);
  check_gamma(kOp, x1, gamma);
  const Sizes statistic = reduced(x1, gamma);
  c10::SymInt rows = 1;
  for (const c10::SymInt& size : statistic) rows *= size;
  need_elements(kOp, "rstd", rstd, {rows});
  need_elements(kOp, "mean", mean, {rows});
  need_sizes(kOp, "dy_opt", dy, sizes_of(x1));
  need_sizes(kOp, "dsum_opt", dsum, sizes_of(x1));
}

void check_bce_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target,
                        const OptionalTensor& weight, const OptionalTensor& pos_weight) {
  constexpr const char* kOp = "npu_binary_cross_entropy_with_logits_backward";
  const Sizes sizes = sizes_of(input);
  need_broadcast(kOp, "grad_output", grad, sizes);
  need_broadcast(kOp, "target", target, sizes);
  need_broadcast(kOp, "weight_opt", weight, sizes);
  need_broadcast(kOp, "pos_weight_opt", pos_weight, sizes);
}

int64_t rotary_layout(std::string_view name) {
  constexpr std::string_view kNames[] = {"BSND", "SBND", "BNSD", "TND"};
  for (int64_t layout = 0; layout < 4; ++layout) {
    if (name == kNames[layout]) return layout + 1;
  }
  TORCH_CHECK_VALUE(false, "layout is one of BSND, SBND, BNSD and TND, not ", name);
}

void check_rotary_pair(std::string_view layout, std::string_view mode) {
  rotary_layout(layout);
  TORCH_CHECK_VALUE(rotary_code(mode) < 3, "rotary_mode is one of half, interleave and quarter, not ", mode);
}

int64_t gelu_code(std::string_view approximate) {
  TORCH_CHECK_VALUE(approximate == "none" || approximate == "tanh", "approximate is none or tanh, not ", approximate);
  return approximate == "tanh" ? 1 : 0;
}

void check_probability(double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
}

void check_groups(const char* name, const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  int64_t groups) {
  TORCH_CHECK(input.dim() >= 2, name, ": the input has ", input.dim(), " dimensions, at least 2 are expected");
  const c10::SymInt channels = input.sym_size(1);
  TORCH_CHECK_VALUE(groups > 0, name, ": the number of groups is ", groups);
  TORCH_SYM_CHECK((channels % groups).sym_eq(0), name, ": ", channels, " channels are not divisible by ", groups,
                  " groups");
  for (const OptionalTensor* parameter : {&weight, &bias}) {
    TORCH_CHECK(!given(*parameter) || ((*parameter)->dim() == 1 && (*parameter)->sym_size(0) == channels), name,
                ": weight and bias have one element a channel, ", channels);
  }
}

c10::SymInt bit_mask_bytes(const at::Tensor& input) { return (input.sym_numel() + 127) / 128 * 16; }

void check_bit_mask(const at::Tensor& input, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kByte, "mask must be uint8, a bit an element of input, it is ",
              type_name(mask));
  TORCH_SYM_CHECK(mask.sym_numel().sym_ge(bit_mask_bytes(input)), "mask has ", mask.sym_numel(), " bytes, ",
                  bit_mask_bytes(input), " are needed: a bit an element, padded to 128");
}

int64_t product(at::IntArrayRef sizes) { return c10::multiply_integers(sizes); }

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
