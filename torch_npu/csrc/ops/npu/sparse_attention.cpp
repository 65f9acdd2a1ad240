// See sparse_attention.h.
#include "csrc/ops/npu/sparse_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/where.h>

#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/type_rules.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {

void check_sparse_attention(const char* op, const SparseHeads& of, const SparseLengths& lengths,
                            const OptionalTensor& table, std::string_view layout, std::string_view key_layout,
                            const Window& window, const OptionalTensor& sinks) {
  const RowLayout form(op, layout, key_layout, table);
  check_window(op, window);
  need_dims(op, "query", of.query, {form.query_dims()});
  need_dims(op, "key", of.key, {form.key_dims()});
  need_same_type(op, "query", of.query, "key", of.key);
  check_heads(op, of.query, of.key, -2);
  if (given(of.value)) {
    need_same_type(op, "key", of.key, "value", *of.value);
    need_sizes(op, "value", of.value, with_last(of.key, 1, {-1}));
    TORCH_SYM_CHECK(of.value->sym_size(-1).sym_gt(0), op, ": value has no columns, its sizes are ",
                    of.value->sym_sizes());
  }
  need_sizes(op, "sparse_indices", of.indices, with_last(of.query, 2, {of.key.sym_size(-2), -1}));
  need_integers(op, "sparse_indices", of.indices);
  TORCH_CHECK_VALUE(of.block > 0, op, ": sparse_block_size is ", of.block, ", at least 1 is expected");
  check_number(op, "attention_mode", of.mode, {0, 2});
  const bool rotated = given(of.query_rope);
  TORCH_CHECK_VALUE(rotated == given(of.key_rope) && rotated == (of.mode == 2), op,
                    ": attention_mode 2 goes with query_rope and key_rope, 0 with neither");
  need_sizes(op, "query_rope", of.query_rope, with_last(of.query, 1, {-1}));
  if (rotated) {
    need_sizes(op, "key_rope", of.key_rope, with_last(of.key, 1, {of.query_rope->sym_size(-1)}));
    need_same_type(op, "query", of.query, "query_rope", *of.query_rope);
    need_same_type(op, "key", of.key, "key_rope", *of.key_rope);
    TORCH_SYM_CHECK(of.query_rope->sym_size(-1).sym_gt(0), op, ": query_rope and key_rope have no columns; leave ",
                    "them out with attention_mode 0");
  }
  need_sizes(op, "sinks", sinks, {of.query.sym_size(-2)});
  form.check_lengths(of.query, lengths.query, lengths.key);
}

Sizes sparse_out(const at::Tensor& query, const at::Tensor& key, const OptionalTensor& value) {
  return with_last(query, 1, {(given(value) ? *value : key).sym_size(-1)});
}

Sizes sparse_sums(const at::Tensor& query, const at::Tensor& key, std::string_view layout) {
  const c10::SymInt heads = key.sym_size(-2), group = query.sym_size(-2) / heads;
  if (layout == "TND") return {heads, query.sym_size(0), group};
  return {query.sym_size(0), heads, query.sym_size(1), group};
}

void check_sparse_gradient(const SparseHeads& of, const at::Tensor& grad, const at::Tensor& largest,
                           const at::Tensor& sum, std::string_view layout) {
  constexpr const char* kOp = "npu_sparse_flash_attention_grad";
  need_sizes(kOp, "d_out", grad, sparse_out(of.query, of.key, of.value));
  if (!holds_elements(largest) && !holds_elements(sum)) return;  // they are computed again
  need_sizes(kOp, "softmax_max", largest, sparse_sums(of.query, of.key, layout));
  need_sizes(kOp, "softmax_sum", sum, sparse_sums(of.query, of.key, layout));
}

void check_sink_gradient(const OptionalTensor& sinks, std::string_view layout, std::string_view key_layout,
                         bool with_sums) {
  const char* const op = "npu_sparse_flash_attention";
  check_trained_layout(op, layout, key_layout);
  TORCH_CHECK_VALUE(!given(sinks) || with_sums, op, ": a gradient with sinks needs return_softmax_lse=True");
}

at::Tensor sink_gradient(const at::Tensor& grad, const at::Tensor& out, const OptionalTensor& sinks,
                         const at::Tensor& largest, const at::Tensor& sum, std::string_view layout) {
  if (!given(sinks)) return {};
  const bool packed = layout == "TND";
  // [.., key heads, rows, group] as [.., rows, heads].
  const auto by_row = [&](const at::Tensor& t) {
    const int64_t dim = packed ? 0 : 1;
    return t.movedim(dim, -2).flatten(-2);
  };
  const at::Tensor given_out = (wide(grad) * wide(out)).sum(-1);  // [.., rows, heads]
  const at::Tensor share = at::exp(wide(*sinks) - by_row(largest)) / by_row(sum);
  return -(share * given_out).flatten(0, -2).sum(0).to(sinks->scalar_type());
}

void check_rows_of_bytes(const at::Tensor& query, const QuantizedRows& rows, const at::Tensor& indices, int64_t block,
                         const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
                         std::string_view key_layout, const Window& window) {
  const char* const op = "npu_kv_quant_sparse_flash_attention";
  const RowLayout form(op, layout, key_layout, table);
  check_window(op, window);
  need_dims(op, "query", query, {form.query_dims()});
  need_type(op, "query", query, {at::kHalf, at::kBFloat16});
  need_dims(op, "key", rows.key, {form.key_dims()});
  need_type(op, "key", rows.key, {at::kChar, at::kFloat8_e4m3fn, kHifloat8Codes});
  need_same_type(op, "key", rows.key, "value", rows.value);
  need_sizes(op, "value", rows.value, sizes_of(rows.key));
  const int64_t plain_columns = known(query, -1) - rows.rotated;
  TORCH_CHECK_VALUE(rows.tile > 0 && rows.rotated >= 0 && plain_columns > 0 && plain_columns % rows.tile == 0, op, ": ",
                    query.sym_size(-1), " columns of query, ", rows.rotated, " of them rotated, in tiles of ",
                    rows.tile);
  const int64_t tiles = plain_columns / rows.tile, bytes = plain_columns + 2 * rows.rotated + 4 * tiles;
  TORCH_SYM_CHECK(rows.key.sym_size(-1).sym_eq(bytes), op, ": a row of key has ", bytes, " bytes, not ",
                  rows.key.sym_size(-1));
  need_sizes(op, "sparse_indices", indices, with_last(query, 2, {rows.key.sym_size(-2), -1}));
  need_integers(op, "sparse_indices", indices);
  TORCH_CHECK_VALUE(block > 0, op, ": sparse_block_size is ", block, ", at least 1 is expected");
  form.check_lengths(query, lengths.query, lengths.key);
}

void check_block_attention(const char* op, const BlockHeads& of) {
  check_word(op, "q_input_layout", of.layout, {"TND", "BNSD"});
  TORCH_CHECK_VALUE(of.key_layout == of.layout, op, ": kv_input_layout is q_input_layout, ", of.layout, ", not ",
                    of.key_layout);
  const bool packed = of.layout == "TND";
  const int64_t heads_at = packed ? -2 : 1;
  need_dims(op, "query", of.query, {packed ? 3 : 4});
  need_dims(op, "key", of.key, {packed ? 3 : 4});
  need_same_type(op, "query", of.query, "key", of.key);
  need_same_type(op, "query", of.query, "value", of.value);
  check_heads(op, of.query, of.key, heads_at);
  need_sizes(op, "value", of.value, sizes_of(of.key));
  TORCH_SYM_CHECK(of.key.sym_size(heads_at).sym_eq(of.key_heads), op, ": num_key_value_heads is ", of.key_heads,
                  ", key has ", of.key.sym_size(heads_at), " heads");
  TORCH_CHECK_VALUE(of.block.size() >= 2 && of.block[0] > 0 && of.block[1] > 0, op,
                    ": block_shape is two positive numbers, not ", of.block);
  TORCH_CHECK_VALUE(of.lengths.has_value() == of.key_lengths.has_value(), op,
                    ": actual_seq_lengths and actual_seq_lengths_kv go together");
  TORCH_CHECK_VALUE(!packed || of.lengths, op, ": actual_seq_lengths is needed with TND");
  if (!packed) need_sizes(op, "key", of.key, {of.query.sym_size(0), -1, -1, -1});
  need_dims(op, "block_sparse_mask", of.mask, {4});
  need_type(op, "block_sparse_mask", of.mask, {at::kChar, at::kByte, at::kBool});
  const int64_t batch = of.lengths ? static_cast<int64_t>(of.lengths->size()) : known(of.query, 0);
  int64_t rows = packed ? 0 : known(of.query, 2), keys = packed ? 0 : known(of.key, 2);
  if (of.lengths) {
    TORCH_CHECK_VALUE(of.key_lengths->size() == of.lengths->size() && batch > 0, op, ": ", of.lengths->size(),
                      " lengths of queries and ", of.key_lengths->size(), " of keys");
    TORCH_CHECK_VALUE(packed || batch == known(of.query, 0), op, ": ", batch, " lengths for a batch of ",
                      of.query.sym_size(0));
    int64_t all = 0, all_keys = 0;
    for (size_t i = 0; i < of.lengths->size(); ++i) {
      const int64_t q = (*of.lengths)[i], k = (*of.key_lengths)[i];
      TORCH_CHECK_VALUE(q >= 0 && k >= 0 && (packed || (q <= rows && k <= keys)), op, ": sequence ", i, " has lengths ",
                        q, " and ", k, ", outside its rows");
      all += q;
      all_keys += k;
      if (packed) {
        rows = std::max(rows, q);
        keys = std::max(keys, k);
      }
    }
    TORCH_CHECK_VALUE(!packed || (all == known(of.query, 0) && all_keys == known(of.key, 0)), op, ": lengths sum to ",
                      all, " and ", all_keys, ", rows are ", of.query.sym_size(0), " and ", of.key.sym_size(0));
  }
  const auto blocks = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  need_sizes(op, "block_sparse_mask", of.mask,
             {batch, of.query.sym_size(heads_at), blocks(rows, of.block[0]), blocks(keys, of.block[1])});
}

void check_block_sums(const BlockHeads& of, const at::Tensor& sums) {
  if (holds_elements(sums)) {
    need_sizes("npu_block_sparse_attention_backward", "softmax_lse", sums, with_last(of.query, 1, {1}));
  }
}

void check_two_sets(const char* op, const TwoSets& of) {
  need_dims(op, "query_ik", of.query, {5});
  const auto size = [&](const at::Tensor& t, int64_t d) { return t.sym_size(d); };
  const at::Tensor& q = of.query;
  need_sizes(op, "key_ij", of.key1, {size(q, 0), size(q, 1), size(q, 2), -1, size(q, 4)});
  need_sizes(op, "value_ij", of.value1, sizes_of(of.key1));
  need_sizes(op, "key_jk", of.key2, {size(q, 0), size(q, 1), size(of.key1, 3), size(q, 3), size(q, 4)});
  need_sizes(op, "value_jk", of.value2, sizes_of(of.key2));
  need_sizes(op, "atten_mask", of.mask, {size(q, 0), 1, size(q, 2), 1, size(of.key1, 3)});
  need_type(op, "atten_mask", of.mask, {at::kBool, at::kByte});
  for (const at::Tensor* t : {&of.key1, &of.value1, &of.key2, &of.value2}) {
    need_same_type(op, "query_ik", q, "a key or value", *t);
  }
}

void check_sparse_attention_of_bytes(const at::Tensor& key, const at::Tensor& value, int64_t key_quant_mode,
                                     int64_t value_quant_mode, const OptionalTensor& key_dequant_scale,
                                     const OptionalTensor& value_dequant_scale, int64_t attention_mode,
                                     int64_t quant_scale_repo_mode, std::optional<int64_t> key_dtype,
                                     std::optional<int64_t> value_dtype) {
  constexpr const char* kOp = "npu_kv_quant_sparse_flash_attention";
  refuse_given(kOp, {{"key_dequant_scale", key_dequant_scale}, {"value_dequant_scale", value_dequant_scale}});
  check_number(kOp, "key_quant_mode", key_quant_mode, {2});
  check_number(kOp, "value_quant_mode", value_quant_mode, {2});
  check_number(kOp, "attention_mode", attention_mode, {2});
  check_number(kOp, "quant_scale_repo_mode", quant_scale_repo_mode, {1});
  check_dtypes(kOp, {{"key_dtype", key_dtype, key}, {"value_dtype", value_dtype, value}});
  need_name(kOp, "key", key);
  need_name(kOp, "value", value);
}

}  // namespace npu::ops
