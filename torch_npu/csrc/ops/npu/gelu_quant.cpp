// Gelu with quantization behind it. See mx.h.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/where.h>

#include "csrc/ops/npu/mx.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

Pair gelu_quantized(const at::Tensor& input, const OptionalTensor& scale, const OptionalTensor& offset,
                    std::string_view approximate, std::string_view mode, const std::optional<int64_t>& type,
                    std::string_view round) {
  const char* const op = "npu_gelu_quant";
  check_word(op, "approximate", approximate, {"none", "tanh"});
  check_word(op, "quant_mode", mode, {"static", "dynamic"});
  check_word(op, "round_mode", round, {"rint"});
  need_type(op, "input", input, {at::kFloat, at::kHalf, at::kBFloat16});
  const at::ScalarType made = eight_bits(op, type);
  const bool fixed = mode == "static";
  TORCH_CHECK(input.dim() >= (fixed ? 1 : 2), op, ": input has ", input.dim(), " dimensions, at least ", fixed ? 1 : 2,
              " are expected with quant_mode ", mode);
  TORCH_CHECK_VALUE(!fixed || given(scale), op, ": input_scale is needed with quant_mode static");
  TORCH_CHECK_VALUE(fixed || !given(offset), op, ": input_offset goes with quant_mode static");
  for (const auto& [name, t] : {std::pair{"input_scale", &scale}, {"input_offset", &offset}}) {
    if (!given(*t)) continue;
    need_dims(op, name, **t, {1});
    need_elements(op, name, *t, {1, input.sym_size(-1)});
  }
  const double largest = made == at::kChar ? 127 : made == at::kFloat8_e4m3fn ? 448 : 57344;
  const auto rounded = [&](const at::Tensor& v) {
    const at::Tensor whole = made == at::kChar ? v.round().clamp(-128, 127) : v.clamp(-largest, largest);
    return whole.to(made);
  };
  at::Tensor y = at::gelu(input.detach().to(at::kFloat), approximate);
  if (given(scale)) y = y * scale->detach().to(at::kFloat);
  if (fixed) {
    if (given(offset)) y = y + offset->detach().to(at::kFloat);
    return {rounded(y), at::empty({0}, y.options())};
  }
  const at::Tensor out_scale = y.abs().amax(-1) / largest;
  return {rounded(y / at::where(out_scale.eq(0), 1, out_scale).unsqueeze(-1)), out_scale};
}

}  // namespace npu::ops
