// See mx.h.
#include "csrc/ops/npu/mx.h"

#include <ATen/core/Tensor.h>

#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/numbered_type.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

struct Element {
  at::ScalarType stored, type;  // as users hold it, and as it is
  int64_t code;                 // CANN's number
  int64_t mantissa;             // bits, of the 4-bit types; 0 of the others
};
// float4_e1m2 has no type of PyTorch's; at the border bytes of two elements stand for it.
Element element(const char* op, int64_t type) {
  switch (type) {
    case static_cast<int64_t>(at::kFloat8_e5m2):
    case 291:
      return {at::kFloat8_e5m2, at::kFloat8_e5m2, 35, 0};
    case static_cast<int64_t>(at::kFloat8_e4m3fn):
    case 292:
      return {at::kFloat8_e4m3fn, at::kFloat8_e4m3fn, 36, 0};
    case static_cast<int64_t>(at::ScalarType::Float4_e2m1fn_x2):
    case 296:
      return {at::kByte, at::ScalarType::Float4_e2m1fn_x2, 40, 1};
    case 297:
      return {at::kByte, at::ScalarType::Bits4x2, 41, 2};
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": the type ", numbered_type(type),
                                  " is not implemented; float8_e5m2, float8_e4m3fn, ",
                                  "float4_e2m1 (296) and float4_e1m2 (297) are");
  }
}

// The documents round such a block's exponent by bits of its mantissa, which they do not name.
void refuse_rounded_exponent(const char* op, const MxForm& f) {
  TORCH_CHECK_NOT_IMPLEMENTED(f.alg != 2 || (f.largest > 6 && f.largest <= 12 && f.largest != 7), op,
                              ": scale_alg 2 is implemented for dst_type_max above 6 to 12 other than 7, not ",
                              f.largest);
}

c10::SymInt blocks(const c10::SymInt& n, int64_t block) { return (n + (block - 1)) / block; }

void need_list(const char* op, const char* name, const OptionalTensor& t) {
  if (!given(t)) return;
  need_dims(op, name, *t, {1});
  need_integers(op, name, t);
}

}  // namespace

int64_t mx_code(const char* op, int64_t type) { return element(op, type).code; }
bool of_four_bits(const char* op, int64_t type) { return element(op, type).mantissa > 0; }

Result mx_elements(const char* op, const Sizes& sizes, int64_t type) {
  const Element e = element(op, type);
  Sizes stored = sizes;
  if (e.mantissa > 0) stored.back() = stored.back() / 2;
  return sized(stored, e.stored);
}

Result mx_scales(const Sizes& sizes, int64_t axis, int64_t block) {
  Sizes of_pairs = sizes;
  const size_t dim = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis);
  of_pairs[dim] = blocks(of_pairs[dim], 2 * block);
  of_pairs.push_back(2);
  return sized(of_pairs, at::kByte);
}

Result mx_scales_of_groups(const Sizes& sizes, const OptionalTensor& ends) {
  Result r = mx_scales(sizes, -2);
  const size_t dim = sizes.size() - 2;
  if (given(ends)) r.sizes[dim] = sizes[dim] / 64 + ends->sym_size(0);
  return r;
}

at::Tensor as_elements(const at::Tensor& t, int64_t type) {
  const Element e = element("MX", type);
  return t.scalar_type() == e.type ? t : t.view(e.type);
}
at::Tensor as_scales(const at::Tensor& t) {
  return t.scalar_type() == at::kByte || t.scalar_type() == at::kChar ? t.view(at::kFloat8_e8m0fnu) : t;
}
OptionalTensor as_scales(const OptionalTensor& t) { return given(t) ? OptionalTensor(as_scales(*t)) : t; }

Sizes mx_sizes(const at::Tensor& t, int64_t type) {
  Sizes sizes = sizes_of(t);
  if (of_four_bits("MX", type)) sizes.back() = sizes.back() * 2;
  return sizes;
}

void check_mx(const char* op, const at::Tensor& x, const MxForm& f, std::initializer_list<int64_t> algorithms) {
  const Element e = element(op, f.type);
  need_type(op, "the operand", x, {at::kFloat, at::kHalf, at::kBFloat16});
  TORCH_CHECK(x.dim() > 0, op, ": the operand has no dimensions");
  const bool four = e.mantissa > 0;
  if (four) {
    check_word(op, "round_mode", f.round, {"rint", "floor", "round"});
    TORCH_SYM_CHECK((x.sym_size(-1) % 2).sym_eq(0), op, ": the last dimension, ", x.sym_size(-1),
                    ", must be even for 4-bit types");
  } else {
    check_word(op, "round_mode", f.round, {"rint"});
  }
  check_number(op, "scale_alg", f.alg, algorithms);
  TORCH_CHECK_VALUE(f.alg != 1 || !four, op, ": scale_alg 1 goes with 8-bit types");
  TORCH_CHECK_VALUE(f.alg != 2 || e.mantissa == 1, op, ": scale_alg 2 goes with float4_e2m1");
  TORCH_CHECK_VALUE(f.largest == 0 || f.alg == 2, op, ": dst_type_max ", f.largest, " goes with scale_alg 2");
  TORCH_CHECK_VALUE(f.least == 0 || (f.alg == 1 && f.least > 0), op, ": max_low_bound ", f.least,
                    " must be positive and goes with scale_alg 1");
}

void check_mx_blocks(const at::Tensor& input, int64_t axis, int64_t block, const MxForm& form) {
  const char* const op = "npu_dynamic_mx_quant";
  check_mx(op, input, form, {0, 1, 2});
  refuse_rounded_exponent(op, form);
  TORCH_CHECK_VALUE(block > 0 && block <= 1024 && block % 32 == 0, op, ": block_size ", block,
                    " must be a multiple of 32 up to 1024");
  TORCH_CHECK_VALUE(form.alg != 2 || block == 32, op, ": block_size ", block, " must be 32 with scale_alg 2");
  wrap(input, axis);
}

void check_mx_twice(const char* op, const at::Tensor& input, const MxForm& form) {
  check_mx(op, input, form, {0, 1, 2});
  refuse_rounded_exponent(op, form);
  TORCH_CHECK(input.dim() >= 2, op, ": the operand has ", input.dim(), " dimensions, at least 2 are expected");
}

void check_mx_squares(const at::Tensor& input, const MxForm& form) {
  const char* const op = "npu_dynamic_block_mx_quant";
  need_dims(op, "input", input, {2, 3});
  check_mx(op, input, form, {0, 2});
  TORCH_CHECK_VALUE(form.largest == 0 || form.largest == 6 || form.largest == 7, op, ": dst_type_max ", form.largest,
                    " must be 0, 6 or 7");
}

void check_mx_levels(const at::Tensor& input, const OptionalTensor& smooth, std::string_view round) {
  const char* const op = "npu_dynamic_dual_level_mx_quant";
  check_mx(op, input, {round, 296}, {0});
  need_sizes(op, "smooth_scale", smooth, {input.sym_size(-1)});
  if (given(smooth)) need_same_type(op, "input", input, "smooth_scale", *smooth);
}

void check_mx_groups(const char* op, const at::Tensor& x, const at::Tensor& ends) {
  need_dims(op, "x", x, {2});
  need_list(op, "group_index", ends);
  TORCH_SYM_CHECK(ends.sym_size(0).sym_gt(0), op, ": group_index is empty");
}

void check_anti_mx(const at::Tensor& x, const at::Tensor& scale, int64_t axis, int64_t type, int64_t source) {
  const char* const op = "npu_anti_mx_quant";
  TORCH_CHECK(x.dim() > 0, op, ": x has no dimensions");
  const Element e = element(op, source);
  need_type(op, "x", x, {e.stored, e.type});
  need_type(op, "mxscale", scale, {at::kByte, at::kFloat8_e8m0fnu});
  check_type(op, "dst_type", type, {at::kHalf, at::kFloat, at::kBFloat16});
  need_sizes(op, "mxscale", scale, mx_scales(mx_sizes(x, source), wrap(x, axis)).sizes);
}

void check_mx_norm(const char* op, const at::Tensor& x1, const OptionalTensor& x2, const at::Tensor& gamma,
                   const OptionalTensor& beta, const MxForm& form) {
  check_mx(op, x1, form, {0, 1});
  need_sizes(op, "x2", x2, sizes_of(x1));
  if (given(x2)) need_same_type(op, "x1", x1, "x2", *x2);
  need_sizes(op, "gamma", gamma, {x1.sym_size(-1)});
  need_sizes(op, "beta", beta, {x1.sym_size(-1)});
  if (given(beta)) need_same_type(op, "gamma", gamma, "beta", *beta);
}

void check_mx_gate(const at::Tensor& x, const OptionalTensor& groups, const MxGate& gate, const MxForm& form) {
  const char* const op = "npu_swiglu_mx_quant";
  check_number(op, "swiglu_mode", gate.mode, {0, 1, 2, 3});
  check_number(op, "group_mode", gate.group_mode, {0, 1});
  TORCH_CHECK_VALUE(form.largest == 0, op, ": max_dtype_value goes with scale_alg 2, which is not implemented");
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least 2 are expected");
  const int64_t last = x.dim() - 1, dim = wrap(x, gate.dim), axis = wrap(x, gate.axis);
  TORCH_CHECK_VALUE(dim >= last - 1 && axis >= last - 1, op, ": activate_dim and axis are of the last two dimensions");
  TORCH_CHECK_VALUE(dim == last || gate.mode == 0, op, ": swiglu_mode ", gate.mode, " goes with the last activate_dim");
  TORCH_CHECK_VALUE(gate.mode < 2 || axis == last, op, ": swiglu_mode ", gate.mode, " goes with the last axis");
  TORCH_CHECK_NOT_IMPLEMENTED(!given(groups) || (dim == last && axis == last), op,
                              ": group_index is implemented along the last dimension alone");
  need_list(op, "group_index", groups);
  TORCH_CHECK_VALUE(gate.mode == 0 || gate.limit > 0, op, ": clamp_limit ", gate.limit, " is not positive");
  TORCH_SYM_CHECK((x.sym_size(dim) % 2).sym_eq(0), op, ": dimension ", dim, " of ", x.sym_size(dim), " is not even");
  check_mx(op, x, form, {0, 1});
  TORCH_SYM_CHECK((x.sym_size(-1) % (of_four_bits(op, form.type) && dim == last ? 4 : 1)).sym_eq(0), op,
                  ": the last dimension of x, ", x.sym_size(-1), ", must be a multiple of 4 for 4-bit types");
}

void check_mx_gate_twice(const char* op, const at::Tensor& x, const OptionalTensor& gradient,
                         const OptionalTensor& ends, const MxForm& form) {
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least 2 are expected");
  check_mx(op, x, {form.round, form.type, form.alg}, {0, 1});
  TORCH_CHECK_VALUE(form.largest == 0, op, ": dst_type_max ", form.largest, " is not 0");
  const int64_t even = of_four_bits(op, form.type) && !given(gradient) ? 4 : 2;
  TORCH_SYM_CHECK((x.sym_size(-1) % even).sym_eq(0), op, ": the last dimension of x, ", x.sym_size(-1),
                  ", must be a multiple of ", even);
  need_list(op, "group_index", ends);
  if (given(ends)) need_dims(op, "x", x, {2});
  if (!given(gradient)) return;
  need_sizes(op, "y_grad", gradient, halved(x, -1));
  need_same_type(op, "x", x, "y_grad", *gradient);
}

void check_block_groups(const at::Tensor& x, const at::Tensor& ends, double least, int64_t type, int64_t rows,
                        int64_t columns) {
  const char* const op = "npu_grouped_dynamic_block_quant";
  need_dims(op, "x", x, {2, 3});
  need_list(op, "group_list", ends);
  TORCH_SYM_CHECK(x.sym_numel().sym_eq(0).sym_or(ends.sym_size(0).sym_gt(0)), op,
                  ": group_list is empty; give the row at which each group of x ends");
  need_type(op, "x", x, {at::kFloat, at::kHalf, at::kBFloat16});
  TORCH_CHECK_VALUE(rows > 0 && columns > 0, op, ": blocks of ", rows, " x ", columns);
  TORCH_CHECK_VALUE(least >= 0, op, ": min_scale ", least, " is negative");
  TORCH_CHECK_NOT_IMPLEMENTED(!of_four_bits(op, type), op, ": dst_type ", numbered_type(type),
                              " is not implemented, 8-bit types are");
}

Result grouped_block_scales(const at::Tensor& x, const at::Tensor& ends, int64_t rows, int64_t columns) {
  Sizes sizes = sizes_of(x);
  sizes[sizes.size() - 2] = x.sym_size(-2) / rows + ends.sym_size(0);
  sizes.back() = blocks(sizes.back(), columns);
  return sized(sizes, at::kFloat);
}

void check_kronecker(const at::Tensor& x, const at::Tensor& left, const at::Tensor& right, std::optional<double> clip,
                     const std::optional<int64_t>& type, std::optional<double> largest) {
  const char* const op = "npu_kronecker_quant";
  TORCH_CHECK_NOT_IMPLEMENTED(!type || *type == static_cast<int64_t>(at::kInt), op, ": dst_dtype ", *type,
                              " is not implemented, 4-bit integers in int32 are; leave it out");
  TORCH_CHECK_VALUE(largest.value_or(0) == 0, op, ": dst_type_max goes with float4_e2m1");
  need_dims(op, "x", x, {3});
  need_sizes(op, "kronecker_p1", left, {x.sym_size(1), x.sym_size(1)});
  need_sizes(op, "kronecker_p2", right, {x.sym_size(2), x.sym_size(2)});
  need_same_type(op, "x", x, "kronecker_p1", left);
  need_same_type(op, "x", x, "kronecker_p2", right);
  const double ratio = clip.value_or(1);
  TORCH_CHECK_VALUE(ratio > 0 && ratio <= 1, op, ": clip_ratio must be above 0 and at most 1, got ", ratio);
  TORCH_SYM_CHECK((x.sym_size(2) % 8).sym_eq(0), op, ": the last dimension of x, ", x.sym_size(2),
                  ", must be a multiple of 8");
}

// int8 where none is named; the vendor's quint4x2 is eight 4-bit integers in an int32.
int64_t rotated_type(const std::optional<int64_t>& type) { return type.value_or(static_cast<int64_t>(at::kChar)); }

namespace {

bool whole(int64_t type) {
  return type == static_cast<int64_t>(at::kChar) || type == static_cast<int64_t>(at::ScalarType::QUInt4x2);
}

}  // namespace

void check_rotate_quant(const at::Tensor& x, const at::Tensor& rotation, const OptionalTensor& alpha, int64_t axis,
                        const MxForm& form, bool turned) {
  const char* const op = "npu_rotate_quant";
  TORCH_CHECK_NOT_IMPLEMENTED(!turned, op, ": transpose_y is not implemented");
  TORCH_CHECK(x.dim() > 0, op, ": x has no dimensions");
  TORCH_CHECK_NOT_IMPLEMENTED(wrap(x, axis) == x.dim() - 1, op, ": axis ", axis, " is not implemented, the last is");
  TORCH_CHECK_NOT_IMPLEMENTED(rotation.dim() == 2, op, ": a rotation of ", rotation.dim(),
                              " dimensions is not implemented; one of [k, k] is");
  need_sizes(op, "rotation", rotation, {rotation.sym_size(0), rotation.sym_size(0)});
  TORCH_SYM_CHECK(rotation.sym_size(0).sym_gt(0), op, ": rotation must have elements, it has the sizes ",
                  rotation.sym_sizes());
  need_same_type(op, "x", x, "rotation", rotation);
  TORCH_SYM_CHECK((x.sym_size(-1) % rotation.sym_size(0)).sym_eq(0), op, ": the last dimension of x, ", x.sym_size(-1),
                  ", must be a multiple of the rotation's ", rotation.sym_size(0));
  need_sizes(op, "alpha", alpha, {1});
  if (!whole(form.type)) {
    TORCH_CHECK_NOT_IMPLEMENTED(form.type != 297, op, ": float4_e1m2 is not implemented");
    check_mx(op, x, form, {0, 1, 2});
    return refuse_rounded_exponent(op, form);
  }
  need_dims(op, "x", x, {2});
  need_type(op, "x", x, {at::kFloat, at::kHalf, at::kBFloat16});
  check_word(op, "round_mode", form.round, {"rint", "floor", "round"});
  TORCH_CHECK_VALUE(!given(alpha) && form.alg == 0 && form.largest == 0, op,
                    ": alpha, scale_alg and dst_type_max go with floating elements");
  TORCH_SYM_CHECK((x.sym_size(1) % 8).sym_eq(0), op, ": the last dimension of x, ", x.sym_size(1),
                  ", must be a multiple of 8");
}

at::Tensor rotated_as(const at::Tensor& y, int64_t type) { return whole(type) ? y : as_elements(y, type); }

Result rotated_elements(const at::Tensor& x, int64_t type) {
  if (!whole(type)) return mx_elements("npu_rotate_quant", sizes_of(x), type);
  if (type == static_cast<int64_t>(at::kChar)) return like(x, at::kChar);
  return sized(with_size(x, -1, x.sym_size(-1) / 8), at::kInt);
}

Result rotated_scales(const at::Tensor& x, int64_t type) {
  if (whole(type)) return sized({x.sym_size(0)}, at::kFloat);
  Result r = mx_scales(sizes_of(x), -1);
  r.type = at::kFloat8_e8m0fnu;
  return r;
}

namespace {

constexpr const char* kGroupGate = "npu_swiglu_group_quant";
constexpr int64_t kMxGate = 1, kGivenGate = 2, kLargestGate = 3;  // modes
bool makes_codes(int64_t mode) { return mode == kGivenGate || mode == kLargestGate; }
void need_row_weights(const char* op, const at::Tensor& x, const at::Tensor& weight) {
  const Sizes rows = without_last(x);
  TORCH_SYM_CHECK(weight.sym_numel().sym_eq(c10::multiply_integers(rows)), op, ": weight has ", weight.sym_numel(),
                  " numbers, one a row of x is expected");
}
c10::SymInt groups_of(const OptionalTensor& counts) { return given(counts) ? counts->sym_size(0) : c10::SymInt(1); }

}  // namespace

void check_group_gate(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& counts,
                      const OptionalTensor& scale, const GroupGate& gate) {
  const char* const op = kGroupGate;
  check_number(op, "quant_mode", gate.mode, {0, kMxGate, kGivenGate, kLargestGate});
  const bool codes = makes_codes(gate.mode), four = !codes && of_four_bits(op, gate.type);
  TORCH_CHECK_VALUE(!four || gate.mode == kMxGate, op, ": dst_type ", gate.type, ", of 4 bits, goes with quant_mode 1");
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least 2 are expected");
  need_type(op, "x", x, {at::kFloat, at::kHalf, at::kBFloat16});
  const int64_t block = gate.mode == kMxGate ? 32 : 128, even = four ? 4 : 2;
  TORCH_CHECK_VALUE(codes || gate.block == 0 || gate.block == block, op, ": block_size ", gate.block, " is 0 or ",
                    block);
  TORCH_CHECK_VALUE(gate.mode != kMxGate || gate.round, op, ": round_scale is needed with quant_mode 1");
  TORCH_CHECK_VALUE(gate.limit == -1 || gate.limit > 0, op, ": clamp_limit ", gate.limit, " is -1 or positive");
  TORCH_CHECK_VALUE(codes || !gate.origin, op, ": output_origin goes with quant_mode 2 and 3");
  if (gate.mode == kLargestGate) {
    TORCH_CHECK_VALUE(gate.largest == 15 || gate.largest == 56 || gate.largest == 224 || gate.largest == 32768, op,
                      ": dst_type_max ", gate.largest, " is 15, 56, 224 or 32768");
  } else {
    TORCH_CHECK_VALUE(gate.largest == 15, op, ": dst_type_max ", gate.largest, " goes with quant_mode 3");
  }
  TORCH_SYM_CHECK((x.sym_size(-1) % even).sym_eq(0), op, ": the last dimension of x, ", x.sym_size(-1),
                  ", must be a multiple of ", even);
  need_type(op, "weight", weight, {at::kFloat});
  if (given(weight)) need_row_weights(op, x, *weight);
  need_list(op, "group_index", counts);
  if (given(counts)) TORCH_SYM_CHECK(counts->sym_size(0).sym_gt(0), op, ": group_index is empty; leave it out");
  TORCH_CHECK_VALUE(given(scale) == (gate.mode == kGivenGate), op, ": scale goes with quant_mode 2, which needs it");
  need_type(op, "scale", scale, {at::kFloat});
  need_sizes(op, "scale", scale, {groups_of(counts)});
}

int64_t group_gate_code(int64_t type, int64_t mode) {
  constexpr int64_t kAclHifloat8 = 34;
  return makes_codes(mode) ? kAclHifloat8 : mx_code(kGroupGate, type);
}

Result group_gate_values(const at::Tensor& x, int64_t type, int64_t mode) {
  return makes_codes(mode) ? sized(halved(x, -1), at::kByte) : mx_elements(kGroupGate, halved(x, -1), type);
}

at::Tensor group_gate_written(const at::Tensor& y, int64_t type, int64_t mode) {
  return makes_codes(mode) ? y.view(kHifloat8Codes) : as_elements(y, type);
}

Result group_gate_scales(const at::Tensor& x, const OptionalTensor& counts, int64_t mode) {
  if (mode == kGivenGate) return nothing(at::kFloat);
  if (mode == kLargestGate) return sized({groups_of(counts)}, at::kFloat);
  const Sizes half = halved(x, -1);
  if (mode == kMxGate) {
    Result r = mx_scales(half, -1);
    r.type = at::kFloat8_e8m0fnu;
    return r;
  }
  Sizes sizes = half;
  sizes.back() = blocks(sizes.back(), 128);
  return sized(sizes, at::kFloat);
}

void check_group_gate_backward(const at::Tensor& dy, const at::Tensor& x, const OptionalTensor& weight,
                               const OptionalTensor& origin, const OptionalTensor& counts, double limit) {
  const char* const op = "npu_swiglu_group_quant_backward";
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least 2 are expected");
  need_type(op, "x", x, {at::kFloat, at::kHalf, at::kBFloat16});
  need_same_type(op, "x", x, "grad_y", dy);
  need_sizes(op, "grad_y", dy, halved(x, -1));
  TORCH_CHECK_VALUE(limit == -1 || limit >= 0, op, ": clamp_limit ", limit, " is -1 or positive");
  need_list(op, "group_index", counts);
  need_type(op, "weight", weight, {at::kFloat});
  if (!given(weight)) return;
  TORCH_CHECK_VALUE(given(origin), op, ": y_origin is needed with weight");
  need_sizes(op, "y_origin", origin, halved(x, -1));
  need_same_type(op, "x", x, "y_origin", *origin);
  need_row_weights(op, x, *weight);
}

}  // namespace npu::ops
