// See quant_conv.h.
#include "csrc/ops/npu/quant_conv.h"

#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

void check_quant_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& scale,
                        at::IntArrayRef strides, at::IntArrayRef pads, at::IntArrayRef dilations, int64_t groups,
                        std::string_view round_mode, std::optional<int64_t> output_dtype, const OptionalTensor& bias,
                        const OptionalTensor& offset, std::optional<int64_t> input_dtype,
                        std::optional<int64_t> weight_dtype) {
  const char* const op = "npu_quant_conv2d";
  refuse_given(op, "offset", offset);
  need_dims(op, "input", input, {4});
  need_dims(op, "weight", weight, {4});
  need_type(op, "input", input, {at::kChar});
  need_type(op, "weight", weight, {at::kChar});
  check_dtypes(op, {{"input_dtype", input_dtype, input}, {"weight_dtype", weight_dtype, weight}});
  check_word(op, "round_mode", round_mode, {"rint", "round"});
  TORCH_CHECK_NOT_IMPLEMENTED(round_mode == "rint", op, ": round_mode ", round_mode, " is not implemented; rint is");
  TORCH_CHECK_VALUE(output_dtype, op, ": output_dtype is needed");
  check_number(
      op, "output_dtype", *output_dtype,
      {static_cast<int64_t>(at::kHalf), static_cast<int64_t>(at::kFloat), static_cast<int64_t>(at::kBFloat16)});
  for (const auto& [name, list, least] :
       {std::tuple{"strides", strides, 1}, {"pads", pads, 0}, {"dilations", dilations, 1}}) {
    TORCH_CHECK_VALUE(list.size() == 2 && list[0] >= least && list[1] >= least, op, ": ", name, " ", list,
                      " must be two numbers, at least ", least);
  }
  TORCH_CHECK_VALUE(groups >= 1, op, ": groups ", groups, " is not positive");
  const c10::SymInt channels = weight.sym_size(0);
  TORCH_SYM_CHECK((weight.sym_size(1) * groups).sym_eq(input.sym_size(1)), op, ": input has ", input.sym_size(1),
                  " channels, weight ", weight.sym_size(1), " for each of ", groups, " groups");
  TORCH_SYM_CHECK((channels % groups).sym_eq(0), op, ": ", channels, " channels of weight and ", groups, " groups");
  need_sizes(op, "scale", scale, {channels});
  need_type(op, "scale", scale, {at::kFloat, at::kLong});
  need_sizes(op, "bias", bias, {channels});
  need_type(op, "bias", bias, {at::kInt, at::kFloat, at::kHalf, at::kBFloat16});
}

Result quant_conv2d_result(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef strides,
                           at::IntArrayRef pads, at::IntArrayRef dilations, std::optional<int64_t> output_dtype) {
  const auto size = [&](size_t i) {
    const int64_t dim = static_cast<int64_t>(i) + 2;
    const c10::SymInt over = input.sym_size(dim) + 2 * pads[i] - dilations[i] * (weight.sym_size(dim) - 1) - 1;
    TORCH_SYM_CHECK(over.sym_ge(0), "npu_quant_conv2d: dimension ", dim, " of the input, ", input.sym_size(dim),
                    ", is smaller than the kernel");
    return over / strides[i] + 1;
  };
  return sized({input.sym_size(0), weight.sym_size(0), size(0), size(1)}, static_cast<at::ScalarType>(*output_dtype));
}

}  // namespace npu::ops
