// See nsa.h.
#include "csrc/ops/npu/nsa.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

// Running ends as lengths.
std::vector<int64_t> lengths_of(const char* op, const char* name, at::OptionalIntArrayRef ends, int64_t rows) {
  TORCH_CHECK_VALUE(ends && !ends->empty(), op, ": ", name, " is needed");
  std::vector<int64_t> lengths;
  int64_t before = 0;
  for (const int64_t end : *ends) {
    TORCH_CHECK_VALUE(end >= before, op, ": ", name, " is not a running sum: ", *ends);
    lengths.push_back(end - before);
    before = end;
  }
  TORCH_CHECK_VALUE(rows < 0 || before == rows, op, ": ", name, " ends with ", before, ", rows are ", rows);
  return lengths;
}

void check_windows(const char* op, const at::Tensor& weight, const c10::SymInt& heads, int64_t block, int64_t stride) {
  TORCH_CHECK_VALUE(stride > 0 && block >= stride, op, ": compress_block_size ", block, " and compress_stride ", stride,
                    ": a positive stride of at most the block is expected");
  need_sizes(op, "weight", weight, {block, heads});
}

void check_compressed(const char* op, const at::Tensor& input, const at::Tensor& weight, int64_t block,
                      int64_t stride) {
  need_dims(op, "input", input, {3});
  need_same_type(op, "input", input, "weight", weight);
  check_windows(op, weight, input.sym_size(1), block, stride);
}

at::Tensor windows(const at::Tensor& input, const at::Tensor& weight, int64_t block, int64_t stride,
                   const std::vector<int64_t>& lengths) {
  std::vector<at::Tensor> parts;
  int64_t from = 0;
  const at::Tensor x = wide(input), w = wide(weight).transpose(0, 1).unsqueeze(1);  // [heads, 1, block]
  for (const int64_t length : lengths) {
    if (length >= block) parts.push_back((x.narrow(0, from, length).unfold(0, block, stride) * w).sum(-1));
    from += length;
  }
  if (parts.empty()) return x.narrow(0, 0, 0).to(input.scalar_type());
  return at::cat(parts).to(input.scalar_type());
}

void check_heads(const char* op, const NsaHeads& of) {
  need_dims(op, "query", of.query, {3});
  need_sizes(op, "key", of.key, {-1, -1, of.query.sym_size(2)});
  need_sizes(op, "value", of.value, {of.key.sym_size(0), of.key.sym_size(1), -1});
  need_same_type(op, "query", of.query, "key", of.key);
  need_same_type(op, "query", of.query, "value", of.value);
  const int64_t heads = known(of.query, 1), key_heads = known(of.key, 1);
  TORCH_CHECK_VALUE(of.heads == heads, op, ": head_num is ", of.heads, ", query has ", heads, " heads");
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, op, ": query has ", heads, " heads, no multiple of the ",
              key_heads, " of key");
}

void check_blocks(const char* op, const NsaBlocks& b) {
  TORCH_CHECK_VALUE(b.stride > 0 && b.compressed >= b.stride && b.compressed % b.stride == 0 &&
                        b.selected >= b.compressed && b.selected % b.stride == 0 && b.count > 0,
                    op, ": blocks of ", b.compressed, " every ", b.stride, ", ", b.count, " of ", b.selected,
                    " chosen: multiples of compress_stride are expected, select_block_size not below the other");
}

// How many pairs (m, n), m below selected / stride, n below compressed / stride, have selected / stride * j - m - n == c: [keys, blocks].
at::Tensor shares(const NsaBlocks& b, int64_t keys, int64_t blocks, const at::Tensor& like) {
  const int64_t first = b.selected / b.stride, second = b.compressed / b.stride;
  const auto options = like.options();
  const at::Tensor sum = at::arange(blocks, options) * first - at::arange(keys, options).unsqueeze(1);
  return (sum.clamp_max(first - 1) - (sum - second + 1).clamp_min(0) + 1).clamp_min(0);
}

// The best blocks of each row: [rows, key heads, count], -1 where there are fewer. `weights` is [heads, rows, keys].
at::Tensor best_blocks(const at::Tensor& weights, const NsaBlocks& b, int64_t key_heads, int64_t blocks) {
  const at::Tensor p = weights.detach();
  const at::Tensor of_block = at::matmul(p, shares(b, known(p, 2), blocks, p));
  const at::Tensor score = of_block.unflatten(0, {key_heads, known(p, 0) / key_heads}).sum(1);
  const int64_t found = std::min(blocks, b.count);
  const at::Tensor index = std::get<1>(score.topk(found, -1)).to(at::kInt).transpose(0, 1);
  return at::constant_pad_nd(index, {0, b.count - found}, -1);
}

at::Tensor eight(const at::Tensor& t) {  // [1, heads, rows] -> [rows, heads, 8]
  return t.squeeze(0).transpose(0, 1).unsqueeze(-1).expand({-1, -1, 8}).contiguous();
}

struct Parts {
  std::vector<at::Tensor> out, index, largest, sum;
};

Triple selected_parts(const NsaHeads& of, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& chosen, int64_t block, const std::vector<int64_t>& lengths,
                      const std::vector<int64_t>& key_lengths) {
  Parts parts;
  int64_t from = 0, key_from = 0;
  const RowLayout dense("nsa", "BSND", "BSND", std::nullopt);
  const int64_t group = known(q, 1) / known(k, 1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto rows = [&](const at::Tensor& t) { return t.narrow(0, from, lengths[i]).unsqueeze(0); };
    const auto keys = [&](const at::Tensor& t) { return t.narrow(0, key_from, key_lengths[i]).unsqueeze(0); };
    const at::Tensor query = rows(q), key = keys(k);
    const KeyRows places = dense.rows(query, key, OptionalTensor(), OptionalTensor());
    const at::Tensor named = chosen_keys(places, key_lengths[i], rows(chosen), block).permute({0, 2, 1, 3});
    const Attended a = attended(query, key, keys(v), of.scale, at::log(named).repeat_interleave(group, 1));
    parts.out.push_back(a.out.squeeze(0));
    parts.largest.push_back(eight(a.largest));
    parts.sum.push_back(eight(a.sum));
    from += lengths[i];
    key_from += key_lengths[i];
  }
  return {at::cat(parts.out), at::cat(parts.largest), at::cat(parts.sum)};
}

struct Sequences {
  std::vector<int64_t> rows, keys;
};
Sequences check_selected(const char* op, const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                         at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends) {
  check_heads(op, of);
  need_sizes(op, "topk_indices", chosen, {of.query.sym_size(0), of.key.sym_size(1), count});
  need_integers(op, "topk_indices", chosen);
  TORCH_CHECK_VALUE(block > 0, op, ": select_block_size is ", block);
  Sequences s = {lengths_of(op, "actual_seq_qlen", ends, known(of.query, 0)),
                 lengths_of(op, "actual_seq_kvlen", key_ends, known(of.key, 0))};
  TORCH_CHECK_VALUE(s.rows.size() == s.keys.size(), op, ": ", s.rows.size(), " lengths of queries and ", s.keys.size(),
                    " of keys");
  return s;
}

// Keys of pages as [batch, keys, heads, columns].
at::Tensor paged(const char* op, const char* name, const at::Tensor& cache, const Pages& pages) {
  need_dims(op, name, cache, {3, 4});
  const at::Tensor split = cache.dim() == 4 ? cache : cache.unflatten(-1, {pages.key_heads, -1});
  need_sizes(op, name, split, {-1, pages.page, pages.key_heads, -1});
  const at::Tensor blocks = pages.table->to(at::kLong).clamp_min(0);
  return split.index_select(0, blocks.flatten()).unflatten(0, {known(blocks, 0), known(blocks, 1)}).flatten(1, 2);
}

struct Decode {
  at::Tensor query, key, value;  // [batch, 1, ..]
  KeyRows rows;
};
Decode decode(const char* op, const NsaHeads& of, const Pages& pages) {
  check_word(op, "layout", pages.layout, {"BSND", "TND"});
  const bool packed = pages.layout == "TND";
  need_dims(op, "query", of.query, {packed ? 3 : 4});
  TORCH_CHECK_VALUE(given(pages.table), op, ": block_table is needed");
  need_dims(op, "block_table", *pages.table, {2});
  need_integers(op, "block_table", pages.table);
  const at::Tensor query = packed ? of.query.unsqueeze(1) : of.query;
  const int64_t batch = known(*pages.table, 0);
  TORCH_CHECK_NOT_IMPLEMENTED(known(query, 1) == 1 && known(query, 0) == batch, op, ": ", of.query.sym_sizes(),
                              " with a table of ", batch,
                              " sequences: several queries of a sequence are not implemented");
  if (pages.query_lengths) {
    for (const int64_t n : *pages.query_lengths) {
      TORCH_CHECK_NOT_IMPLEMENTED(n == 1, op, ": ", n, " queries of a sequence are not implemented, one is");
    }
  }
  TORCH_CHECK_VALUE(pages.key_lengths && static_cast<int64_t>(pages.key_lengths->size()) == batch, op,
                    ": a length of keys for each of ", batch, " sequences is needed");
  const int64_t heads = known(query, 2);
  TORCH_CHECK_VALUE(of.heads == heads && pages.key_heads > 0 && heads % pages.key_heads == 0, op, ": head_num ",
                    of.heads, " and key_value_head_num ", pages.key_heads, " for a query of ", heads, " heads");
  need_same_type(op, "query", of.query, "key", of.key);
  need_same_type(op, "query", of.query, "value", of.value);
  const at::Tensor key = paged(op, "key", of.key, pages), value = paged(op, "value", of.value, pages);
  need_sizes(op, "key", key, {-1, -1, -1, query.sym_size(3)});
  for (const int64_t n : *pages.key_lengths) {
    TORCH_CHECK_VALUE(n >= 0 && n <= known(key, 1), op, ": a sequence of ", n, " keys, its pages hold ",
                      key.sym_size(1));
  }
  const auto lengths = c10::fromIntArrayRefSlow(*pages.key_lengths);
  const RowLayout dense(op, "BSND", "BSND", std::nullopt);
  return {query, key, value, dense.rows(query, key, std::nullopt, OptionalTensor(long_list(lengths, query)))};
}

}  // namespace

at::Tensor compressed_keys(const at::Tensor& input, const at::Tensor& weight, int64_t block, int64_t stride,
                           at::OptionalIntArrayRef ends) {
  const char* const op = "npu_nsa_compress";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_compressed(op, input, weight, block, stride);
  return windows(input, weight, block, stride, lengths_of(op, "actual_seq_len", ends, known(input, 0)));
}

Pair compressed_keys_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, int64_t block,
                              int64_t stride, at::OptionalIntArrayRef ends) {
  const char* const op = "npu_nsa_compress_grad";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_compressed(op, input, weight, block, stride);
  const auto lengths = lengths_of(op, "actual_seq_len", ends, known(input, 0));
  const auto forward = [&](const std::vector<at::Tensor>& o) { return windows(o[0], o[1], block, stride, lengths); };
  int64_t rows = 0;
  for (const int64_t n : lengths) rows += n < block ? 0 : (n - block) / stride + 1;
  need_sizes(op, "grad", grad, {rows, input.sym_size(1), input.sym_size(2)});
  const auto made = gradients_of(forward, {input, weight}, grad);
  return {made[0], made[1]};
}

at::Tensor& compressed_into(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& slots, int64_t block,
                            int64_t stride, int64_t page, const OptionalTensor& table, at::OptionalIntArrayRef lengths,
                            const at::Tensor& cache) {
  const char* const op = "npu_nsa_compress_infer";
  need_dims(op, "input", input, {4});
  TORCH_CHECK_VALUE(given(table), op, ": block_table is needed");
  need_dims(op, "block_table", *table, {2});
  need_integers(op, "block_table", table);
  const int64_t batch = known(*table, 0);
  need_sizes(op, "input", input, {-1, page, -1, -1});
  need_same_type(op, "input", input, "weight", weight);
  need_same_type(op, "input", input, "cache", cache);
  check_windows(op, weight, input.sym_size(2), block, stride);
  need_sizes(op, "cache", cache, {-1, input.sym_size(2), input.sym_size(3)});
  need_sizes(op, "slot_mapping", slots, {batch});
  need_integers(op, "slot_mapping", slots);
  TORCH_CHECK_VALUE(lengths && static_cast<int64_t>(lengths->size()) == batch, op, ": a length for each of ", batch,
                    " sequences is needed");
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t length = (*lengths)[static_cast<size_t>(i)];
    TORCH_CHECK_VALUE(length >= 0 && length <= known(*table, 1) * page, op, ": sequence ", i, " has length ", length,
                      ", its pages hold ", table->sym_size(1) * page);
    if (length < block || (length - block) % stride != 0) continue;
    const at::Tensor rows = input.index_select(0, table->select(0, i).to(at::kLong).clamp_min(0)).flatten(0, 1);
    const at::Tensor window = wide(rows.narrow(0, length - block, block)) * wide(weight).unsqueeze(-1);
    writable(cache).index_copy_(0, slots.narrow(0, i, 1).to(at::kLong), window.sum(0, true).to(cache.scalar_type()));
  }
  return writable(cache);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> compressed_attention(const NsaHeads& of, const NsaBlocks& b,
                                                                                const OptionalTensor& mask,
                                                                                const NsaEnds& ends) {
  const char* const op = "npu_nsa_compress_attention";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_heads(op, of);
  check_blocks(op, b);
  const auto rows = lengths_of(op, "actual_seq_qlen", ends.query, known(of.query, 0));
  const auto keys = lengths_of(op, "actual_cmp_seq_kvlen", ends.compressed, known(of.key, 0));
  const auto blocks = lengths_of(op, "actual_sel_seq_kvlen", ends.selected, -1);
  TORCH_CHECK_VALUE(rows.size() == keys.size() && rows.size() == blocks.size(), op, ": ", rows.size(), ", ",
                    keys.size(), " and ", blocks.size(), " lengths");
  const int64_t most_rows = *std::max_element(rows.begin(), rows.end());
  const int64_t most_keys = *std::max_element(keys.begin(), keys.end());
  need_sizes(op, "atten_mask", mask, {most_rows, most_keys});
  need_type(op, "atten_mask", mask, {at::kBool});
  Parts parts;
  int64_t from = 0, key_from = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto of_keys = [&](const at::Tensor& t) { return t.narrow(0, key_from, keys[i]).unsqueeze(0); };
    const at::Tensor query = of.query.narrow(0, from, rows[i]).unsqueeze(0);
    at::Tensor bias = at::zeros({rows[i], keys[i]}, query.options().dtype(at::kFloat));
    if (given(mask)) {
      bias = bias.masked_fill(mask->narrow(0, 0, rows[i]).narrow(1, 0, keys[i]), -INFINITY);
    }
    const Attended a = attended(query, of_keys(of.key), of_keys(of.value), of.scale, bias);
    parts.out.push_back(a.out.squeeze(0));
    parts.index.push_back(best_blocks(a.weights.squeeze(0), b, known(of.key, 1), blocks[i]));
    parts.largest.push_back(eight(a.largest));
    parts.sum.push_back(eight(a.sum));
    from += rows[i];
    key_from += keys[i];
  }
  return {at::cat(parts.out), at::cat(parts.index), at::cat(parts.largest), at::cat(parts.sum)};
}

Triple selected_attention(const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                          at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const Sequences s = check_selected("npu_nsa_select_attention", of, chosen, block, count, ends, key_ends);
  return selected_parts(of, of.query, of.key, of.value, chosen, block, s.rows, s.keys);
}

Triple selected_attention_backward(const at::Tensor& grad, const NsaHeads& of, const at::Tensor& chosen, int64_t block,
                                   int64_t count, at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends) {
  const char* const op = "npu_nsa_select_attention_grad";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const Sequences s = check_selected(op, of, chosen, block, count, ends, key_ends);
  need_sizes(op, "grad", grad, {of.query.sym_size(0), of.query.sym_size(1), of.value.sym_size(2)});
  const auto forward = [&](const std::vector<at::Tensor>& o) {
    return std::get<0>(selected_parts(of, o[0], o[1], o[2], chosen, block, s.rows, s.keys));
  };
  const auto made = gradients_of(forward, {of.query, of.key, of.value}, grad);
  return {made[0], made[1], made[2]};
}

Pair compressed_decode(const NsaHeads& of, const NsaBlocks& b, const Pages& pages,
                       at::OptionalIntArrayRef selected_lengths) {
  const char* const op = "npu_nsa_compress_attention_infer";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  check_blocks(op, b);
  const Decode d = decode(op, of, pages);
  const size_t batch = pages.key_lengths->size();
  TORCH_CHECK_VALUE(!selected_lengths || selected_lengths->size() == batch, op, ": ", selected_lengths->size(),
                    " lengths actual_sel_seq_kvlen for ", batch, " sequences");
  const at::Tensor bias = at::log(seen_keys(d.rows, known(d.key, 1), false).to(at::kFloat)).unsqueeze(1);
  const Attended a = attended(d.query, d.key, d.value, of.scale, bias);
  std::vector<at::Tensor> index;
  for (size_t i = 0; i < batch; ++i) {
    const int64_t keys = (*pages.key_lengths)[i];
    const int64_t tokens = selected_lengths ? (*selected_lengths)[i] : (keys - 1) * b.stride + b.compressed;
    const at::Tensor weights = a.weights.select(0, static_cast<int64_t>(i)).narrow(2, 0, keys);
    const int64_t blocks = keys == 0 ? 0 : (tokens + b.selected - 1) / b.selected;
    index.push_back(best_blocks(weights, b, pages.key_heads, blocks));  // [1, key heads, count]
  }
  const at::Tensor chosen = at::cat(index);
  if (pages.layout == "TND") return {a.out.squeeze(1), chosen};
  return {a.out.contiguous(), chosen.unsqueeze(1)};
}

at::Tensor selected_decode(const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                           const Pages& pages) {
  const char* const op = "npu_nsa_select_attention_infer";
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const Decode d = decode(op, of, pages);
  TORCH_CHECK_VALUE(block > 0, op, ": select_block_size is ", block);
  Sizes sizes = without_last(of.query, 2);
  sizes.insert(sizes.end(), {pages.key_heads, count});
  need_sizes(op, "topk_indices", chosen, sizes);
  need_integers(op, "topk_indices", chosen);
  const at::Tensor index = pages.layout == "TND" ? chosen.unsqueeze(1) : chosen;
  const int64_t keys = known(d.key, 1);
  const at::Tensor named = chosen_keys(d.rows, keys, index, block).permute({0, 2, 1, 3});
  const at::Tensor seen = named * seen_keys(d.rows, keys, false).unsqueeze(1);
  const Attended a =
      attended(d.query, d.key, d.value, of.scale, at::log(seen).repeat_interleave(of.heads / pages.key_heads, 1));
  return pages.layout == "TND" ? a.out.squeeze(1) : a.out.contiguous();
}

}  // namespace npu::ops
