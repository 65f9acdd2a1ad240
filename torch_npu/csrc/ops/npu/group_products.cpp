// See group_products.h.
#include "csrc/ops/npu/group_products.h"

#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

constexpr int64_t kStreamMode = 1;  // CANN's only one: a failure stops the stream

constexpr int64_t kVendor = 256;  // the vendor's number of a type is CANN's and this

const OptionalTensor kNone;

std::string_view engine(const OptionalWord& mode) { return mode.value_or("ai_cpu"); }

at::IntArrayRef or_none(at::OptionalIntArrayRef axes) { return axes.value_or(at::IntArrayRef()); }

}  // namespace

void check_group_product(const char* op, const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                         int64_t most_dims) {
  TORCH_CHECK_VALUE(a.dim() >= 2 && a.dim() <= most_dims, op, ": the left factor has ", a.dim(), " dimensions, not 2",
                    most_dims > 2 ? " or 3" : "");
  need_dims(op, "x2", b, {2});
  TORCH_CHECK_VALUE(a.sym_size(-1) == b.sym_size(0), op, ": the left factor has ", a.sym_size(-1),
                    " columns, and x2 has ", b.sym_size(0), " rows");
  need_sizes(op, "bias", bias, {b.sym_size(1)});
}

void check_group_settings(const char* op, std::string_view group, const OptionalWord& mode, int64_t turn,
                          std::string_view reduce) {
  TORCH_CHECK_VALUE(!group.empty() && group.size() < 128, op, ": the group's name '", group,
                    "' is no communicator's; get_hccl_comm_name of the group's backend gives it");
  check_word(op, "reduce_op", reduce, {"sum"});
  check_number(op, "comm_turn", turn, {0});
  if (mode) check_word(op, "comm_mode", *mode, {"ai_cpu", "ccu", "aiv"});
}

void check_world(const char* op, int64_t ranks) {
  TORCH_CHECK_VALUE(ranks > 0, op, ": a group has 1 rank or more, not ", ranks);
}

void check_shares(const char* op, const char* what, const c10::SymInt& size, int64_t ranks) {
  check_world(op, ranks);
  TORCH_CHECK_VALUE(size % ranks == 0, op, ": ", what, ", ", size, ", cannot be divided among ", ranks, " ranks");
}

void check_axes(const char* op, at::OptionalIntArrayRef axes, at::IntArrayRef only) {
  TORCH_CHECK_VALUE(!axes || axes->empty() || *axes == only, op, ": all2all_axes is ", only, " or left out, not ",
                    axes.value_or(at::IntArrayRef()));
}

void check_all_to_all(const char* op, const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                      int64_t ranks, at::OptionalIntArrayRef axes, at::IntArrayRef only) {
  check_axes(op, axes, only);
  need_dims(op, "x1", x1, {2});
  need_dims(op, "x2", x2, {2});
  TORCH_CHECK_VALUE(x1.sym_size(1) * ranks == x2.sym_size(0), op, ": x2 has ", x2.sym_size(0), " rows, and x1 has ",
                    x1.sym_size(1), " columns on each of ", ranks, " ranks");
  need_sizes(op, "bias", bias, {x2.sym_size(1)});
}

void check_scales(const char* op, const at::Tensor& a, const at::Tensor& b, const ProductScales& scales) {
  if (a.scalar_type() == at::kChar) {
    need_type(op, "x2", b, {at::kChar});
    TORCH_CHECK_VALUE(given(scales.column), op, ": int8 factors need the scale of x2");
    need_elements(op, "the scale of x2", scales.column, {1, b.sym_size(1)});
    need_elements(op, "the scale of x1", scales.row, {row_count(a)});
    return;
  }
  TORCH_CHECK_VALUE(!given(scales.column) && !given(scales.row), op, ": scales are of int8 factors, not of ",
                    type_name(a));
}

at::ScalarType scaled_type(const char* op, const at::Tensor& a, const OptionalTensor& column,
                           const std::optional<at::ScalarType>& type) {
  if (!given(column)) {
    check_result_type(op, "output_dtype", type, a.scalar_type());
    return a.scalar_type();
  }
  if (column->scalar_type() == at::kLong) {
    check_result_type(op, "output_dtype", type, at::kHalf);
    return at::kHalf;
  }
  const at::ScalarType made = type.value_or(at::kBFloat16);
  TORCH_CHECK_VALUE(made == at::kBFloat16 || made == at::kHalf, op, ": output_dtype is bfloat16 or float16, not ",
                    type_name(made));
  return made;
}

at::ScalarType named_type(const char* op, const at::Tensor& a, const std::optional<int64_t>& type) {
  if (a.is_floating_point()) {
    check_result_type(op, "y_dtype", type, a.scalar_type());
    return a.scalar_type();
  }
  TORCH_CHECK_VALUE(type, op, ": y_dtype is needed for factors of ", type_name(a));
  for (const at::ScalarType made : {at::kHalf, at::kBFloat16}) {
    if (*type == static_cast<int64_t>(made) || *type == kVendor + acl_dtype(made)) return made;
  }
  TORCH_CHECK_VALUE(false, op, ": y_dtype is float16 or bfloat16, not ", *type);
}

void check_all_reduce(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias, const OptionalTensor& x3,
                      const ReductionScales& s) {
  const char* const op = "npu_mm_all_reduce_base";
  check_group_product(op, x1, x2, bias, 3);
  need_sizes(op, "x3", x3, with_size(x1, -1, x2.sym_size(1)));
  const bool rows = x1.scalar_type() == at::kChar, weights = x2.scalar_type() == at::kChar;
  need_type(op, "x1", x1, {at::kHalf, at::kBFloat16, at::kFloat, at::kChar});
  need_type(op, "x2", x2, {rows ? at::kChar : x1.scalar_type(), at::kChar});
  TORCH_CHECK_VALUE((weights && !rows) == given(s.weight), op,
                    ": antiquant_scale is of an int8 x2 beside floating x1, and of nothing else");
  TORCH_CHECK_VALUE(given(s.weight) || !given(s.weight_offset), op, ": antiquant_offset needs antiquant_scale");
  TORCH_CHECK_VALUE(given(s.weight) || s.weight_group == 0, op, ": antiquant_group_size needs antiquant_scale");
  check_scales(op, x1, x2, {s.row, s.column});
  TORCH_CHECK_VALUE(given(s.first) == given(s.second), op, ": comm_quant_scale_1 and comm_quant_scale_2 go together");
  TORCH_CHECK_VALUE(rows || !given(s.first), op, ": comm_quant_scale_1 is of int8 factors");
  need_elements(op, "comm_quant_scale_1", s.first, {x2.sym_size(1)});
  need_elements(op, "comm_quant_scale_2", s.second, {x2.sym_size(1)});
  check_number(op, "comm_quant_mode", s.coding, {0});
}

at::ScalarType reduced_type(const at::Tensor& x1, const OptionalTensor& column) {
  if (given(column) && column->scalar_type() == at::kBFloat16) return at::kBFloat16;
  return x1.scalar_type() == at::kChar ? at::kHalf : x1.scalar_type();
}

void all_reduce_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias, const OptionalTensor& x3,
                     const Reduction& r, const ReductionScales& s, at::Tensor& out) {
  const bool rows = x1.scalar_type() == at::kChar, weights = x2.scalar_type() == at::kChar;
  if (rows) {
    if (r.mode) {
      ACLNN(aclnnQuantMatmulAllReduceV5)
      (x1, x2, bias, x3, s.row, s.column, s.first, s.second, r.group, r.op, *r.mode, r.turn, kStreamMode, 0, s.coding,
       out);
    } else if (given(s.first)) {
      ACLNN(aclnnQuantMatmulAllReduceV3)
      (x1, x2, bias, x3, s.column, s.row, s.first, s.second, r.group, r.op, r.turn, kStreamMode, out);
    } else if (given(s.row)) {
      ACLNN(aclnnQuantMatmulAllReduceV2)(x1, x2, bias, x3, s.column, s.row, r.group, r.op, r.turn, kStreamMode, out);
    } else {
      ACLNN(aclnnQuantMatmulAllReduce)(x1, x2, bias, x3, s.column, r.group, r.op, r.turn, kStreamMode, out);
    }
  } else if (weights) {
    if (r.mode) {
      ACLNN(aclnnWeightQuantMatmulAllReduceV2)
      (x1, x2, bias, s.weight, s.weight_offset, x3, r.group, r.op, *r.mode, r.turn, kStreamMode, s.weight_group, out);
    } else {
      ACLNN(aclnnWeightQuantMatmulAllReduce)
      (x1, x2, bias, s.weight, s.weight_offset, x3, r.group, r.op, r.turn, kStreamMode, s.weight_group, out);
    }
  } else if (r.mode) {
    ACLNN(aclnnMatmulAllReduceV3)(x1, x2, bias, x3, r.group, r.op, *r.mode, r.turn, kStreamMode, out);
  } else if (given(x3)) {
    ACLNN(aclnnMatmulAllReduceV2)(x1, x2, bias, x3, r.group, r.op, r.turn, kStreamMode, out);
  } else {
    ACLNN(aclnnMatmulAllReduce)(x1, x2, bias, r.group, r.op, r.turn, kStreamMode, out);
  }
}

void all_gather_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                     const ProductScales& scales, const Gathering& g, at::Tensor& out, at::Tensor& gathered) {
  if (engine(g.mode) == "ai_cpu" && !given(scales.column)) {
    ACLNN(aclnnAllGatherMatmul)(x1, x2, bias, g.group, g.index, g.turn, kStreamMode, out, gathered);
  } else {
    ACLNN(aclnnAllGatherMatmulV2)
    (x1, x2, bias, scales.row, scales.column, kNone, 0, g.group, g.index, g.turn, kStreamMode, 0, engine(g.mode), out,
     gathered, kNone);
  }
}

void reduce_scatter_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                         const ProductScales& scales, const Reduction& r, at::Tensor& out) {
  if (engine(r.mode) == "ai_cpu" && !given(scales.column)) {
    ACLNN(aclnnMatmulReduceScatter)(x1, x2, bias, r.group, r.op, r.turn, kStreamMode, out);
  } else {
    ACLNN(aclnnMatmulReduceScatterV2)
    (x1, x2, bias, scales.row, scales.column, kNone, 0, r.group, r.op, r.turn, kStreamMode, 0, engine(r.mode), out,
     kNone);
  }
}

void all_to_all_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                     at::OptionalIntArrayRef axes, std::string_view group, const OptionalWord& mode, at::Tensor& out,
                     at::Tensor& exchanged) {
  if (mode) {
    ACLNN(aclnnAlltoAllMatmulV2)(x1, x2, bias, or_none(axes), group, *mode, false, false, out, exchanged);
  } else {
    ACLNN(aclnnAlltoAllMatmul)(x1, x2, bias, or_none(axes), group, false, false, out, exchanged);
  }
}

void product_all_to_all_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                             at::OptionalIntArrayRef axes, std::string_view group, const OptionalWord& mode,
                             at::Tensor& out) {
  if (mode) {
    ACLNN(aclnnMatmulAlltoAllV2)(x1, x2, bias, or_none(axes), group, *mode, false, false, out);
  } else {
    ACLNN(aclnnMatmulAlltoAll)(x1, x2, bias, or_none(axes), group, false, false, out);
  }
}

c10::SymInt tokens_of(at::IntArrayRef counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

c10::SymInt expert_columns(const at::Tensor& weight, bool transposed) { return weight.sym_size(transposed ? 1 : 2); }

Result shared_result(const OptionalTensor& x, const OptionalTensor& weight, bool transposed) {
  if (!given(x) || !given(weight)) return absent();
  return sized({x->sym_size(0), weight->sym_size(transposed ? 0 : 1)}, x->scalar_type());
}

void check_group_experts(const char* op, const GroupExperts& e, at::IntArrayRef counts_of_x) {
  check_group_settings(op, e.group, e.mode);
  check_world(op, e.ranks);
  need_dims(op, "gmm_x", e.x, {2});
  need_dims(op, "gmm_weight", e.weight, {3});
  const c10::SymInt inner = e.weight.sym_size(e.transposed ? 2 : 1);
  TORCH_CHECK_VALUE(e.x.sym_size(1) == inner, op, ": gmm_x has ", e.x.sym_size(1), " columns, and gmm_weight takes ",
                    inner);
  for (const auto& [name, counts] : {std::pair{"send_counts", e.sent}, {"recv_counts", e.received}}) {
    TORCH_CHECK_VALUE(e.weight.sym_size(0) * e.ranks == static_cast<int64_t>(counts.size()), op, ": ", name, " has ",
                      counts.size(), " numbers, not one for each of ", e.weight.sym_size(0), " experts of each of ",
                      e.ranks, " ranks");
    for (const int64_t count : counts)
      TORCH_CHECK_VALUE(count >= 0, op, ": ", name, " has a number below zero, ", count);
  }
  TORCH_CHECK_VALUE(e.x.sym_size(0) == tokens_of(counts_of_x), op, ": the counts say that gmm_x has ",
                    tokens_of(counts_of_x), " rows, and it has ", e.x.sym_size(0));
  TORCH_CHECK_VALUE(given(e.mm_x) == given(e.mm_weight), op, ": mm_x and mm_weight go together");
  if (!given(e.mm_x)) return;
  need_dims(op, "mm_x", *e.mm_x, {2});
  need_dims(op, "mm_weight", *e.mm_weight, {2});
  TORCH_CHECK_VALUE(e.mm_x->sym_size(1) == e.mm_weight->sym_size(e.mm_transposed ? 1 : 0), op, ": mm_x of sizes ",
                    e.mm_x->sym_sizes(), " and mm_weight of sizes ", e.mm_weight->sym_sizes(), " have no product");
}

void all_to_all_experts_into(const GroupExperts& e, at::Tensor& y, at::Tensor& mm_y, at::Tensor& permuted) {
  const bool wanted = permuted.defined();
  if (e.mode) {
    ACLNN(aclnnAlltoAllvGroupedMatMulV2)
    (e.x, e.weight, kNone, kNone, e.mm_x, e.mm_weight, e.group, *e.mode, e.ranks, e.sent, e.received, e.transposed,
     e.mm_transposed, wanted, y, mm_y, permuted);
  } else {
    ACLNN(aclnnAlltoAllvGroupedMatMul)
    (e.x, e.weight, kNone, kNone, e.mm_x, e.mm_weight, e.group, e.ranks, e.sent, e.received, e.transposed,
     e.mm_transposed, wanted, y, mm_y, permuted);
  }
}

void experts_all_to_all_into(const GroupExperts& e, at::Tensor& y, at::Tensor& mm_y) {
  if (e.mode) {
    ACLNN(aclnnGroupedMatMulAlltoAllvV2)
    (e.x, e.weight, kNone, kNone, e.mm_x, e.mm_weight, e.group, *e.mode, e.ranks, e.sent, e.received, e.transposed,
     e.mm_transposed, y, mm_y);
  } else {
    ACLNN(aclnnGroupedMatMulAlltoAllv)
    (e.x, e.weight, kNone, kNone, e.mm_x, e.mm_weight, e.group, e.ranks, e.sent, e.received, e.transposed,
     e.mm_transposed, y, mm_y);
  }
}

void check_product_all_to_all(const at::Tensor& x1, const at::Tensor& x2, std::string_view hcom, int64_t world_size,
                              const OptionalTensor& bias, at::OptionalIntArrayRef all2all_axes,
                              std::optional<std::string_view> comm_mode) {
  constexpr const char* kOp = "npu_matmul_all_to_all";
  check_group_settings(kOp, hcom, comm_mode);
  check_group_product(kOp, x1, x2, bias);
  check_shares(kOp, "the columns of x2", x2.sym_size(1), world_size);
  check_axes(kOp, all2all_axes, {-1, -2});
}

void check_all_to_all_product(const at::Tensor& x1, const at::Tensor& x2, std::string_view hcom, int64_t world_size,
                              const OptionalTensor& bias, at::OptionalIntArrayRef all2all_axes,
                              std::optional<std::string_view> comm_mode) {
  constexpr const char* kOp = "npu_all_to_all_matmul";
  check_group_settings(kOp, hcom, comm_mode);
  check_shares(kOp, "the rows of x1", x1.sym_size(0), world_size);
  check_all_to_all(kOp, x1, x2, bias, world_size, all2all_axes, {-2, -1});
}

void check_gathered_product(const char* op, const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                            const ProductScales& scales, int64_t ranks, const Gathering& g) {
  check_group_settings(op, g.group, g.mode, g.turn);
  check_world(op, ranks);
  check_number(op, "gather_index", g.index, {0});
  check_group_product(op, a, b, bias);
  check_scales(op, a, b, scales);
}

void check_scattered_product(const char* op, const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                             const ProductScales& scales, int64_t ranks, const Reduction& r) {
  check_group_settings(op, r.group, r.mode, r.turn, r.op);
  check_group_product(op, a, b, bias);
  check_shares(op, "the rows of the input", a.sym_size(0), ranks);
  check_scales(op, a, b, scales);
}

static void check_quantized_product(const char* op, const at::Tensor& a, const at::Tensor& b,
                                    const ProductScales& scales, const ProductTypes& types,
                                    const OptionalTensor& quant_scale, const ProductBlocks& blocks) {
  check_dtypes(op, {{"x1_dtype", types.a, a},
                    {"x2_dtype", types.b, b},
                    {"x1_scale_dtype", types.row, scales.row},
                    {"x2_scale_dtype", types.column, scales.column}});
  refuse_given(op, "quant_scale", quant_scale);
  refuse_given(op, "group_sizes", blocks.groups);
  check_number(op, "block_size", blocks.block, {0});
  check_number(op, "amax_output", blocks.largest, {0});
}

void check_quantized_gather(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                            const ProductScales& scales, int64_t ranks, const Gathering& g, const ProductTypes& types,
                            const OptionalTensor& quant_scale, const ProductBlocks& blocks) {
  constexpr const char* kOp = "npu_all_gather_quant_mm";
  check_gathered_product(kOp, a, b, bias, scales, ranks, g);
  check_quantized_product(kOp, a, b, scales, types, quant_scale, blocks);
}

void check_quantized_scatter(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                             const ProductScales& scales, int64_t ranks, const Reduction& r, const ProductTypes& types,
                             const OptionalTensor& quant_scale, const ProductBlocks& blocks) {
  constexpr const char* kOp = "npu_quant_mm_reduce_scatter";
  check_scattered_product(kOp, a, b, bias, scales, ranks, r);
  check_quantized_product(kOp, a, b, scales, types, quant_scale, blocks);
}

void check_typed_all_reduce(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                            const OptionalTensor& x3, const Reduction& r, const ReductionScales& s,
                            at::OptionalIntArrayRef groups, const ProductTypes& types,
                            const std::optional<int64_t>& type) {
  constexpr const char* kOp = "npu_mm_all_reduce_base";
  check_group_settings(kOp, r.group, r.mode, r.turn, r.op);
  check_all_reduce(x1, x2, bias, x3, s);
  refuse_given(kOp, "group_sizes", groups);
  check_dtypes(kOp, {{"x1_dtype", types.a, x1},
                     {"x2_dtype", types.b, x2},
                     {"dequant_scale_dtype", types.column, s.column},
                     {"pertoken_scale_dtype", types.row, s.row}});
  check_result_type(kOp, "y_dtype", type, reduced_type(x1, s.column));
}

void check_counted_experts(const char* op, const GroupExperts& e, const OptionalTensor& sent_counts,
                           const OptionalTensor& received_counts) {
  check_group_experts(op, e, e.sent);
  refuse_given(op, {{"send_counts_tensor", sent_counts}, {"recv_counts_tensor", received_counts}});
}

}  // namespace npu::ops
