// See sparse_attention.h.
#include "softnpu/ops/sparse_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/log.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

std::vector<int64_t> outer(const Tensor& t, int64_t count, std::initializer_list<int64_t> more) {
  auto sizes = t.sizes().slice(0, static_cast<size_t>(t.dim() - count)).vec();
  sizes.insert(sizes.end(), more);
  return sizes;
}

const Tensor& value_of(const SparseHeads& of) { return given(of.value) ? *of.value : of.key; }

RowLayout check_operands(const SparseHeads& of, const SparseRows& rows) {
  const RowLayout form = rows.form();
  need_dims("query", of.query, {form.query_dims()});
  need_dims("key", of.key, {form.key_dims()});
  need_heads(of.query, of.key);
  need_sizes("value", of.value, outer(of.key, 1, {-1}));
  need_sizes("sparseIndices", of.indices, outer(of.query, 2, {of.key.size(-2), -1}));
  TORCH_CHECK(of.block > 0, "sparseBlockSize is ", of.block, ", at least 1 is expected");
  TORCH_CHECK(given(of.query_rope) == given(of.key_rope), "queryRope and keyRope go together");
  if (given(of.query_rope)) {
    need_sizes("queryRope", of.query_rope, outer(of.query, 1, {-1}));
    need_sizes("keyRope", of.key_rope, outer(of.key, 1, {of.query_rope->size(-1)}));
  }
  need_sizes("sinks", of.sinks, {of.query.size(-2)});
  return rows.checked(of.query);
}

// [batch, key heads, rows, group], of packed rows without batch.
std::vector<int64_t> sizes_of_sums(const SparseHeads& of, const RowLayout& form) {
  const Tensor query = form.queries(of.query);
  const int64_t key_heads = of.key.size(-2);
  std::vector<int64_t> sizes = {key_heads, query.size(1), query.size(2) / key_heads};
  if (!form.packed()) sizes.insert(sizes.begin(), query.size(0));
  return sizes;
}

// Queries, keys with their rotated columns, values, and the logarithm of how often a key is seen: one that is named twice is there twice.
struct Seen {
  Tensor query, key, value, bias;
};
Seen seen(const RowLayout& form, const SparseHeads& of, const SparseRows& at_rows) {
  const auto with = [](const Tensor& t, const OptionalTensor& rope) {
    return given(rope) ? at::cat({wide(t), wide(*rope)}, -1) : wide(t);
  };
  Seen s = {
      form.queries(with(of.query, of.query_rope)), form.keys(with(of.key, of.key_rope)), form.keys(value_of(of)), {}};
  const KeyRows rows = at_rows.of(form, s.query, s.key);
  const int64_t keys = s.key.size(1);
  const Tensor named = chosen_keys(rows, keys, form.queries(of.indices), of.block).permute({0, 2, 1, 3});
  const Tensor count = named * seen_keys(rows, keys, at_rows.causal()).unsqueeze(1);
  s.bias = at::log(count).repeat_interleave(s.query.size(2) / s.key.size(2), 1);
  return s;
}

// [batch, heads, rows] of and as the sums that the caller sees.
Tensor to_sums(const RowLayout& form, const Tensor& t, int64_t key_heads) {
  return form.back(t.unflatten(1, {key_heads, t.size(1) / key_heads}).permute({0, 1, 3, 2}));
}
Tensor of_sums(const RowLayout& form, const Tensor& t) {
  return wide(form.queries(t)).permute({0, 1, 3, 2}).flatten(1, 2);
}

}  // namespace

void check_sparse_attention(const SparseHeads& of, const SparseRows& rows, int64_t mode, bool with_sums,
                            const Tensor& out, const SparseSums& sums) {
  need_number("attentionMode", mode, {0, 2});
  TORCH_CHECK(given(of.query_rope) == (mode == 2), "attentionMode 2 goes with queryRope and keyRope, 0 with neither");
  const RowLayout form = check_operands(of, rows);
  need_sizes("attentionOut", out, outer(of.query, 1, {value_of(of).size(-1)}));
  if (!with_sums) return;
  need_sizes("softmaxMax", sums.largest, sizes_of_sums(of, form));
  need_sizes("softmaxSum", sums.sum, sizes_of_sums(of, form));
}

void sparse_attention(const SparseHeads& of, const SparseRows& rows, Tensor& out, Tensor& largest, Tensor& sum) {
  const RowLayout form = rows.form();
  const Seen s = seen(form, of, rows);
  const Attended a = attended(s.query, s.key, s.value, of.scale, s.bias, of.sinks);
  put(out, form.back(a.out));
  put_if_fits(largest, to_sums(form, a.largest, s.key.size(2)));
  put_if_fits(sum, to_sums(form, a.sum, s.key.size(2)));
}

void check_sparse_attention_backward(const SparseHeads& of, const SparseRows& rows, const Tensor& grad,
                                     const SparseSums& sums, const SparseGradients& made) {
  const RowLayout form = check_operands(of, rows);
  need_sizes("dOut", grad, outer(of.query, 1, {value_of(of).size(-1)}));
  need_result("softmaxMax", sums.largest, sizes_of_sums(of, form));
  need_result("softmaxSum", sums.sum, sizes_of_sums(of, form));
  TORCH_CHECK((sums.largest.numel() > 0) == (sums.sum.numel() > 0), "softmaxMax and softmaxSum go together");
  need_sizes("dQuery", made.query, of.query.sizes());
  need_sizes("dKey", made.key, of.key.sizes());
  const auto need = [](const char* name, const Tensor& t, const OptionalTensor& like) {
    if (!given(like)) return;
    TORCH_CHECK(t.defined(), name, " is null");
    need_sizes(name, t, like->sizes());
  };
  need("dValue", made.value, of.value);
  need("dQueryRope", made.query_rope, of.query_rope);
  need("dKeyRope", made.key_rope, of.key_rope);
}

void sparse_attention_backward(const SparseHeads& of, const SparseRows& rows, const Tensor& grad,
                               const SparseSums& sums, const SparseGradients& made) {
  const RowLayout form = rows.form();
  const Seen s = seen(form, of, rows);
  const Tensor weights = sums.largest.numel() > 0 ? weights_of(s.query, s.key, of.scale, s.bias,
                                                               of_sums(form, sums.largest), of_sums(form, sums.sum))
                                                  : attended(s.query, s.key, s.value, of.scale, s.bias).weights;
  const AttendedGradients d = attended_backward(form.queries(grad), s.query, s.key, s.value, of.scale, weights);
  const int64_t columns = of.query.size(-1);
  Tensor of_key = d.key.narrow(-1, 0, columns);
  if (given(of.value)) {
    put(made.value, form.back(d.value));
  } else {
    of_key = of_key + d.value;
  }
  put(made.query, form.back(d.query.narrow(-1, 0, columns)));
  put(made.key, form.back(of_key));
  if (!given(of.query_rope)) return;
  const int64_t rotated = of.query_rope->size(-1);
  put(made.query_rope, form.back(d.query.narrow(-1, columns, rotated)));
  put(made.key_rope, form.back(d.key.narrow(-1, columns, rotated)));
}

void check_sparse_attention_of_bytes(const SparseHeads& of, const RowsOfBytes& bytes, const BytesModes& modes,
                                     const SparseRows& rows, const Tensor& out) {
  need_number("keyQuantMode", modes.key, {2});
  need_number("valueQuantMode", modes.value, {2});
  need_number("attentionMode", modes.attention, {2});
  need_number("quantScaleRepoMode", modes.scales, {1});
  const RowLayout form = rows.form();
  need_dims("query", of.query, {form.query_dims()});
  need_dims("key", of.key, {form.key_dims()});
  const int64_t columns = of.query.size(-1), plain = columns - bytes.rotated;
  TORCH_CHECK(bytes.tile > 0 && bytes.rotated >= 0 && plain > 0 && plain % bytes.tile == 0, columns,
              " columns of query, ", bytes.rotated, " of them rotated, in tiles of ", bytes.tile);
  const int64_t size = plain + 2 * bytes.rotated + 4 * (plain / bytes.tile);
  TORCH_CHECK(of.key.size(-1) == size, "a row of key has ", size, " bytes, not ", of.key.size(-1));
  need_sizes("value", of.value, of.key.sizes());
  const int64_t key_heads = of.key.size(-2);
  TORCH_CHECK(key_heads > 0 && of.query.size(-2) % key_heads == 0, "query has ", of.query.size(-2),
              " heads, no multiple of the ", key_heads, " of key");
  need_sizes("sparseIndices", of.indices, outer(of.query, 2, {key_heads, -1}));
  TORCH_CHECK(of.block > 0, "sparseBlockSize is ", of.block, ", at least 1 is expected");
  need_sizes("attentionOut", out, outer(of.query, 1, {plain}));
  rows.checked(of.query);
}

void sparse_attention_of_bytes(const SparseHeads& of, const RowsOfBytes& bytes, const SparseRows& rows, Tensor& out) {
  const int64_t plain = of.query.size(-1) - bytes.rotated, tiles = plain / bytes.tile;
  const auto part = [](const Tensor& t, int64_t from, int64_t count, at::ScalarType type) {
    return t.view(at::kChar).narrow(-1, from, count).contiguous().view(type).to(at::kFloat);
  };
  const auto numbers = [&](const Tensor& t) {
    const Tensor scales = part(t, plain + 2 * bytes.rotated, 4 * tiles, at::kFloat);
    return mx::floats(t.narrow(-1, 0, plain)) * scales.repeat_interleave(bytes.tile, -1);
  };
  const Tensor key = at::cat({numbers(of.key), part(of.key, plain, 2 * bytes.rotated, of.query.scalar_type())}, -1);
  const OptionalTensor value = numbers(*of.value);
  const SparseHeads read = {
      .query = of.query, .key = key, .value = value, .indices = of.indices, .scale = of.scale, .block = of.block};
  Tensor none;
  sparse_attention(read, rows, out, none, none);
}

}  // namespace softnpu::ops::kernels
