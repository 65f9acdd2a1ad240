// See indexer.h.
#include "softnpu/ops/indexer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
constexpr double kNone = -std::numeric_limits<double>::infinity();

std::vector<int64_t> but_last(const Tensor& t, int64_t count = 1) {
  return t.sizes().slice(0, static_cast<size_t>(t.dim() - count)).vec();
}
std::vector<int64_t> with(std::vector<int64_t> sizes, std::initializer_list<int64_t> more) {
  sizes.insert(sizes.end(), more);
  return sizes;
}

RowLayout checked(const SparseRows& rows, const IndexRows& of) {
  const RowLayout form = rows.form();
  need_dims("query", of.query, {form.query_dims()});
  need_dims("key", of.key, {form.key_dims()});
  need_sizes("weights", of.weights, but_last(of.query));
  need_heads(of.query, of.key);
  TORCH_CHECK(of.query.numel() > 0 && of.key.numel() > 0, "query and key are not empty");
  rows.checked(of.query);
  return form;
}

// An operand in the form of batches, its scale multiplied in.
Tensor scaled(const Tensor& t, const Tensor* scale) {
  const Tensor value = is_hifloat8(t) ? hifloat8_values(t) : wide(t);
  return scale ? value * scale->to(value.scalar_type()).unsqueeze(-1) : value;
}

struct Products {  // by head of queries
  Tensor query, key, weights, positive;
};
Products products(const Tensor& query, const Tensor& key, const Tensor& weights) {
  const int64_t heads = query.size(2);
  Products p = {by_head(query, heads), by_head(key, heads), {}, {}};
  p.weights = weights.to(p.query.scalar_type()).permute({0, 2, 1}).unsqueeze(-1);
  p.positive = at::matmul(p.query, p.key.transpose(-2, -1)).relu_();
  return p;
}
// The sum over heads of weight * relu(query @ key): [batch, key heads, rows, keys].
Tensor scores_of(const Products& p, int64_t key_heads) {
  return (p.positive * p.weights).unflatten(1, {key_heads, p.query.size(1) / key_heads}).sum(2);
}
// Of a gradient of those.
void put_gradients(const RowLayout& form, const Products& p, const Tensor& gradient, const IndexGradients& made) {
  const int64_t heads = p.query.size(1), key_heads = gradient.size(1);
  const Tensor own = gradient.to(p.query.scalar_type());
  const Tensor of_head = key_heads == heads ? own : own.repeat_interleave(heads / key_heads, 1);
  const Tensor of_product = at::where(p.positive.gt(0), of_head * p.weights, 0);
  put(made.weights, form.back((of_head * p.positive).sum(-1).permute({0, 2, 1})));
  put(made.query, form.back(of_heads(at::matmul(of_product, p.key), heads)));
  put(made.key, form.back(of_heads(at::matmul(of_product.transpose(-2, -1), p.query), key_heads)));
}

void check_gradients(const IndexRows& of, const IndexGradients& made) {
  need_sizes("the gradient of query", made.query, of.query.sizes());
  need_sizes("the gradient of key", made.key, of.key.sizes());
  need_sizes("the gradient of weights", made.weights, of.weights.sizes());
}

}  // namespace

KeyRows SparseRows::of(const RowLayout& form, const Tensor& query, const Tensor& key) const {
  const auto either = [](const OptionalTensor& t, IntArrayRef list) { return given(t) ? t : listed_if_any(list); };
  return form.rows(query, key, either(query_lengths, query_list), either(key_lengths, key_list));
}

RowLayout SparseRows::checked(const Tensor& query) const {
  need_number("sparseMode", mode, {0, 3});
  TORCH_CHECK_NOT_IMPLEMENTED(before == kAll && after == kAll, "preTokens ", before, " and nextTokens ", after,
                              " are not implemented; ", kAll, ", all tokens, is");
  const auto either = [](const OptionalTensor& t, IntArrayRef list) { return given(t) ? t : listed_if_any(list); };
  const RowLayout made = form();
  made.need_lengths(query, either(query_lengths, query_list), either(key_lengths, key_list));
  return made;
}

void check_best_keys(const IndexRows& of, const SparseRows& rows, int64_t count, const Tensor& index) {
  TORCH_CHECK(count > 0, "sparseCount is ", count, ", at least 1 is expected");
  const RowLayout form = checked(rows, of);
  if (of.query_scale) need_sizes("queryDequantScale", *of.query_scale, but_last(of.query));
  if (of.key_scale) need_sizes("keyDequantScale", *of.key_scale, but_last(of.key));
  need_sizes("the places", index, with(but_last(of.query, 2), {of.key.size(-2), count}));
}

void best_keys(const IndexRows& of, const SparseRows& at_rows, int64_t count, Tensor& out, Tensor* out_values) {
  const RowLayout form = at_rows.form();
  const Tensor query = form.queries(scaled(of.query, of.query_scale)), key = form.keys(scaled(of.key, of.key_scale));
  const KeyRows rows = at_rows.of(form, query, key);
  const int64_t keys = key.size(1), found = std::min(count, keys);
  const Tensor scores = scores_of(products(query, key, form.queries(of.weights)), key.size(2));
  const Tensor hidden = seen_keys(rows, keys, at_rows.causal()).logical_not().unsqueeze(1);
  auto [values, index] = scores.masked_fill(hidden, kNone).topk(found, -1);
  index = at::where(values.eq(kNone), -1, index - rows.first.unsqueeze(1).unsqueeze(-1));
  index = at::constant_pad_nd(index, {0, count - found}, -1);
  put(out, form.back(index.permute({0, 2, 1, 3})));
  if (!out_values || !out_values->defined() || out_values->numel() == 0) return;
  put(*out_values, form.back(at::constant_pad_nd(values, {0, count - found}, kNone).permute({0, 2, 1, 3})));
}

void check_best_keys_backward(const IndexRows& of, const SparseRows& rows, const Tensor& dy, const Tensor& indices,
                              int64_t heads, const IndexGradients& made) {
  const RowLayout form = checked(rows, of);
  // The page gives headNum no rule, and the vendor's plugin passes 0.
  TORCH_CHECK(heads == 0 || heads == of.query.size(-2), "headNum is ", heads, ", query has ", of.query.size(-2),
              " heads");
  const bool one_head = indices.dim() < form.query_dims();
  TORCH_CHECK(!one_head || of.key.size(-2) == 1, "sparseIndices has no dimension of the ", of.key.size(-2),
              " heads of key");
  const auto outer = but_last(of.query, 2);
  need_sizes("sparseIndices", indices, one_head ? with(outer, {-1}) : with(outer, {of.key.size(-2), -1}));
  need_sizes("dy", dy, indices.sizes());
  check_gradients(of, made);
}

void best_keys_backward(const IndexRows& of, const SparseRows& at_rows, const Tensor& dy, const Tensor& indices,
                        const IndexGradients& made) {
  const RowLayout form = at_rows.form();
  const bool one_head = indices.dim() < form.query_dims();
  const auto by_key_head = [&](const Tensor& t) {
    return form.queries(one_head ? t.unsqueeze(-2) : t).permute({0, 2, 1, 3});
  };
  const Tensor query = form.queries(of.query), key = form.keys(of.key);
  const KeyRows rows = at_rows.of(form, query, key);
  const Tensor index = longs(by_key_head(indices));
  const Tensor gradient = at::where(index.lt(0), 0, wide(by_key_head(dy)));
  const Tensor place = (index + rows.first.unsqueeze(1).unsqueeze(-1)).clamp(0, key.size(1) - 1);
  const Products p = products(query, key, form.queries(of.weights));
  Tensor of_scores = at::zeros({place.size(0), place.size(1), place.size(2), key.size(1)}, p.query.options());
  of_scores.scatter_add_(-1, place, gradient.to(of_scores.scalar_type()));
  put_gradients(form, p, of_scores, made);
}

void check_index_sums(const IndexRows& of, const SparseRows& rows, const Tensor& largest, const Tensor& sum) {
  const RowLayout form = checked(rows, of);
  const Tensor query = form.queries(of.query);
  std::vector<int64_t> sizes = {of.key.size(-2), query.size(1)};
  if (!form.packed()) sizes.insert(sizes.begin(), query.size(0));
  need_sizes("softmaxMax", largest, sizes);
  need_sizes("softmaxSum", sum, sizes);
}

void index_sums(const IndexRows& of, const SparseRows& at_rows, Tensor& out_largest, Tensor& out_sum) {
  const RowLayout form = at_rows.form();
  const Tensor query = form.queries(of.query), key = form.keys(of.key);
  const KeyRows rows = at_rows.of(form, query, key);
  const Tensor hidden = seen_keys(rows, key.size(1), at_rows.causal()).logical_not().unsqueeze(1);
  const Tensor scores =
      scores_of(products(query, key, form.queries(of.weights)), key.size(2)).masked_fill(hidden, kNone);
  const Tensor largest = scores.amax(-1), from = at::where(largest.eq(kNone), 0, largest).unsqueeze(-1);
  put(out_largest, form.back(largest));
  put(out_sum, form.back(at::exp(scores - from).sum(-1)));
}

void check_index_loss(const MainAttention& main, const IndexRows& of, const IndexLoss& loss, const SparseRows& rows,
                      const IndexGradients& made, const Tensor& out) {
  const RowLayout form = checked(rows, of);
  checked(rows, {main.query, main.key, main.query.select(-1, 0)});
  need_sizes("query", main.query, with(but_last(of.query, 2), {-1, -1}));
  need_sizes("key", main.key, with(but_last(of.key, 2), {-1, -1}));
  TORCH_CHECK(given(main.query_rope) == given(main.key_rope), "queryRope and keyRope go together");
  if (given(main.query_rope)) {
    need_sizes("queryRope", main.query_rope, with(but_last(main.query), {-1}));
    need_sizes("keyRope", main.key_rope, with(but_last(main.key), {main.query_rope->size(-1)}));
  }
  const Tensor query = form.queries(main.query), index_key = form.keys(of.key);
  const int64_t heads = query.size(2), key_heads = main.key.size(-2);
  const auto with_batch = [&](std::vector<int64_t> sizes) {
    if (!form.packed()) sizes.insert(sizes.begin(), query.size(0));
    return sizes;
  };
  need_sizes("softmaxMax", main.largest, with_batch({key_heads, query.size(1), heads / key_heads}));
  need_sizes("softmaxSum", main.sum, main.largest.sizes());
  need_sizes("softmaxMaxIndex", loss.largest, with_batch({index_key.size(2), query.size(1)}));
  need_sizes("softmaxSumIndex", loss.sum, with_batch({index_key.size(2), query.size(1)}));
  need_sizes("sparseIndices", loss.indices, with(but_last(of.query, 2), {of.key.size(-2), -1}));
  check_gradients(of, made);
  TORCH_CHECK(out.numel() == 1, "loss is one number, not ", out.sizes());
}

void index_loss(const MainAttention& main, const IndexRows& of, const IndexLoss& loss, const SparseRows& at_rows,
                const IndexGradients& made, Tensor& out) {
  const RowLayout form = at_rows.form();
  const auto joined = [](const Tensor& t, const OptionalTensor& rope) {
    return given(rope) ? at::cat({wide(t), wide(*rope)}, -1) : wide(t);
  };
  const Tensor query = form.queries(joined(main.query, main.query_rope));
  const Tensor key = form.keys(joined(main.key, main.key_rope));
  const int64_t heads = query.size(2), keys = key.size(1);
  const KeyRows rows = at_rows.of(form, query, key);
  Tensor hidden = seen_keys(rows, keys, at_rows.causal()).logical_not().unsqueeze(1);
  if (given(loss.indices)) {
    const Tensor named = chosen_keys(rows, keys, form.queries(*loss.indices), 1).permute({0, 2, 1, 3});
    hidden = hidden.logical_or(named.eq(0));
  }
  // The distribution of attention: that of its heads, in the sum, made to sum to one.
  const auto of_head = [&](const Tensor& t) {
    return wide(form.queries(t)).permute({0, 1, 3, 2}).flatten(1, 2).unsqueeze(-1);
  };
  const Tensor scores = at::matmul(by_head(query, heads), by_head(key, heads).transpose(-2, -1)) * main.scale;
  const Tensor by_heads = at::exp(scores - of_head(main.largest)) / of_head(main.sum);
  const Tensor mass = by_heads.sum(1, true).masked_fill(hidden, 0), total = mass.sum(-1, true);
  const Tensor p = mass / at::where(total.eq(0), 1, total);
  // The indexer's.
  const Products products_of = products(form.queries(of.query), form.keys(of.key), form.queries(of.weights));
  const Tensor index = scores_of(products_of, of.key.size(-2)).masked_fill(hidden, kNone);
  Tensor largest, sum;
  if (given(loss.largest)) {
    largest = form.queries(*loss.largest).to(index.scalar_type()).unsqueeze(-1);
    sum = form.queries(*loss.sum).to(index.scalar_type()).unsqueeze(-1);
  } else {
    largest = index.amax(-1, true);
    sum = at::exp(index - at::where(largest.eq(kNone), 0, largest)).sum(-1, true);
  }
  const Tensor from = at::where(largest.eq(kNone), 0, largest), over = at::where(sum.eq(0), 1, sum);
  const Tensor q = at::exp(index - from) / over;
  const Tensor log_q = (index - from - at::log(over)).masked_fill(hidden, 0);
  put(out, at::where(p.gt(0), p * (at::log(at::where(p.gt(0), p, 1)) - log_q), 0).sum().reshape(out.sizes()));
  put_gradients(form, products_of, (q - p).masked_fill(hidden, 0), made);
}

}  // namespace softnpu::ops::kernels
