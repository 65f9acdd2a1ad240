// See indexer.h.
#include "csrc/ops/npu/indexer.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
constexpr double kNone = -std::numeric_limits<double>::infinity();

void check_window(const char* op, const Window& w) {
  check_number(op, "sparse_mode", w.mode, {0, 3});
  TORCH_CHECK_NOT_IMPLEMENTED(w.before == kAll && w.after == kAll, op,
                              ": pre_tokens and next_tokens are not implemented; leave them out");
}

void check_index(const char* op, const RowLayout& layout, const IndexRows& of) {
  need_dims(op, "query", of.query, {layout.query_dims()});
  need_dims(op, "key", of.key, {layout.key_dims()});
  need_sizes(op, "weights", of.weights, without_last(of.query));
  TORCH_SYM_CHECK(of.key.sym_size(-1).sym_eq(of.query.sym_size(-1)), op, ": key has ", of.key.sym_size(-1),
                  " columns, not the ", of.query.sym_size(-1), " of query");
  const int64_t heads = known(of.query, -2), key_heads = known(of.key, -2);
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, op, ": query has ", heads, " heads, no multiple of the ",
              key_heads, " of key");
  TORCH_CHECK(known(of.query, 0) > 0 && known(of.key, 0) > 0, op, ": query and key are not empty");
}

// The sum over heads of weight * relu(query @ key): [batch, key heads, rows, keys].
at::Tensor index_scores(const at::Tensor& query, const at::Tensor& key, const at::Tensor& weights) {
  const int64_t heads = known(query, 2), key_heads = known(key, 2);
  const at::Tensor product = at::matmul(by_head(query, heads), by_head(key, heads).transpose(-2, -1)).relu();
  const at::Tensor weighed = product * wide(weights).permute({0, 2, 1}).unsqueeze(-1);
  return weighed.unflatten(1, {key_heads, heads / key_heads}).sum(2);
}

Pair best(const RowLayout& layout, const KeyRows& rows, const at::Tensor& scores, int64_t count, bool causal) {
  const int64_t keys = known(scores, 3), found = std::min(count, keys);
  const at::Tensor hidden = seen_keys(rows, keys, causal).logical_not().unsqueeze(1);
  auto [values, index] = scores.masked_fill(hidden, kNone).topk(found, -1);
  index = at::where(values.eq(kNone), -1, index - rows.first.unsqueeze(1).unsqueeze(-1)).to(at::kInt);
  if (found < count) {
    index = at::constant_pad_nd(index, {0, count - found}, -1);
    values = at::constant_pad_nd(values, {0, count - found}, kNone);
  }
  return {layout.back(index.permute({0, 2, 1, 3}).contiguous()),
          layout.back(values.permute({0, 2, 1, 3}).contiguous())};
}

void check_count(const char* op, int64_t count) {
  TORCH_CHECK_VALUE(count > 0, op, ": sparse_count is ", count, ", at least 1 is expected");
}

// The layouts, after everything that both ways of scoring ask of their arguments.
RowLayout checked(const char* op, const IndexRows& of, const OptionalTensor& table, std::string_view layout,
                  std::string_view key_layout, int64_t count, const Window& window) {
  RowLayout form(op, layout, key_layout, table);
  check_window(op, window);
  check_count(op, count);
  check_index(op, form, of);
  need_same_type(op, "query", of.query, "key", of.key);
  return form;
}

}  // namespace

Pair best_keys(const IndexRows& of, const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
               std::string_view key_layout, int64_t count, const Window& window, bool with_values) {
  const char* const op = "npu_lightning_indexer";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form = checked(op, of, table, layout, key_layout, count, window);
  need_type(op, "query", of.query, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
  const at::Tensor query = form.queries(of.query), key = form.keys(of.key);
  const KeyRows rows = form.rows(query, key, lengths.query, lengths.key);
  const at::Tensor scores = index_scores(query, key, form.queries(of.weights));
  auto [index, values] = best(form, rows, scores, count, window.mode == 3);
  if (!with_values) return {index, at::empty({0}, of.query.options())};
  return {index, values.to(of.query.scalar_type())};
}

at::Tensor best_quantized_keys(const IndexRows& of, const at::Tensor& query_scale, const at::Tensor& key_scale,
                               const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
                               std::string_view key_layout, int64_t count, const Window& window) {
  const char* const op = "npu_quant_lightning_indexer";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form = checked(op, of, table, layout, key_layout, count, window);
  need_type(op, "query", of.query, {at::kChar, at::kFloat8_e4m3fn});
  need_sizes(op, "query_dequant_scale", query_scale, without_last(of.query));
  need_sizes(op, "key_dequant_scale", key_scale, without_last(of.key));
  const at::Tensor query = form.queries(of.query).to(at::kFloat), key = form.keys(of.key.to(at::kFloat));
  const KeyRows rows = form.rows(query, key, lengths.query, lengths.key);
  const at::Tensor scaled = query * form.queries(query_scale).to(at::kFloat).unsqueeze(-1);
  const at::Tensor scores =
      index_scores(scaled, key * form.keys(key_scale).to(at::kFloat).unsqueeze(-1), form.queries(of.weights));
  return std::get<0>(best(form, rows, scores, count, window.mode == 3));
}

Triple best_keys_backward(const IndexRows& of, const at::Tensor& dy, const at::Tensor& indices,
                          const SparseLengths& lengths, std::string_view layout, const Window& window) {
  const char* const op = "npu_lightning_indexer_grad";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form(op, layout, layout, std::nullopt);
  check_window(op, window);
  check_index(op, form, of);
  need_dims(op, "sparse_indices", indices, {form.query_dims() - 1, form.query_dims()});
  need_integers(op, "sparse_indices", indices);
  need_sizes(op, "dy", dy, sizes_of(indices));
  const bool one_head = indices.dim() < form.query_dims();
  const auto by_key_head = [&](const at::Tensor& t) {
    const at::Tensor with_head = one_head ? t.unsqueeze(-2) : t;
    return form.queries(with_head).permute({0, 2, 1, 3});
  };
  const at::Tensor query = form.queries(of.query), key = form.keys(of.key);
  const KeyRows rows = form.rows(query, key, lengths.query, lengths.key);
  const at::Tensor index = by_key_head(indices).to(at::kLong);
  const at::Tensor gradient = at::where(index.lt(0), 0, wide(by_key_head(dy)));
  const at::Tensor place = (index + rows.first.unsqueeze(1).unsqueeze(-1)).clamp(0, known(key, 1) - 1);
  const auto chosen = [&](const std::vector<at::Tensor>& o) {
    return index_scores(form.queries(o[0]), form.keys(o[1]), form.queries(o[2])).gather(-1, place);
  };
  const auto made = gradients_of(chosen, {of.query, of.key, of.weights}, gradient);
  return {made[0], made[1], made[2]};
}

Pair index_sums(const IndexRows& of, const ListedLengths& lengths, std::string_view layout, const Window& window) {
  const char* const op = "npu_dense_lightning_indexer_softmax_lse";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form(op, layout, layout, std::nullopt);
  check_window(op, window);
  check_index(op, form, of);
  const at::Tensor query = form.queries(of.query), key = form.keys(of.key);
  const KeyRows rows = form.rows(query, key, lengths.query, lengths.key);
  const at::Tensor hidden = seen_keys(rows, known(key, 1), window.mode == 3).logical_not().unsqueeze(1);
  const at::Tensor scores = index_scores(query, key, form.queries(of.weights)).masked_fill(hidden, kNone);
  const at::Tensor largest = scores.amax(-1), from = at::where(largest.eq(kNone), 0, largest).unsqueeze(-1);
  return {form.back(largest), form.back(at::exp(scores - from).sum(-1))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> index_loss(
    const char* op, const MainAttention& main, const IndexRows& of, const OptionalTensor& indices,
    const OptionalTensor& largest_index, const OptionalTensor& sum_index, const ListedLengths& lengths,
    std::string_view layout, const Window& window) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form(op, layout, layout, std::nullopt);
  check_window(op, window);
  check_index(op, form, of);
  check_index(op, form, {main.query, main.key, main.query.select(-1, 0)});
  TORCH_CHECK(given(main.query_rope) == given(main.key_rope), op, ": query_rope and key_rope go together");
  const auto joined = [](const at::Tensor& t, const OptionalTensor& rope) {
    return given(rope) ? at::cat({wide(t), wide(*rope)}, -1) : wide(t);
  };
  const at::Tensor query = form.queries(joined(main.query, main.query_rope));
  const at::Tensor key = form.keys(joined(main.key, main.key_rope));
  const int64_t heads = known(query, 2), key_heads = known(key, 2), keys = known(key, 1);
  const KeyRows rows = form.rows(query, key, lengths.query, lengths.key);
  at::Tensor hidden = seen_keys(rows, keys, window.mode == 3).logical_not().unsqueeze(1);
  if (given(indices)) {
    need_dims(op, "sparse_indices", *indices, {form.query_dims()});
    need_integers(op, "sparse_indices", indices);
    const at::Tensor named = chosen_keys(rows, keys, form.queries(*indices), 1).permute({0, 2, 1, 3});
    hidden = hidden.logical_or(named.eq(0));
  }
  // The distribution of attention: that of its heads, in the sum, made to sum to one.
  const auto of_heads = [&](const char* name, const at::Tensor& t) {
    const at::Tensor dense = layout == "TND" ? t.unsqueeze(0) : t;
    need_sizes(op, name, dense, {query.sym_size(0), key_heads, query.sym_size(1), heads / key_heads});
    return wide(dense).permute({0, 1, 3, 2}).flatten(1, 2).unsqueeze(-1);
  };
  const at::Tensor scores = at::matmul(by_head(query, heads), by_head(key, heads).transpose(-2, -1)) * main.scale;
  const at::Tensor of_head =
      at::exp(scores - of_heads("softmax_max", main.largest)) / of_heads("softmax_sum", main.sum);
  const at::Tensor mass = of_head.sum(1, true).masked_fill(hidden, 0), total = mass.sum(-1, true);
  const at::Tensor p = mass / at::where(total.eq(0), 1, total);
  // The indexer's.
  const auto score = [&](const std::vector<at::Tensor>& o) {
    return index_scores(form.queries(o[0]), form.keys(o[1]), form.queries(o[2]));
  };
  const at::Tensor index = score({of.query, of.key, of.weights}).masked_fill(hidden, kNone);
  at::Tensor largest, sum;
  if (given(largest_index)) {
    const Sizes expected = {index.sym_size(0), index.sym_size(1), index.sym_size(2)};
    const auto dense = [&](const char* name, const at::Tensor& t) {
      const at::Tensor batched = layout == "TND" ? t.unsqueeze(0) : t;
      need_sizes(op, name, batched, expected);
      return wide(batched).unsqueeze(-1);
    };
    largest = dense("softmax_max_index", *largest_index);
    sum = dense("softmax_sum_index", *sum_index);
  } else {
    largest = index.amax(-1, true);
    sum = at::exp(index - at::where(largest.eq(kNone), 0, largest)).sum(-1, true);
  }
  const at::Tensor from = at::where(largest.eq(kNone), 0, largest), over = at::where(sum.eq(0), 1, sum);
  const at::Tensor q = at::exp(index - from) / over;
  const at::Tensor log_q = (index - from - at::log(over)).masked_fill(hidden, 0);
  const at::Tensor loss = at::where(p.gt(0), p * (at::log(at::where(p.gt(0), p, 1)) - log_q), 0).sum().reshape({1});
  const auto made = gradients_of(score, {of.query, of.key, of.weights}, (q - p).masked_fill(hidden, 0));
  return {made[0], made[1], made[2], loss.to(at::kFloat)};
}

void check_quantized_index(const at::Tensor& query, const at::Tensor& key, int64_t query_quant_mode,
                           int64_t key_quant_mode, std::optional<int64_t> query_dtype,
                           std::optional<int64_t> key_dtype) {
  constexpr const char* kOp = "npu_quant_lightning_indexer";
  check_number(kOp, "query_quant_mode", query_quant_mode, {0});
  check_number(kOp, "key_quant_mode", key_quant_mode, {0});
  check_dtypes(kOp, {{"query_dtype", query_dtype, query}, {"key_dtype", key_dtype, key}});
}

}  // namespace npu::ops
