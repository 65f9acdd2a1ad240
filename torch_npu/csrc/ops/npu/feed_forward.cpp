// npu_ffn: see quant.h.
#include "csrc/core/type_name.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/quant.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

constexpr const char* kOp = "npu_ffn";
constexpr std::initializer_list<at::ScalarType> kFloating = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble};

// Rows, groups of them and matrices that go together. How many experts there are, 0: the weights are no stacks.
void check_rows(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2, const FeedForwardTokens& groups) {
  const auto& [tokens, ends] = groups;
  TORCH_CHECK(!tokens || !ends, kOp, ": expert_tokens and expert_tokens_index exclude each other");
  TORCH_CHECK(x.dim() >= 2, kOp, ": x has ", x.dim(), " dimensions, at least two are expected");
  const at::OptionalIntArrayRef list = ends ? ends : tokens;
  const int64_t dims = list && !list->empty() ? 3 : 2;
  need_dims(kOp, "weight1", w1, {dims});
  need_dims(kOp, "weight2", w2, {dims});
  TORCH_SYM_CHECK(w1.sym_size(-2).sym_eq(x.sym_size(-1)), kOp, ": x has ", x.sym_size(-1), " columns, weight1 ",
                  w1.sym_size(-2), " rows");
  if (dims == 2) return;
  TORCH_SYM_CHECK(x.sym_size(-1).sym_gt(0), kOp, ": x has no columns");
  const c10::SymInt rows = x.sym_numel() / x.sym_size(-1), count = static_cast<int64_t>(list->size());
  TORCH_SYM_CHECK(w1.sym_size(0).sym_eq(count).sym_and(w2.sym_size(0).sym_eq(count)), kOp, ": ", count,
                  " groups of tokens for ", w1.sym_size(0), " and ", w2.sym_size(0), " experts");
  int64_t last = 0;
  for (int64_t number : *list) {
    TORCH_CHECK_VALUE(number >= (ends ? last : 0), kOp, ends ? ": expert_tokens_index is " : ": expert_tokens is ",
                      *list, ends ? ", which decreases" : ", which has a negative count");
    last = ends ? number : last + number;
  }
  TORCH_SYM_CHECK(rows.sym_eq(last), kOp, ": the groups have ", last, " rows, x ", rows);
}

void need_given(const char* name, const OptionalTensor& t, const char* with) {
  TORCH_CHECK_VALUE(given(t), kOp, ": ", name, " is needed with ", with);
}

void refuse_with(std::initializer_list<NamedTensor> tensors, const char* with) {
  for (const NamedTensor& t : tensors) {
    TORCH_CHECK(!given(t.tensor), kOp, ": ", t.name, " does not go with ", with, "; leave it out");
  }
}

// A number for each column of a weight, of experts a row of them each.
Sizes columns_of(const at::Tensor& weight) {
  Sizes sizes = without_last(weight, 2);
  sizes.push_back(weight.sym_size(-1));
  return sizes;
}

// One number an expert, or where `columns` is set one a column.
void need_between(const char* name, const OptionalTensor& t, const at::Tensor& w1, bool columns) {
  need_type(kOp, name, t, {at::kFloat});
  if (!given(t)) return;
  if (w1.dim() > 2) return need_sizes(kOp, name, t, columns && t->dim() == 2 ? columns_of(w1) : Sizes{w1.sym_size(0)});
  need_dims(kOp, name, *t, {1});
  need_elements(kOp, name, t, columns ? Sizes{1, w1.sym_size(-1)} : Sizes{1});
}

constexpr const char* kWhole = "x of int8";
constexpr const char* kFewer = "weights of int8 and a floating x";
constexpr const char* kPlain = "weights of the type of x";

// (activation((x @ w1 + b1) * deq_scale1) * scale + offset, rounded, @ w2 + b2) * deq_scale2
void check_whole(const at::Tensor& w1, const at::Tensor& w2, const FeedForwardScales& s) {
  need_type(kOp, "weight1", w1, {at::kChar});
  need_type(kOp, "weight2", w2, {at::kChar});
  refuse_with({{"antiquant_scale1", s.antiquant_scale1},
               {"antiquant_scale2", s.antiquant_scale2},
               {"antiquant_offset1", s.antiquant_offset1},
               {"antiquant_offset2", s.antiquant_offset2}},
              kWhole);
  need_given("scale", s.scale, kWhole);
  need_given("deq_scale1", s.deq_scale1, kWhole);
  need_given("deq_scale2", s.deq_scale2, kWhole);
  need_between("scale", s.scale, w1, true);
  need_between("offset", s.offset, w1, false);
  for (const auto& [name, t, w] : {std::tuple{"deq_scale1", &s.deq_scale1, &w1}, {"deq_scale2", &s.deq_scale2, &w2}}) {
    need_type(kOp, name, *t, {at::kLong, at::kUInt64, at::kFloat, at::kBFloat16});
    need_sizes(kOp, name, *t, columns_of(*w));
  }
  need_same_type(kOp, "deq_scale1", *s.deq_scale1, "deq_scale2", *s.deq_scale2);
}

// activation(x @ ((w1 + offset) * scale) + b1) @ ((w2 + offset) * scale) + b2
void check_fewer(const at::Tensor& w1, const at::Tensor& w2, const FeedForwardScales& s) {
  need_type(kOp, "weight1", w1, {at::kChar});
  need_type(kOp, "weight2", w2, {at::kChar});
  refuse_with({{"scale", s.scale}, {"offset", s.offset}, {"deq_scale1", s.deq_scale1}, {"deq_scale2", s.deq_scale2}},
              kFewer);
  need_given("antiquant_scale1", s.antiquant_scale1, kFewer);
  need_given("antiquant_scale2", s.antiquant_scale2, kFewer);
  need_sizes(kOp, "antiquant_scale1", s.antiquant_scale1, columns_of(w1));
  need_sizes(kOp, "antiquant_scale2", s.antiquant_scale2, columns_of(w2));
  need_sizes(kOp, "antiquant_offset1", s.antiquant_offset1, columns_of(w1));
  need_sizes(kOp, "antiquant_offset2", s.antiquant_offset2, columns_of(w2));
}

}  // namespace

void check_feed_forward(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2,
                        const FeedForwardScales& scales, std::string_view activation, const FeedForwardTokens& tokens,
                        const std::optional<at::ScalarType>& type) {
  check_word(kOp, "activation", activation, {"relu", "gelu", "fastgelu", "silu", "swiglu", "geglu", "reglu"});
  const bool whole = x.scalar_type() == at::kChar, plain = !whole && w1.scalar_type() == x.scalar_type();
  need_type(kOp, "x", x, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kChar});
  if (plain) {
    need_same_type(kOp, "x", x, "weight2", w2);
    refuse_with({{"scale", scales.scale},
                 {"offset", scales.offset},
                 {"deq_scale1", scales.deq_scale1},
                 {"deq_scale2", scales.deq_scale2},
                 {"antiquant_scale1", scales.antiquant_scale1},
                 {"antiquant_scale2", scales.antiquant_scale2},
                 {"antiquant_offset1", scales.antiquant_offset1},
                 {"antiquant_offset2", scales.antiquant_offset2}},
                kPlain);
  } else if (!whole && w1.scalar_type() != at::kChar) {
    need_same_type(kOp, "x", x, "weight1", w1);
  }
  check_rows(x, w1, w2, tokens);
  if (!plain) {
    check_word(kOp, "activation of quantized operands", activation, {"relu", "gelu", "fastgelu", "silu"});
    whole ? check_whole(w1, w2, scales) : check_fewer(w1, w2, scales);
  }
  for (const auto& [name, t] : {std::pair{"bias1", &scales.bias1}, {"bias2", &scales.bias2}}) {
    whole ? need_type(kOp, name, *t, {at::kInt}) : need_type(kOp, name, *t, kFloating);
  }
  if (!whole) return check_result_type(kOp, "output_dtype", type, x.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(!type || *type == at::kHalf || *type == at::kBFloat16, kOp, ": output_dtype ",
                              type_name(*type),
                              " is not implemented for x of int8; float16, which None is, and bfloat16 are");
}

Result fed_forward(const at::Tensor& x, const at::Tensor& w2, const std::optional<at::ScalarType>& type) {
  const at::ScalarType own = x.scalar_type() == at::kChar ? type.value_or(at::kHalf) : x.scalar_type();
  return sized(with_size(x, -1, w2.sym_size(-1)), own);
}

}  // namespace npu::ops
