// See indexer.h.
#include "csrc/ops/npu/indexer.h"

#include <limits>

#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/type_rules.h"

namespace npu::ops {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

void check_index(const char* op, const RowLayout& layout, const IndexRows& of) {
  need_dims(op, "query", of.query, {layout.query_dims()});
  need_dims(op, "key", of.key, {layout.key_dims()});
  need_sizes(op, "weights", of.weights, without_last(of.query));
  check_heads(op, of.query, of.key, -2);
  layout.check_batch(of.query, of.key);
  TORCH_CHECK(known(of.query, 0) > 0 && known(of.key, 0) > 0, op, ": query and key are not empty");
}

// The layouts, after everything that both ways of scoring ask of their arguments.
RowLayout checked(const char* op, const IndexRows& of, const SparseLengths& lengths, const OptionalTensor& table,
                  std::string_view layout, std::string_view key_layout, int64_t count, const Window& window) {
  RowLayout form(op, layout, key_layout, table);
  check_window(op, window);
  TORCH_CHECK_VALUE(count > 0, op, ": sparse_count is ", count, ", at least 1 is expected");
  check_index(op, form, of);
  need_same_type(op, "query", of.query, "key", of.key);
  form.check_lengths(of.query, lengths.query, lengths.key);
  return form;
}

}  // namespace

void check_window(const char* op, const Window& w) {
  check_number(op, "sparse_mode", w.mode, {0, 3});
  TORCH_CHECK_NOT_IMPLEMENTED(w.before == kAll && w.after == kAll, op,
                              ": pre_tokens and next_tokens are not implemented; leave them out");
}

void check_best_keys(const IndexRows& of, const SparseLengths& lengths, const OptionalTensor& table,
                     std::string_view layout, std::string_view key_layout, int64_t count, const Window& window) {
  const char* const op = "npu_lightning_indexer";
  checked(op, of, lengths, table, layout, key_layout, count, window);
  need_type(op, "query", of.query, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
}

void check_best_quantized_keys(const IndexRows& of, const at::Tensor& query_scale, const at::Tensor& key_scale,
                               const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
                               std::string_view key_layout, int64_t count, const Window& window) {
  const char* const op = "npu_quant_lightning_indexer";
  checked(op, of, lengths, table, layout, key_layout, count, window);
  need_type(op, "query", of.query, {at::kChar, at::kFloat8_e4m3fn, kHifloat8Codes});
  need_sizes(op, "query_dequant_scale", query_scale, without_last(of.query));
  need_sizes(op, "key_dequant_scale", key_scale, without_last(of.key));
}

Sizes chosen_sizes(const at::Tensor& query, const at::Tensor& key, int64_t count) {
  return with_last(query, 2, {key.sym_size(-2), count});
}

void check_trained_layout(const char* op, std::string_view layout, std::string_view key_layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout == key_layout, op, ": a gradient for keys in pages is not implemented");
}

void check_best_keys_backward(const IndexRows& of, const at::Tensor& dy, const at::Tensor& indices,
                              const SparseLengths& lengths, std::string_view layout, const Window& window) {
  const char* const op = "npu_lightning_indexer_grad";
  const RowLayout form(op, layout, layout, std::nullopt);
  check_window(op, window);
  check_index(op, form, of);
  form.check_lengths(of.query, lengths.query, lengths.key);
  need_dims(op, "sparse_indices", indices, {form.query_dims() - 1, form.query_dims()});
  need_integers(op, "sparse_indices", indices);
  const c10::SymInt key_heads = of.key.sym_size(-2);
  if (indices.dim() < form.query_dims()) {
    TORCH_SYM_CHECK(key_heads.sym_eq(1), op, ": sparse_indices of ", indices.sym_sizes(),
                    " has no dimension of the heads of key, which are ", key_heads);
    need_sizes(op, "sparse_indices", indices, with_last(of.query, 2, {-1}));
  } else {
    need_sizes(op, "sparse_indices", indices, with_last(of.query, 2, {key_heads, -1}));
  }
  need_sizes(op, "dy", dy, sizes_of(indices));
}

void check_index_sums(const IndexRows& of, const ListedLengths& lengths, std::string_view layout,
                      const Window& window) {
  const char* const op = "npu_dense_lightning_indexer_softmax_lse";
  const RowLayout form(op, layout, layout, std::nullopt);
  check_window(op, window);
  check_index(op, form, of);
  form.check_lengths(of.query, of.key, lengths.query, lengths.key);
}

Sizes index_sum_sizes(const at::Tensor& query, const at::Tensor& key, std::string_view layout) {
  if (layout == "TND") return {key.sym_size(1), query.sym_size(0)};
  return {query.sym_size(0), key.sym_size(2), query.sym_size(1)};
}

void check_index_loss(const char* op, const MainAttention& main, const IndexRows& of, const OptionalTensor& indices,
                      const OptionalTensor& largest_index, const OptionalTensor& sum_index,
                      const ListedLengths& lengths, std::string_view layout, const Window& window) {
  const RowLayout form(op, layout, layout, std::nullopt);
  check_window(op, window);
  check_index(op, form, of);
  check_index(op, form, {main.query, main.key, main.query.select(-1, 0)});
  form.check_lengths(of.query, of.key, lengths.query, lengths.key);
  need_sizes(op, "query", main.query, with_last(of.query, 2, {-1, -1}));
  need_sizes(op, "key", main.key, with_last(of.key, 2, {-1, -1}));
  TORCH_CHECK(given(main.query_rope) == given(main.key_rope), op, ": query_rope and key_rope go together");
  if (given(main.query_rope) && (holds_elements(*main.query_rope) || holds_elements(*main.key_rope))) {
    need_sizes(op, "query_rope", main.query_rope, with_last(main.query, 1, {-1}));
    need_sizes(op, "key_rope", main.key_rope, with_last(main.key, 1, {main.query_rope->sym_size(-1)}));
  }
  const Sizes of_sums = [&] {
    Sizes sizes = index_sum_sizes(main.query, main.key, layout);
    TORCH_SYM_CHECK(main.key.sym_size(-2).sym_gt(0), op, ": key has no heads");
    sizes.push_back(main.query.sym_size(-2) / main.key.sym_size(-2));
    return sizes;
  }();
  need_sizes(op, "softmax_max", main.largest, of_sums);
  need_sizes(op, "softmax_sum", main.sum, of_sums);
  need_sizes(op, "softmax_max_index", largest_index, index_sum_sizes(of.query, of.key, layout));
  need_sizes(op, "softmax_sum_index", sum_index, index_sum_sizes(of.query, of.key, layout));
  if (!given(indices)) return;
  need_sizes(op, "sparse_indices", indices, with_last(of.query, 2, {of.key.sym_size(-2), -1}));
  need_integers(op, "sparse_indices", indices);
}

void check_quantized_index(const at::Tensor& query, const at::Tensor& key, int64_t query_quant_mode,
                           int64_t key_quant_mode, std::optional<int64_t> query_dtype,
                           std::optional<int64_t> key_dtype) {
  constexpr const char* kOp = "npu_quant_lightning_indexer";
  check_number(kOp, "query_quant_mode", query_quant_mode, {0});
  check_number(kOp, "key_quant_mode", key_quant_mode, {0});
  check_dtypes(kOp, {{"query_dtype", query_dtype, query}, {"key_dtype", key_dtype, key}});
  need_name(kOp, "query", query);
  need_name(kOp, "key", key);
}

}  // namespace npu::ops
