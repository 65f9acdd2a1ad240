// See convolutions.h.
#include "csrc/ops/npu/convolutions.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

constexpr int64_t kTaps = 3;  // of a causal convolution

struct Geometry {
  c10::SymInt batch, channels, height, width, out_height, out_width;
};

Geometry check_deformation(const char* op, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                           const OptionalTensor& bias, const Deformation& o) {
  need_dims(op, "input", input, {4});
  TORCH_CHECK(o.stride.size() == 4 && o.padding.size() == 4 && o.dilation.size() == 4, op,
              ": stride, padding and dilation have four members, not ", o.stride.size(), ", ", o.padding.size(),
              " and ", o.dilation.size());
  TORCH_CHECK(o.kernel.size() == 2 && o.kernel[0] > 0 && o.kernel[1] > 0, op,
              ": kernel_size must be two positive numbers, got ", o.kernel);
  TORCH_CHECK(o.stride[0] == 1 && o.stride[1] == 1 && o.stride[2] > 0 && o.stride[3] > 0, op,
              ": stride is 1, 1 and two positive numbers, not ", o.stride);
  TORCH_CHECK(o.dilation[0] == 1 && o.dilation[1] == 1 && o.dilation[2] > 0 && o.dilation[3] > 0, op,
              ": dilation is 1, 1 and two positive numbers, not ", o.dilation);
  const c10::SymInt channels = input.sym_size(1);
  TORCH_CHECK(o.groups > 0 && o.offset_groups > 0 && channels % o.groups == 0 && channels % o.offset_groups == 0, op,
              ": ", channels, " channels do not divide into ", o.groups, " groups and ", o.offset_groups,
              " deformable_groups");
  need_same_type(op, "input", input, "weight", weight);
  need_same_type(op, "input", input, "offset", offset);
  need_sizes(op, "weight", weight, {-1, channels / o.groups, o.kernel[0], o.kernel[1]});
  need_sizes(op, "bias", bias, {weight.sym_size(0)});
  const auto out = [&](int64_t dim, int64_t pads) {
    return (input.sym_size(dim) + pads - (o.kernel[dim - 2] - 1) * o.dilation[dim] - 1) / o.stride[dim] + 1;
  };
  const Geometry g = {input.sym_size(0),
                      channels,
                      input.sym_size(2),
                      input.sym_size(3),
                      out(2, o.padding[0] + o.padding[1]),
                      out(3, o.padding[2] + o.padding[3])};
  need_sizes(op, "offset", offset,
             {g.batch, o.offset_groups * o.kernel[0] * o.kernel[1] * (o.masked ? 3 : 2), g.out_height, g.out_width});
  return g;
}

void check_causal(const char* op, const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& mask) {
  need_dims(op, "input", input, {3});
  need_same_type(op, "input", input, "weight", weight);
  need_sizes(op, "weight", weight, {kTaps, input.sym_size(2)});
  need_type(op, "mask", mask, {at::kBool});
  need_sizes(op, "mask", mask, {input.sym_size(1), input.sym_size(0)});
}

at::Tensor causal(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& mask) {
  const at::Tensor x = at::constant_pad_nd(wide(input), {0, 0, 0, 0, kTaps - 1, 0}), w = wide(weight);
  at::Tensor sum;
  for (int64_t k = 0; k < kTaps; k++) {
    const at::Tensor part = x.slice_symint(0, k, input.sym_size(0) + k) * w.select(0, k);
    sum = sum.defined() ? sum + part : part;
  }
  if (given(mask)) sum = sum.masked_fill(mask->t().logical_not().unsqueeze(2), 0);
  return sum.to(input.scalar_type());
}

}  // namespace

std::array<Result, 2> deformed(const char* op, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& offset, const OptionalTensor& bias, const Deformation& o) {
  const Geometry g = check_deformation(op, input, weight, offset, bias, o);
  return {sized({g.batch, weight.sym_size(0), g.out_height, g.out_width}, input.scalar_type()),
          sized({g.batch, g.channels, g.out_height * o.kernel[0], g.out_width * o.kernel[1]}, input.scalar_type())};
}

void check_deformed_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& samples,
                             const at::Tensor& weight, const at::Tensor& offset, const Deformation& o) {
  constexpr const char* kOp = "npu_deformable_conv2dbk";
  const auto made = deformed(kOp, input, weight, offset, std::nullopt, o);
  need_sizes(kOp, "grad_output", grad, made[0].sizes);
  need_sizes(kOp, "offset_out", samples, made[1].sizes);
}

// CANN's page of aclnnFusedCausalConv1d has these fields as not supported: the NPU computes without them, and so do we, but not silently.
void warn_of_unsupported(const char* op, const CausalModes& modes) {
  constexpr const char* kWhy = " has no effect: CANN's page of aclnnFusedCausalConv1d says that it is not supported; ";
  if (given(modes.bias)) {
    TORCH_WARN_ONCE(op, ": bias", kWhy, "add it to the result");
  }
  if (modes.activation != "None") {
    TORCH_WARN_ONCE(op, ": activation", kWhy, "apply it to the result");
  }
  if (given(modes.initial)) {
    TORCH_WARN_ONCE(op, ": initial_state_mode", kWhy, "num_computed_tokens of 0 begins with a state of zeros");
  }
}

void check_causal_states(const char* op, const at::Tensor& x, const at::Tensor& weight, const CausalStates& s,
                         const CausalModes& modes) {
  need_dims(op, "x", x, {2, 3});
  need_same_type(op, "x", x, "weight", weight);
  need_same_type(op, "x", x, "conv_states", s.states);
  need_sizes(op, "weight", weight, {-1, x.sym_size(-1)});
  need_sizes(op, "conv_states", s.states, {-1, -1, x.sym_size(-1)});
  TORCH_SYM_CHECK(weight.sym_size(0).sym_gt(0), op, ": weight has no taps, it has the sizes ", weight.sym_sizes());
  TORCH_SYM_CHECK(s.states.sym_size(1).sym_ge(weight.sym_size(0) - 1), op, ": conv_states keeps ", s.states.sym_size(1),
                  " rows, fewer than the ", weight.sym_size(0) - 1, " before a row");
  TORCH_CHECK_VALUE(given(s.starts) || x.dim() == 3, op, ": query_start_loc is needed with an x of two dimensions");
  need_integers(op, "query_start_loc", s.starts);
  if (x.dim() == 2) {
    need_dims(op, "query_start_loc", *s.starts, {1});
    TORCH_SYM_CHECK(s.starts->sym_size(0).sym_gt(0), op, ": query_start_loc is empty; give the first row of each ",
                    "sequence and the end of the last");
  }
  const c10::SymInt batch = x.dim() == 3 ? x.sym_size(0) : s.starts->sym_size(0) - 1;
  const StateBlocks& b = s.blocks;
  TORCH_CHECK_VALUE(
      given(b.first) == given(b.last) && given(b.last) == given(b.initial), op,
      ": block_idx_first_scheduled_token, block_idx_last_scheduled_token and initial_state_idx go together");
  TORCH_CHECK_VALUE(!given(b.last) || (given(s.computed) && given(s.lines) && b.size >= 2), op,
                    ": states of blocks need num_computed_tokens, cache_indices and a block_size of at least 2");
  need_sizes(op, "cache_indices", s.lines, given(b.last) ? Sizes{batch, -1} : Sizes{batch});
  for (const auto& [name, t] : {std::pair{"num_accepted_tokens", &s.accepted},
                                {"num_computed_tokens", &s.computed},
                                {"block_idx_first_scheduled_token", &b.first},
                                {"block_idx_last_scheduled_token", &b.last},
                                {"initial_state_idx", &b.initial}}) {
    need_sizes(op, name, *t, {batch});
    need_integers(op, name, *t);
  }
  need_sizes(op, "bias", modes.bias, {x.sym_size(-1)});
  need_sizes(op, "initial_state_mode", modes.initial, {batch});
  need_integers(op, "initial_state_mode", modes.initial);
  if (given(modes.bias)) need_same_type(op, "x", x, "bias", *modes.bias);
  check_number(op, "run_mode", modes.run, {0, 1});
  TORCH_CHECK_VALUE(modes.longest >= -1, op, ": max_query_len must be -1 or a number of rows, it is ", modes.longest);
  check_number(op, "residual_connection", modes.residual, {0, 1});
  check_word(op, "activation", modes.activation, {"None", "silu", "swish"});
  check_word(op, "conv_mode", modes.mode, {"default", "pangu"});
  TORCH_CHECK_VALUE(modes.mode != "pangu" || given(s.computed), op, ": conv_mode pangu needs num_computed_tokens");
  warn_of_unsupported(op, modes);
}

at::Tensor causal_convolution(const char* op, const at::Tensor& input, const at::Tensor& weight,
                              const OptionalTensor& mask) {
  check_causal(op, input, weight, mask);
  return causal(input, weight, mask);
}

Pair causal_convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& mask) {
  constexpr const char* kOp = "npu_masked_causal_conv1d_backward";
  check_causal(kOp, input, weight, mask);
  need_sizes(kOp, "grad_output", grad, sizes_of(input));
  const auto f = [&](const auto& in) { return causal(in[0], in[1], mask); };
  const auto d = gradients_of(kOp, f, {input, weight}, grad);
  return {d[0], d[1]};
}

}  // namespace npu::ops
