// See quant_exchange.h.
#include "csrc/ops/npu/quant_exchange.h"

#include <ATen/core/Tensor.h>

#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/mx.h"
#include "csrc/ops/npu/mx_bytes.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

constexpr int64_t kTensor = 1, kColumn = 2, kRow = 3;
constexpr int64_t kPowers = 6, kFound = 7;  // ways of quantization
constexpr int64_t kNoType = -1;             // CANN's ACL_DT_UNDEFINED

bool float8(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat8_e4m3fn || t.scalar_type() == at::kFloat8_e5m2;
}
at::Tensor paired_factor(const at::Tensor& t, const std::optional<int64_t>& type) {
  return of_pairs(t, type) ? as_pairs(t) : t;
}

void need_exchange_powers(const char* op, const char* name, const OptionalTensor& t,
                          const std::optional<int64_t>& type) {
  TORCH_CHECK_VALUE(given(t), op, ": ", name, " is needed with MX operands");
  TORCH_CHECK_NOT_IMPLEMENTED(of_powers(*t, type), op, ": ", name, " of ", type_name(*t),
                              " is not implemented; float8_e8m0fnu is");
  need_type(op, name, t, {at::kFloat8_e8m0fnu, at::kByte, at::kChar});
}
void need_floats(const char* op, const char* name, const OptionalTensor& t, const c10::SymInt& count) {
  TORCH_CHECK_VALUE(given(t), op, ": ", name, " is needed");
  need_type(op, name, t, {at::kFloat});
  need_sizes(op, name, t, {count});
}
void need_small(const char* op, const char* name, const at::Tensor& t, const std::optional<int64_t>& type) {
  if (of_pairs(t, type)) {
    return need_type(op, name, t, {at::kByte, at::kChar, at::ScalarType::Float4_e2m1fn_x2});
  }
  need_type(op, name, t, {at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  check_dtypes(op, {{name, type, t}});
}
void need_exchange_groups(const char* op, at::OptionalIntArrayRef groups, bool powers) {
  if (!groups || groups->empty()) return;
  const bool none = groups->equals({0, 0, 0});
  TORCH_CHECK_NOT_IMPLEMENTED(none || (powers && groups->equals({1, 1, 32})), op, ": group sizes ", *groups,
                              " are not implemented; [1, 1, 32] of MX operands are");
}
void refuse_reserved(const char* op, const Reserved& r) {
  refuse_given(op, {{"common_scale", r.common_scale}, {"x1_offset", r.x1_offset}, {"x2_offset", r.x2_offset}});
  check_number(op, "common_quant_mode", r.common_mode.value_or(0), {0});
  refuse_given(op, "comm_quant_dtype", r.comm_type);
  refuse_given(op, "output_scale_dtype", r.out_scale_type);
  refuse_given(op, "comm_scale_dtype", r.comm_scale_type);
}

void need_mx_pair(const char* op, const ExchangedPair& f, const ExchangedTypes& types) {
  need_small(op, "x1", f.x1, types.x1);
  need_small(op, "x2", f.x2, types.x2);
  need_exchange_powers(op, "x1_scale", f.x1_scale, types.x1_scale);
  need_exchange_powers(op, "x2_scale", f.x2_scale, types.x2_scale);
}

int64_t ways(const char* op, const ExchangedPair& f, std::initializer_list<int64_t> left) {
  TORCH_CHECK_VALUE(f.x1_mode && f.x2_mode, op, ": x1_quant_mode and x2_quant_mode are needed");
  check_number(op, "x1_quant_mode", *f.x1_mode, left);
  check_number(op, "x2_quant_mode", *f.x2_mode, {*f.x1_mode == kPowers ? kPowers : kColumn});
  return *f.x1_mode;
}

}  // namespace

at::ScalarType exchanged_type(const char* op, const at::Tensor& x1, const std::optional<int64_t>& type) {
  const bool half = x1.scalar_type() == at::kHalf || x1.scalar_type() == at::kBFloat16;
  if (!type && half) return x1.scalar_type();
  TORCH_CHECK_VALUE(type, op, ": y_dtype is needed for factors of ", type_name(x1));
  check_number(
      op, "y_dtype", *type,
      {static_cast<int64_t>(at::kHalf), static_cast<int64_t>(at::kBFloat16), static_cast<int64_t>(at::kFloat)});
  return static_cast<at::ScalarType>(*type);
}

void check_quant_all_to_all(const char* op, const ExchangedPair& f, const ExchangedTypes& types, const Exchange& way,
                            const Reserved& reserved) {
  check_group_settings(op, way.group, way.mode);
  refuse_reserved(op, reserved);
  check_axes(op, way.axes, {-2, -1});
  need_dims(op, "x1", f.x1, {2});
  need_dims(op, "x2", f.x2, {2});
  check_shares(op, "the rows of x1", f.x1.sym_size(0), way.ranks);
  TORCH_CHECK_VALUE(f.x1.sym_size(1) * way.ranks == f.x2.sym_size(0), op, ": x2 has ", f.x2.sym_size(0),
                    " rows, and x1 has ", f.x1.sym_size(1), " columns on each of ", way.ranks, " ranks");
  need_sizes(op, "bias", f.bias, {f.x2.sym_size(1)});
  const int64_t found = ways(op, f, {kPowers, kFound});
  need_exchange_groups(op, way.groups, found == kPowers);
  if (found == kPowers) return need_mx_pair(op, f, types);
  need_type(op, "x1", f.x1, {at::kHalf, at::kBFloat16});
  need_type(op, "x2", f.x2, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  need_floats(op, "x2_scale", f.x2_scale, f.x2.sym_size(1));
  const at::ScalarType to = eight_bits(op, f.x1_quantized);
  TORCH_CHECK_VALUE((to == at::kChar) == (f.x2.scalar_type() == at::kChar), op, ": x1_quant_dtype ", to,
                    " does not go with x2 of ", type_name(f.x2));
  if (to != at::kChar) return refuse_given(op, "x1_scale", f.x1_scale);
  need_sizes(op, "x1_scale", f.x1_scale, {f.x2.sym_size(0)});
  need_type(op, "x1_scale", f.x1_scale, {f.x1.scalar_type()});
}

namespace {

// Scales of MX operands are [columns, inner / 64, 2], with x2 as [columns, inner].
struct Right {
  Right(const ExchangedPair& f, const ExchangedTypes& types)
      : turned(*f.x1_mode == kPowers), x2(paired_factor(turned ? f.x2.transpose(0, 1) : f.x2, types.x2)) {}
  bool turned;
  at::Tensor x2;
};
int64_t group_sizes_of(int64_t mode) { return mode == kPowers ? (int64_t{1} << 32) + (1 << 16) + 32 : 0; }
at::OptionalIntArrayRef axes_of(const Exchange& way) { return way.axes; }

}  // namespace

void quant_all_to_all_into(const ExchangedPair& f, const ExchangedTypes& types, const Exchange& way, at::Tensor& out,
                           at::Tensor& exchanged) {
  const Right right(f, types);
  const at::ScalarType to = eight_bits("npu_all_to_all_quant_matmul", f.x1_quantized);
  const int64_t found = to == at::kChar ? 2 : to == at::kFloat8_e5m2 ? 35 : 36;  // CANN's numbers
  const at::Tensor none, x1 = paired_factor(f.x1, types.x1),
                         joined = exchanged.defined() ? paired_factor(exchanged, types.x1) : none;
  const OptionalTensor row = scale_of(f.x1_scale, types.x1_scale);
  const at::Tensor column = scale_of(*f.x2_scale, types.x2_scale);
  if (way.mode) {
    ACLNN(aclnnAlltoAllQuantMatmulV2)
    (x1, right.x2, f.bias, row, column, nullptr, nullptr, nullptr, way.group, *way.mode, axes_of(way), *f.x1_mode,
     *f.x2_mode, 0, kNoType, found, group_sizes_of(*f.x1_mode), false, right.turned, out, joined);
  } else {
    ACLNN(aclnnAlltoAllQuantMatmul)
    (x1, right.x2, f.bias, row, column, nullptr, nullptr, nullptr, way.group, axes_of(way), *f.x1_mode, *f.x2_mode, 0,
     kNoType, found, group_sizes_of(*f.x1_mode), false, right.turned, out, joined);
  }
}

void check_quant_product_all_to_all(const char* op, const ExchangedPair& f, const ExchangedTypes& types,
                                    const Exchange& way, const Reserved& reserved) {
  check_group_settings(op, way.group, way.mode);
  refuse_reserved(op, reserved);
  check_axes(op, way.axes, {-1, -2});
  need_dims(op, "x1", f.x1, {2});
  need_dims(op, "x2", f.x2, {2});
  need_sizes(op, "x2", f.x2, {f.x1.sym_size(1), -1});
  check_shares(op, "the columns of x2", f.x2.sym_size(1), way.ranks);
  need_sizes(op, "bias", f.bias, {f.x2.sym_size(1)});
  const int64_t found = ways(op, f, {kRow, kPowers});
  need_exchange_groups(op, way.groups, found == kPowers);
  if (found == kPowers) return need_mx_pair(op, f, types);
  need_type(op, "x1", f.x1, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  need_type(op, "x2", f.x2, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  TORCH_CHECK_VALUE(float8(f.x1) == float8(f.x2), op, ": x1 is of ", type_name(f.x1), ", x2 of ", type_name(f.x2));
  need_floats(op, "x1_scale", f.x1_scale, f.x1.sym_size(0));
  need_floats(op, "x2_scale", f.x2_scale, f.x2.sym_size(1));
}

void quant_product_all_to_all_into(const ExchangedPair& f, const ExchangedTypes& types, const Exchange& way,
                                   at::Tensor& out) {
  const Right right(f, types);
  const at::Tensor x1 = paired_factor(f.x1, types.x1), row = scale_of(*f.x1_scale, types.x1_scale),
                   column = scale_of(*f.x2_scale, types.x2_scale);
  if (way.mode) {
    ACLNN(aclnnQuantMatmulAlltoAllV2)
    (x1, right.x2, f.bias, row, column, nullptr, nullptr, nullptr, axes_of(way), way.group, *way.mode, *f.x1_mode,
     *f.x2_mode, 0, kNoType, group_sizes_of(*f.x1_mode), false, right.turned, out);
  } else {
    ACLNN(aclnnQuantMatmulAlltoAll)
    (x1, right.x2, f.bias, row, column, nullptr, nullptr, nullptr, axes_of(way), way.group, *f.x1_mode, *f.x2_mode, 0,
     kNoType, group_sizes_of(*f.x1_mode), false, right.turned, out);
  }
}

// -- experts

at::ScalarType expert_type(const char* op, const std::optional<int64_t>& type) {
  TORCH_CHECK_VALUE(type, op, ": the type of a result is needed");
  check_number(op, "the type of a result", *type,
               {static_cast<int64_t>(at::kHalf), static_cast<int64_t>(at::kBFloat16)});
  return static_cast<at::ScalarType>(*type);
}

Result quant_shared_result(const char* op, const OptionalTensor& x, const OptionalTensor& weight,
                           const std::optional<int64_t>& type) {
  if (!given(x) || !given(weight)) return absent();
  return sized({x->sym_size(0), weight->sym_size(1)}, expert_type(op, type));
}

void refuse_coded(const OptionalTensor& scale, const std::optional<int64_t>& mode, const std::optional<int64_t>& type) {
  const char* op = "npu_quant_gmm_alltoallv";
  refuse_given(op, "comm_quant_scale", scale);
  check_number(op, "comm_quant_mode", mode.value_or(0), {0});
  refuse_given(op, "comm_quant_dtype", type);
}

void check_quant_experts(const char* op, const GroupExperts& e, const ExpertScales& s, const ExpertTypes& types,
                         const OptionalTensor& sent, const OptionalTensor& received) {
  refuse_given(op, {{"send_counts_tensor", sent}, {"recv_counts_tensor", received}});
  check_group_experts(op, e, e.sent);
  const auto check = [&](const char* what, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& x_scale,
                         const OptionalTensor& weight_scale, const std::optional<int64_t>& x_mode,
                         const std::optional<int64_t>& weight_mode, const std::optional<int64_t>& x_type,
                         const std::optional<int64_t>& weight_type) {
    TORCH_CHECK_VALUE(x_mode && weight_mode, op, ": the quantization modes of ", what, " are needed");
    check_number(op, "a quantization mode", *x_mode, {kTensor, kPowers});
    check_number(op, "a quantization mode", *weight_mode, {*x_mode});
    TORCH_CHECK_NOT_IMPLEMENTED(float8(x) && float8(weight), op, ": ", what, " of ", type_name(x), " and ",
                                type_name(weight), " are not implemented; 8-bit floats are");
    need_exchange_groups(op, s.groups, *x_mode == kPowers);
    if (*x_mode == kPowers) {
      need_exchange_powers(op, "a scale of MX tokens", x_scale, x_type);
      return need_exchange_powers(op, "a scale of MX weights", weight_scale, weight_type);
    }
    need_floats(op, "a scale of tokens", x_scale, 1);
    need_floats(op, "a scale of weights", weight_scale, 1);
  };
  check("the experts", e.x, e.weight, s.x, s.weight, s.x_mode, s.weight_mode, types.x_scale, types.weight_scale);
  check_dtypes(op, {{"gmm_x_dtype", types.x, e.x}, {"gmm_weight_dtype", types.weight, e.weight}});
  if (!given(e.mm_x)) return;
  check("the shared expert", *e.mm_x, *e.mm_weight, s.mm_x, s.mm_weight, s.mm_x_mode, s.mm_weight_mode,
        types.mm_x_scale, types.mm_weight_scale);
  check_dtypes(op, {{"mm_x_dtype", types.mm_x, e.mm_x}, {"mm_weight_dtype", types.mm_weight, e.mm_weight}});
}

void quant_all_to_all_experts_into(const GroupExperts& e, const ExpertScales& s, const ExpertTypes& types,
                                   at::Tensor& y, at::Tensor& mm_y, at::Tensor& permuted) {
  const at::Tensor x = scale_of(s.x, types.x_scale), weight = scale_of(s.weight, types.weight_scale);
  const OptionalTensor mm_x = scale_of(s.mm_x, types.mm_x_scale),
                       mm_weight = scale_of(s.mm_weight, types.mm_weight_scale);
  const int64_t way = *s.x_mode, mm_way = s.mm_x_mode.value_or(0);
  if (e.mode) {
    ACLNN(aclnnAlltoAllvQuantGroupedMatMulV2)
    (e.x, e.weight, x, weight, nullptr, nullptr, e.mm_x, e.mm_weight, mm_x, mm_weight, way, way, mm_way, mm_way,
     e.group, *e.mode, e.ranks, e.sent, e.received, e.transposed, e.mm_transposed, group_sizes_of(way),
     permuted.defined(), y, mm_y, permuted);
  } else {
    ACLNN(aclnnAlltoAllvQuantGroupedMatMul)
    (e.x, e.weight, x, weight, nullptr, nullptr, e.mm_x, e.mm_weight, mm_x, mm_weight, way, way, mm_way, mm_way,
     e.group, e.ranks, e.sent, e.received, e.transposed, e.mm_transposed, group_sizes_of(way), permuted.defined(), y,
     mm_y, permuted);
  }
}

void quant_experts_all_to_all_into(const GroupExperts& e, const ExpertScales& s, const ExpertTypes& types,
                                   at::Tensor& y, at::Tensor& mm_y) {
  const at::Tensor x = scale_of(s.x, types.x_scale), weight = scale_of(s.weight, types.weight_scale);
  const OptionalTensor mm_x = scale_of(s.mm_x, types.mm_x_scale),
                       mm_weight = scale_of(s.mm_weight, types.mm_weight_scale);
  const int64_t way = *s.x_mode, mm_way = s.mm_x_mode.value_or(0);
  if (e.mode) {
    ACLNN(aclnnQuantGroupedMatMulAlltoAllvV2)
    (e.x, e.weight, x, weight, nullptr, nullptr, e.mm_x, e.mm_weight, mm_x, mm_weight, nullptr, way, way, mm_way,
     mm_way, 0, kNoType, group_sizes_of(way), e.group, *e.mode, e.ranks, e.sent, e.received, e.transposed,
     e.mm_transposed, y, mm_y);
  } else {
    ACLNN(aclnnQuantGroupedMatMulAlltoAllv)
    (e.x, e.weight, x, weight, nullptr, nullptr, e.mm_x, e.mm_weight, mm_x, mm_weight, nullptr, way, way, mm_way,
     mm_way, 0, kNoType, group_sizes_of(way), e.group, e.ranks, e.sent, e.received, e.transposed, e.mm_transposed, y,
     mm_y);
  }
}

}  // namespace npu::ops
