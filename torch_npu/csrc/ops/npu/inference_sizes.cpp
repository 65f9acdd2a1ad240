// Attention of inference: sizes by layout and checks, see sizes.h.
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

struct QuerySizes {
  c10::SymInt batch, rows, heads;
};

std::string_view operand_layout(std::string_view layout) { return layout.substr(0, layout.find('_')); }
std::string_view result_layout(std::string_view layout) {
  const size_t bar = layout.find('_');
  return bar == std::string_view::npos ? layout : layout.substr(bar + 1);
}

QuerySizes query_sizes(const at::Tensor& q, std::string_view layout, int64_t heads) {
  if (layout == "BSH") return {q.sym_size(0), q.sym_size(1), heads};
  if (layout == "BSND") return {q.sym_size(0), q.sym_size(1), q.sym_size(2)};
  if (layout == "BNSD") return {q.sym_size(0), q.sym_size(2), q.sym_size(1)};
  if (layout == "NSD") return {1, q.sym_size(1), q.sym_size(0)};
  if (layout == "TND") return {1, q.sym_size(0), q.sym_size(1)};
  return {1, q.sym_size(1), q.sym_size(0)};  // NTD
}

c10::SymInt value_columns(const at::Tensor& v, std::string_view layout, const OptionalTensor& table, int64_t kv_heads) {
  const int64_t packed = v.scalar_type() == at::kInt ? 8 : 1;
  if (given(table) && v.dim() == 5) return v.sym_size(2) * v.sym_size(4) * packed;
  const bool joined = given(table) ? v.dim() == 3 : layout == "BSH";
  return (joined ? v.sym_size(2) / kv_heads : v.sym_size(-1)) * packed;
}

}  // namespace

void check_inference(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     InferenceShape shape, const OptionalTensor& padding_mask) {
  refuse_given(op, "padding_mask", padding_mask);
  check_word(op, "input_layout", shape.layout,
             {"BSH", "BSND", "BNSD", "TND", "NTD", "NSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BNSD_NBSD",
              "BSND_NBSD", "BSH_NBSD", "TND_NTD", "NTD_TND", "BSH_NBSD"});
  TORCH_CHECK_VALUE(shape.heads > 0 && shape.kv_heads >= 0, op, ": ", shape.heads, " heads and ", shape.kv_heads,
                    " key heads");
  TORCH_CHECK(shape.kv_heads == 0 || shape.heads % shape.kv_heads == 0, op, ": ", shape.heads,
              " heads are not a multiple of ", shape.kv_heads, " key heads");
  const std::string_view layout = operand_layout(shape.layout);
  const int64_t dims = layout == "BSND" || layout == "BNSD" ? 4 : 3;
  TORCH_CHECK(query.dim() == dims, op, ": a query of the layout ", layout, " has ", dims, " dimensions, not ",
              query.dim());
  TORCH_CHECK(key.dim() >= 3 && value.dim() >= 3, op, ": key and value have ", key.dim(), " and ", value.dim(),
              " dimensions");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(query.scalar_type()) && query.element_size() > 1, op, ": a query of ",
                              query.scalar_type(), " is not implemented");
}

Sizes inference_out(const at::Tensor& query, const at::Tensor& value, const OptionalTensor& table,
                    InferenceShape shape) {
  const int64_t kv_heads = shape.kv_heads ? shape.kv_heads : shape.heads;
  const std::string_view from = operand_layout(shape.layout), to = result_layout(shape.layout);
  const auto [b, s, n] = query_sizes(query, from, shape.heads);
  const c10::SymInt d = value_columns(value, from, table, kv_heads);
  if (to == "BSH") return {b, s, n * d};
  if (to == "BSND") return {b, s, n, d};
  if (to == "BNSD") return {b, n, s, d};
  if (to == "NBSD") return {n, b, s, d};
  if (to == "TND") return {s, n, d};
  return {n, s, d};  // NTD, NSD
}

Sizes inference_lse(const at::Tensor& query, InferenceShape shape) {
  const std::string_view layout = operand_layout(shape.layout);
  const auto [b, s, n] = query_sizes(query, layout, shape.heads);
  if (layout == "TND" || layout == "NTD") return {s, n, 1};
  return {b, n, s, 1};
}

at::OptionalIntArrayRef plain(at::OptionalSymIntArrayRef values) {
  return values ? at::OptionalIntArrayRef(C10_AS_INTARRAYREF_SLOW(*values)) : std::nullopt;
}

}  // namespace npu::ops
