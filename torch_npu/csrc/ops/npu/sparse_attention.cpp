// See sparse_attention.h.
#include "csrc/ops/npu/sparse_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

void check_heads(const char* op, const at::Tensor& query, const at::Tensor& key, int64_t dim) {
  const int64_t heads = known(query, dim), key_heads = known(key, dim);
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, op, ": query has ", heads, " heads, no multiple of the ",
              key_heads, " of key");
  TORCH_SYM_CHECK(key.sym_size(-1).sym_eq(query.sym_size(-1)), op, ": key has ", key.sym_size(-1), " columns, not the ",
                  query.sym_size(-1), " of query");
}

void check_sparse(const char* op, const RowLayout& form, const SparseHeads& of, const Window& window) {
  check_number(op, "sparse_mode", window.mode, {0, 3});
  TORCH_CHECK_NOT_IMPLEMENTED(window.before == kAll && window.after == kAll, op,
                              ": pre_tokens and next_tokens are not implemented; leave them out");
  need_dims(op, "query", of.query, {form.query_dims()});
  need_dims(op, "key", of.key, {form.key_dims()});
  need_same_type(op, "query", of.query, "key", of.key);
  check_heads(op, of.query, of.key, -2);
  if (given(of.value)) {
    need_same_type(op, "key", of.key, "value", *of.value);
    Sizes rows = without_last(of.key);
    rows.push_back(-1);
    need_sizes(op, "value", of.value, rows);
  }
  Sizes indices = without_last(of.query, 2);
  indices.insert(indices.end(), {of.key.sym_size(-2), -1});
  need_sizes(op, "sparse_indices", of.indices, indices);
  need_integers(op, "sparse_indices", of.indices);
  TORCH_CHECK_VALUE(of.block > 0, op, ": sparse_block_size is ", of.block, ", at least 1 is expected");
  check_number(op, "attention_mode", of.mode, {0, 2});
  const bool rotated = given(of.query_rope);
  TORCH_CHECK_VALUE(rotated == given(of.key_rope) && rotated == (of.mode == 2), op,
                    ": attention_mode 2 goes with query_rope and key_rope, 0 with neither");
  for (const auto& [name, rope, of_rows] :
       {std::tuple{"query_rope", &of.query_rope, &of.query}, {"key_rope", &of.key_rope, &of.key}}) {
    Sizes sizes = without_last(*of_rows);
    sizes.push_back(-1);
    need_sizes(op, name, *rope, sizes);
  }
  need_sizes(op, "sinks", of.sinks, {of.query.sym_size(-2)});
}

Triple sparse_parts(const RowLayout& form, const SparseHeads& of, const SparseLengths& lengths, bool causal) {
  const auto with = [](const at::Tensor& t, const OptionalTensor& rope) {
    return given(rope) ? at::cat({t, *rope}, -1) : t;
  };
  const at::Tensor query = form.queries(with(of.query, of.query_rope)), key = form.keys(with(of.key, of.key_rope));
  const at::Tensor value = form.keys(given(of.value) ? *of.value : of.key);
  const KeyRows rows = form.rows(query, key, lengths.query, lengths.key);
  const int64_t keys = known(key, 1), heads = known(query, 2), key_heads = known(key, 2);
  const at::Tensor named = chosen_keys(rows, keys, form.queries(of.indices), of.block).permute({0, 2, 1, 3});
  const at::Tensor count = named * seen_keys(rows, keys, causal).unsqueeze(1);
  // A key that is named twice is there twice.
  const at::Tensor bias = at::log(count).repeat_interleave(heads / key_heads, 1);
  const Attended a = attended(query, key, value, of.scale, bias, of.sinks);
  const auto sums = [&](const at::Tensor& t) {
    return form.back(t.unflatten(1, {key_heads, heads / key_heads}).permute({0, 1, 3, 2}).contiguous());
  };
  return {form.back(a.out.contiguous()), sums(a.largest), sums(a.sum)};
}

at::Tensor opened(const at::Tensor& mask, at::IntArrayRef block, int64_t rows, int64_t keys) {
  const at::Tensor each = mask.ne(0).repeat_interleave(block[0], -2).repeat_interleave(block[1], -1);
  return each.narrow(-2, 0, rows).narrow(-1, 0, keys);
}

void check_block(const char* op, const BlockHeads& of) {
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

// Of [batch, heads, rows, columns]; the logarithm of the sum is [batch, heads, rows, 1].
Pair dense_blocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                  const BlockHeads& of) {
  const auto turned = [](const at::Tensor& t) { return t.transpose(1, 2); };
  const at::Tensor open = opened(mask, of.block, known(q, 2), known(k, 2));
  const Attended a = attended(turned(q), turned(k), turned(v), of.scale, at::log(open.to(at::kFloat)));
  return {turned(a.out), (a.largest + at::log(a.sum)).unsqueeze(-1)};
}

Pair all_blocks(const BlockHeads& of, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (!of.lengths) return dense_blocks(q, k, v, of.mask, of);
  const bool packed = of.layout == "TND";
  std::vector<at::Tensor> outs, sums;
  int64_t from = 0, key_from = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(of.lengths->size()); ++i) {
    const int64_t rows = (*of.lengths)[i], keys = (*of.key_lengths)[i];
    const auto part = [&](const at::Tensor& t, int64_t begin, int64_t count) {
      return packed ? t.narrow(0, begin, count).transpose(0, 1).unsqueeze(0) : t.narrow(0, i, 1).narrow(2, 0, count);
    };
    auto [out, lse] = dense_blocks(part(q, from, rows), part(k, key_from, keys), part(v, key_from, keys),
                                   of.mask.narrow(0, i, 1), of);
    from += rows;
    key_from += keys;
    if (packed) {
      outs.push_back(out.squeeze(0).transpose(0, 1));
      sums.push_back(lse.squeeze(0).transpose(0, 1));
    } else {
      const int64_t rest = known(q, 2) - rows;
      outs.push_back(at::constant_pad_nd(out, {0, 0, 0, rest}));
      sums.push_back(at::constant_pad_nd(lse, {0, 0, 0, rest}));
    }
  }
  return {at::cat(outs), at::cat(sums)};
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

Triple two_sets(const std::vector<at::Tensor>& o, const OptionalTensor& mask, double scale) {
  const at::Tensor q = wide(o[0]), k1 = wide(o[1]), v1 = wide(o[2]), k2 = wide(o[3]), v2 = wide(o[4]);
  at::Tensor scores = (at::einsum("bhnmd,bhnkd->bhnmk", {q, k1}) + at::einsum("bhnmd,bhkmd->bhnmk", {q, k2})) * scale;
  if (given(mask)) scores = scores.masked_fill(mask->ne(0), -std::numeric_limits<double>::infinity());
  const at::Tensor largest = scores.detach().amax(-1, true), from = at::where(largest.isinf(), 0, largest);
  const at::Tensor e = at::exp(scores - from), sum = e.sum(-1, true), p = e / at::where(sum.eq(0), 1, sum);
  const at::Tensor out = at::einsum("bhnmk,bhnkd->bhnmd", {p, v1}) + at::einsum("bhnmk,bhkmd->bhnmd", {p, v2});
  const auto eight = [](const at::Tensor& t) { return t.detach().expand({-1, -1, -1, -1, 8}).contiguous(); };
  return {eight(largest), eight(sum), out.to(o[0].scalar_type())};
}

}  // namespace

Triple sparse_attention(const SparseHeads& of, const SparseLengths& lengths, const OptionalTensor& table,
                        std::string_view layout, std::string_view key_layout, const Window& window, bool with_sums) {
  const char* const op = "npu_sparse_flash_attention";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form(op, layout, key_layout, table);
  check_sparse(op, form, of, window);
  auto [out, largest, sum] = sparse_parts(form, of, lengths, window.mode == 3);
  if (with_sums) return {out, largest, sum};
  const at::Tensor none = at::empty({0}, of.query.options().dtype(at::kFloat));
  return {out, none, none.clone()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> sparse_attention_backward(
    const SparseHeads& of, const at::Tensor& grad, const SparseLengths& lengths, std::string_view layout,
    const Window& window) {
  const char* const op = "npu_sparse_flash_attention_grad";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form(op, layout, layout, std::nullopt);
  check_sparse(op, form, of, window);
  std::vector<at::Tensor> operands = {of.query, of.key};
  for (const OptionalTensor* t : {&of.value, &of.query_rope, &of.key_rope}) {
    if (given(*t)) operands.push_back(**t);
  }
  Sizes out = without_last(of.query);
  out.push_back((given(of.value) ? *of.value : of.key).sym_size(-1));
  need_sizes(op, "d_out", grad, out);
  const auto forward = [&](const std::vector<at::Tensor>& o) {
    size_t next = 2;
    const auto take = [&](const OptionalTensor& t) { return given(t) ? OptionalTensor(o[next++]) : std::nullopt; };
    const OptionalTensor value = take(of.value), query_rope = take(of.query_rope), key_rope = take(of.key_rope);
    const SparseHeads at_operands = {o[0],       o[1],     value,    query_rope, key_rope,
                                     of.indices, of.scale, of.block, of.mode,    of.sinks};
    return std::get<0>(sparse_parts(form, at_operands, lengths, window.mode == 3));
  };
  const auto made = gradients_of(forward, operands, grad);
  size_t next = 2;
  const auto take = [&](const OptionalTensor& t) { return given(t) ? made[next++] : at::Tensor(); };
  const at::Tensor value = take(of.value), query_rope = take(of.query_rope), key_rope = take(of.key_rope);
  return {made[0], made[1], value, query_rope, key_rope};
}

at::Tensor sparse_attention_of_bytes(const at::Tensor& query, const QuantizedRows& rows, const at::Tensor& indices,
                                     double scale, int64_t block, const SparseLengths& lengths,
                                     const OptionalTensor& table, std::string_view layout, std::string_view key_layout,
                                     const Window& window) {
  const char* const op = "npu_kv_quant_sparse_flash_attention";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const RowLayout form(op, layout, key_layout, table);
  need_dims(op, "query", query, {form.query_dims()});
  need_type(op, "query", query, {at::kHalf, at::kBFloat16});
  need_dims(op, "key", rows.key, {form.key_dims()});
  need_type(op, "key", rows.key, {at::kChar, at::kFloat8_e4m3fn});
  need_same_type(op, "key", rows.key, "value", rows.value);
  need_sizes(op, "value", rows.value, sizes_of(rows.key));
  const int64_t plain_columns = known(query, -1) - rows.rotated;
  TORCH_CHECK_VALUE(rows.tile > 0 && rows.rotated >= 0 && plain_columns > 0 && plain_columns % rows.tile == 0, op, ": ",
                    query.sym_size(-1), " columns of query, ", rows.rotated, " of them rotated, in tiles of ",
                    rows.tile);
  const int64_t tiles = plain_columns / rows.tile, bytes = plain_columns + 2 * rows.rotated + 4 * tiles;
  TORCH_SYM_CHECK(rows.key.sym_size(-1).sym_eq(bytes), op, ": a row of key has ", bytes, " bytes, not ",
                  rows.key.sym_size(-1));
  const auto numbers = [&](const at::Tensor& t) {
    const at::Tensor scales =
        t.narrow(-1, plain_columns + 2 * rows.rotated, 4 * tiles).contiguous().view(at::kChar).view(at::kFloat);
    return t.narrow(-1, 0, plain_columns).to(at::kFloat) * scales.repeat_interleave(rows.tile, -1);
  };
  const at::Tensor turned =
      rows.key.narrow(-1, plain_columns, 2 * rows.rotated).contiguous().view(at::kChar).view(query.scalar_type());
  const at::Tensor key = at::cat({numbers(rows.key), turned.to(at::kFloat)}, -1);
  const OptionalTensor value = numbers(rows.value), none;
  const SparseHeads of = {query.to(at::kFloat), key, value, none, none, indices, scale, block, 0, none};
  check_sparse(op, form, of, window);
  return std::get<0>(sparse_parts(form, of, lengths, window.mode == 3)).to(query.scalar_type());
}

Pair block_attention(const BlockHeads& of, bool with_lse) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_block("npu_block_sparse_attention", of);
  auto [out, lse] = all_blocks(of, of.query, of.key, of.value);
  return {out.contiguous(), with_lse ? lse.contiguous() : at::empty({0}, lse.options())};
}

Triple block_attention_backward(const BlockHeads& of, const at::Tensor& grad) {
  const char* const op = "npu_block_sparse_attention_backward";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_block(op, of);
  need_sizes(op, "d_out", grad, sizes_of(of.query));
  const auto forward = [&](const std::vector<at::Tensor>& o) { return std::get<0>(all_blocks(of, o[0], o[1], o[2])); };
  const auto made = gradients_of(forward, {of.query, of.key, of.value}, grad);
  return {made[0], made[1], made[2]};
}

Triple two_set_attention(const TwoSets& of) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_two_sets("npu_fused_floyd_attention", of);
  return two_sets({of.query, of.key1, of.value1, of.key2, of.value2}, of.mask, of.scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> two_set_attention_backward(
    const at::Tensor& grad, const TwoSets& of) {
  const char* const op = "npu_fused_floyd_attention_backward";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_two_sets(op, of);
  need_sizes(op, "grad_output", grad, sizes_of(of.query));
  const auto forward = [&](const std::vector<at::Tensor>& o) { return std::get<2>(two_sets(o, of.mask, of.scale)); };
  const auto made = gradients_of(forward, {of.query, of.key1, of.value1, of.key2, of.value2}, grad);
  return {made[0], made[1], made[2], made[3], made[4]};
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
}

}  // namespace npu::ops
