// See nsa.h.
#include "softnpu/ops/nsa.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// Running ends as lengths. rows < 0: whatever they end with.
std::vector<int64_t> lengths_of(const char* name, IntArrayRef ends, int64_t rows) {
  TORCH_CHECK(!ends.empty(), name, " is needed");
  std::vector<int64_t> lengths;
  int64_t before = 0;
  for (const int64_t end : ends) {
    TORCH_CHECK(end >= before, name, " is not a running sum: ", ends);
    lengths.push_back(end - before);
    before = end;
  }
  TORCH_CHECK(rows < 0 || before == rows, name, " ends with ", before, ", rows are ", rows);
  return lengths;
}

struct Sequence {
  int64_t row, rows, key, keys;
};
std::vector<Sequence> sequences(const NsaHeads& of) {
  const auto rows = lengths_of("actualSeqQLen", of.ends, of.query.size(0));
  const auto keys = lengths_of("the keys' actualSeqLen", of.key_ends, of.key.size(0));
  TORCH_CHECK(rows.size() == keys.size(), rows.size(), " lengths of queries and ", keys.size(), " of keys");
  std::vector<Sequence> found;
  int64_t row = 0, key = 0;
  for (size_t i = 0; i < rows.size(); i++) {
    found.push_back({row, rows[i], key, keys[i]});
    row += rows[i];
    key += keys[i];
  }
  return found;
}

void check_operands(const NsaHeads& of) {
  need_word("inputLayout", of.layout, {"TND"});
  need_dims("query", of.query, {3});
  need_sizes("key", of.key, {-1, -1, of.query.size(2)});
  need_sizes("value", of.value, {of.key.size(0), of.key.size(1), -1});
  need_heads(of.query, of.key);
  TORCH_CHECK(of.heads == of.query.size(1), "headNum is ", of.heads, ", query has ", of.query.size(1), " heads");
}

void check_sums(const NsaHeads& of, const NsaSums& sums) {
  need_sizes("softmaxMax", sums.largest, {of.query.size(0), of.query.size(1), 8});
  need_sizes("softmaxSum", sums.sum, {of.query.size(0), of.query.size(1), 8});
}

void check_blocks(const NsaBlocks& b) {
  TORCH_CHECK(b.stride > 0 && b.compressed >= b.stride && b.compressed % b.stride == 0 && b.selected >= b.compressed &&
                  b.selected % b.stride == 0 && b.count > 0,
              "blocks of ", b.compressed, " every ", b.stride, ", ", b.count, " of ", b.selected,
              " chosen: multiples of compressStride are expected, selectBlockSize not below the other");
}

// How many pairs (m, n), m below selected / stride, n below compressed / stride, have selected / stride * j - m - n == c: [keys, blocks].
Tensor shares(const NsaBlocks& b, int64_t keys, int64_t blocks, const Tensor& like) {
  const int64_t first = b.selected / b.stride, second = b.compressed / b.stride;
  const Tensor sum = at::arange(blocks, like.options()) * first - at::arange(keys, like.options()).unsqueeze(1);
  return (sum.clamp_max(first - 1) - (sum - second + 1).clamp_min(0) + 1).clamp_min(0);
}

// The best blocks of each row: [rows, key heads, count], -1 where there are fewer. `weights` is [heads, rows, keys].
Tensor best_blocks(const Tensor& weights, const NsaBlocks& b, int64_t key_heads, int64_t blocks) {
  const Tensor of_block = at::matmul(weights, shares(b, weights.size(2), blocks, weights));
  const Tensor score = of_block.unflatten(0, {key_heads, weights.size(0) / key_heads}).sum(1);
  const int64_t found = std::min(blocks, b.count);
  return at::constant_pad_nd(std::get<1>(score.topk(found, -1)).transpose(0, 1), {0, b.count - found}, -1);
}

void put_sums(Tensor& out, const Sequence& s, const Tensor& t) {  // [1, heads, rows] -> [rows, heads, 8]
  out.narrow(0, s.row, s.rows).copy_(t.squeeze(0).transpose(0, 1).unsqueeze(-1));
}

// Queries and keys of one sequence, [1, rows, heads, columns].
struct Part {
  Tensor query, key, value;
};
Part part(const NsaHeads& of, const Sequence& s) {
  return {of.query.narrow(0, s.row, s.rows).unsqueeze(0), of.key.narrow(0, s.key, s.keys).unsqueeze(0),
          of.value.narrow(0, s.key, s.keys).unsqueeze(0)};
}

void check_chosen(const NsaHeads& of, const Chosen& chosen) {
  check_operands(of);
  need_number("sparseMode", of.mode, {0, 2});  // without a mask it has no effect
  need_absent("attenMask", of.mask);
  TORCH_CHECK(chosen.block > 0, "selectedBlockSize is ", chosen.block);
  need_sizes("topkIndices", chosen.index, {of.query.size(0), of.key.size(1), chosen.count});
  sequences(of);
}

// The logarithm of how often a row's blocks name a key: one that is named twice is there twice.
Tensor bias_of(const NsaHeads& of, const Chosen& chosen, const Sequence& s, const Part& p) {
  static const RowLayout dense("BSND", "BSND", std::nullopt);
  const KeyRows places = dense.rows(p.query, p.key, std::nullopt, std::nullopt);
  const Tensor index = chosen.index.narrow(0, s.row, s.rows).unsqueeze(0);
  const Tensor named = chosen_keys(places, s.keys, index, chosen.block).permute({0, 2, 1, 3});
  return at::log(named).repeat_interleave(of.query.size(1) / of.key.size(1), 1);
}

// Keys of pages as [batch, keys, heads, columns].
Tensor by_page(const NsaPages& of, const Tensor& cache) {
  return cache.dim() == 4 ? cache : cache.unflatten(-1, {of.key_heads, cache.size(-1) / of.key_heads});
}
Tensor paged(const NsaPages& of, const Tensor& cache) {
  const Tensor blocks = longs(*of.table).clamp_min(0);
  return by_page(of, cache).index_select(0, blocks.flatten()).unflatten(0, blocks.sizes()).flatten(1, 2);
}

bool packed(const NsaPages& of) { return of.layout == "TND"; }

void check_pages(const NsaPages& of) {
  need_word("layout", of.layout, {"BSND", "TND"});
  need_absent("attenMask", of.mask);
  need_absent("topkMask", of.block_mask);
  need_number("sparseMode", of.mode, {0});
  need_dims("query", of.query, {packed(of) ? 3 : 4});
  TORCH_CHECK(given(of.table), "blockTable is needed");
  need_dims("blockTable", *of.table, {2});
  const Tensor query = packed(of) ? of.query.unsqueeze(1) : of.query;
  const int64_t batch = of.table->size(0), heads = query.size(2);
  bool single = query.size(1) == 1 && query.size(0) == batch;
  for (const int64_t n : of.query_lengths) single = single && n == 1;
  TORCH_CHECK_NOT_IMPLEMENTED(single, "several queries of a sequence are not implemented, one is: query is ",
                              of.query.sizes(), ", blockTable has ", batch, " sequences");
  TORCH_CHECK(static_cast<int64_t>(of.lengths.size()) == batch, "a length of keys for each of ", batch,
              " sequences is needed");
  TORCH_CHECK(of.heads == heads && of.key_heads > 0 && heads % of.key_heads == 0, "numHeads ", of.heads,
              " and numKeyValueHeads ", of.key_heads, " for a query of ", heads, " heads");
  for (const auto& [name, t] : {std::pair{"key", &of.key}, {"value", &of.value}}) {
    need_dims(name, *t, {3, 4});
    TORCH_CHECK(t->dim() == 4 || t->size(-1) % of.key_heads == 0, name, " has ", t->size(-1), " columns of ",
                of.key_heads, " heads");
    need_sizes(name, by_page(of, *t), {-1, of.page, of.key_heads, -1});
  }
  need_sizes("key", by_page(of, of.key), {-1, -1, -1, query.size(3)});
  for (const int64_t n : of.lengths) {
    TORCH_CHECK(n >= 0 && n <= of.table->size(1) * of.page, "a sequence of ", n, " keys, its pages hold ",
                of.table->size(1) * of.page);
  }
}

std::vector<int64_t> out_sizes(const NsaPages& of) {
  auto sizes = of.query.sizes().vec();
  sizes.back() = by_page(of, of.value).size(3);
  return sizes;
}
std::vector<int64_t> index_sizes(const NsaPages& of, int64_t count) {
  auto sizes = of.query.sizes().slice(0, static_cast<size_t>(of.query.dim() - 2)).vec();
  sizes.insert(sizes.end(), {of.key_heads, count});
  return sizes;
}

struct Decode {
  Tensor query, key, value;  // [batch, 1, ..]
  KeyRows rows;
};
Decode decode(const NsaPages& of) {
  const Tensor query = packed(of) ? of.query.unsqueeze(1) : of.query, key = paged(of, of.key);
  const RowLayout dense("BSND", "BSND", std::nullopt);
  return {query, key, paged(of, of.value), dense.rows(query, key, std::nullopt, listed(of.lengths))};
}

}  // namespace

void check_compressed_attention(const NsaHeads& of, const NsaBlocks& b, const NsaSums& sums, const Tensor& out,
                                const Tensor& best) {
  check_operands(of);
  check_blocks(b);
  need_number("sparseMode", of.mode, {0, 1});
  need_absent("topkMask", of.block_mask);
  const auto found = sequences(of);
  const auto blocks = lengths_of("actualSelSeqKvLen", of.block_ends, -1);
  TORCH_CHECK(blocks.size() == found.size(), found.size(), " and ", blocks.size(), " lengths");
  int64_t most_rows = 0, most_keys = 0;
  for (const Sequence& s : found) most_rows = std::max(most_rows, s.rows), most_keys = std::max(most_keys, s.keys);
  need_sizes("attenMask", of.mask, {most_rows, most_keys});
  check_sums(of, sums);
  need_sizes("attentionOut", out, {of.query.size(0), of.query.size(1), of.value.size(2)});
  need_sizes("topkIndices", best, {of.query.size(0), of.key.size(1), b.count});
}

void compressed_attention(const NsaHeads& of, const NsaBlocks& b, Tensor& largest, Tensor& sum, Tensor& out,
                          Tensor& best) {
  const auto blocks = lengths_of("actualSelSeqKvLen", of.block_ends, -1);
  size_t i = 0;
  for (const Sequence& s : sequences(of)) {
    const Part p = part(of, s);
    Tensor bias = at::zeros({s.rows, s.keys}, at::kFloat);
    if (given(of.mask)) bias = bias.masked_fill(of.mask->narrow(0, 0, s.rows).narrow(1, 0, s.keys).ne(0), kNone);
    const Attended a = attended(p.query, p.key, p.value, of.scale, bias);
    out.narrow(0, s.row, s.rows).copy_(a.out.squeeze(0));
    best.narrow(0, s.row, s.rows).copy_(best_blocks(a.weights.squeeze(0), b, of.key.size(1), blocks[i++]));
    put_sums(largest, s, a.largest);
    put_sums(sum, s, a.sum);
  }
}

void check_selected_attention(const NsaHeads& of, const Chosen& chosen, const NsaSums& sums, const Tensor& out) {
  check_chosen(of, chosen);
  check_sums(of, sums);
  need_sizes("attentionOut", out, {of.query.size(0), of.query.size(1), of.value.size(2)});
}

void selected_attention(const NsaHeads& of, const Chosen& chosen, Tensor& largest, Tensor& sum, Tensor& out) {
  for (const Sequence& s : sequences(of)) {
    const Part p = part(of, s);
    const Attended a = attended(p.query, p.key, p.value, of.scale, bias_of(of, chosen, s, p));
    out.narrow(0, s.row, s.rows).copy_(a.out.squeeze(0));
    put_sums(largest, s, a.largest);
    put_sums(sum, s, a.sum);
  }
}

void check_selected_attention_backward(const NsaHeads& of, const Chosen& chosen, const NsaSums& sums,
                                       const Tensor& grad, const NsaGradients& made) {
  check_chosen(of, chosen);
  check_sums(of, sums);
  need_sizes("attentionOutGrad", grad, {of.query.size(0), of.query.size(1), of.value.size(2)});
  need_sizes("dq", made.query, of.query.sizes());
  need_sizes("dk", made.key, of.key.sizes());
  need_sizes("dv", made.value, of.value.sizes());
}

void selected_attention_backward(const NsaHeads& of, const Chosen& chosen, const NsaSums& sums, const Tensor& grad,
                                 const NsaGradients& made) {
  for (const Sequence& s : sequences(of)) {
    const Part p = part(of, s);
    const auto one = [&](const Tensor& t) {  // [rows, heads, 8] -> [1, heads, rows]
      return wide(t).narrow(0, s.row, s.rows).select(2, 0).transpose(0, 1).unsqueeze(0);
    };
    const Tensor weights =
        weights_of(p.query, p.key, of.scale, bias_of(of, chosen, s, p), one(sums.largest), one(sums.sum));
    const AttendedGradients d =
        attended_backward(grad.narrow(0, s.row, s.rows).unsqueeze(0), p.query, p.key, p.value, of.scale, weights);
    made.query.narrow(0, s.row, s.rows).copy_(d.query.squeeze(0));
    made.key.narrow(0, s.key, s.keys).copy_(d.key.squeeze(0));
    made.value.narrow(0, s.key, s.keys).copy_(d.value.squeeze(0));
  }
}

void check_compressed_decode(const NsaPages& of, const NsaBlocks& b, const Tensor& out, const Tensor& best) {
  check_blocks(b);
  check_pages(of);
  TORCH_CHECK(of.selected_lengths.empty() || of.selected_lengths.size() == of.lengths.size(),
              of.selected_lengths.size(), " lengths actualSelKvSeqLen for ", of.lengths.size(), " sequences");
  need_sizes("output", out, out_sizes(of));
  need_sizes("topKOutput", best, index_sizes(of, b.count));
}

void compressed_decode(const NsaPages& of, const NsaBlocks& b, Tensor& out, Tensor& best) {
  const Decode d = decode(of);
  const Tensor bias = at::log(seen_keys(d.rows, d.key.size(1), false).to(at::kFloat)).unsqueeze(1);
  const Attended a = attended(d.query, d.key, d.value, of.scale, bias);
  put(out, a.out.reshape(out.sizes()));
  for (size_t i = 0; i < of.lengths.size(); i++) {
    const int64_t keys = of.lengths[i];
    const int64_t tokens = of.selected_lengths.empty() ? (keys - 1) * b.stride + b.compressed : of.selected_lengths[i];
    const Tensor weights = a.weights.select(0, static_cast<int64_t>(i)).narrow(2, 0, keys);
    const int64_t blocks = keys == 0 ? 0 : (tokens + b.selected - 1) / b.selected;
    const Tensor row = best.select(0, static_cast<int64_t>(i));
    row.copy_(best_blocks(weights, b, of.key_heads, blocks).reshape(row.sizes()));
  }
}

void check_selected_decode(const NsaPages& of, const Chosen& chosen, const Tensor& out) {
  check_pages(of);
  TORCH_CHECK(chosen.block > 0, "selectBlockSize is ", chosen.block);
  need_sizes("topkIndices", chosen.index, index_sizes(of, chosen.count));
  need_sizes("output", out, out_sizes(of));
}

void selected_decode(const NsaPages& of, const Chosen& chosen, Tensor& out) {
  const Decode d = decode(of);
  const int64_t keys = d.key.size(1);
  const Tensor index = packed(of) ? chosen.index.unsqueeze(1) : chosen.index;
  const Tensor named = chosen_keys(d.rows, keys, index, chosen.block).permute({0, 2, 1, 3});
  const Tensor seen = named * seen_keys(d.rows, keys, false).unsqueeze(1);
  const Tensor bias = at::log(seen).repeat_interleave(of.heads / of.key_heads, 1);
  put(out, attended(d.query, d.key, d.value, of.scale, bias).out.reshape(out.sizes()));
}

void check_compressed_into(const CachedWindows& of, const Tensor& cache) {
  need_word("layout", of.layout.empty() ? "TND" : of.layout, {"TND"});
  need_number("actSeqLenType", of.type, {1});
  TORCH_CHECK(of.stride > 0 && of.block >= of.stride, "compressBlockSize ", of.block, " and compressStride ", of.stride,
              ": a positive stride of at most the block is expected");
  need_dims("input", of.input, {4});
  TORCH_CHECK(given(of.table), "blockTable is needed");
  need_dims("blockTable", *of.table, {2});
  const int64_t batch = of.table->size(0), most = of.table->size(1) * of.page;
  need_sizes("input", of.input, {-1, of.page, -1, -1});
  need_sizes("weight", of.weight, {of.block, of.input.size(2)});
  need_sizes("outputCache", cache, {-1, of.input.size(2), of.input.size(3)});
  need_sizes("slotMapping", of.slots, {batch});
  TORCH_CHECK(static_cast<int64_t>(of.lengths.size()) == batch, "a length for each of ", batch, " sequences is needed");
  for (const int64_t n : of.lengths) {
    TORCH_CHECK(n >= 0 && n <= most, "a sequence has length ", n, ", its pages hold ", most);
  }
}

void compressed_into(const CachedWindows& of, Tensor& cache) {
  for (int64_t i = 0; i < static_cast<int64_t>(of.lengths.size()); i++) {
    const int64_t length = of.lengths[i];
    if (length < of.block || (length - of.block) % of.stride != 0) continue;
    const Tensor rows = of.input.index_select(0, longs(of.table->select(0, i)).clamp_min(0)).flatten(0, 1);
    const Tensor window = wide(rows.narrow(0, length - of.block, of.block)) * wide(of.weight).unsqueeze(-1);
    cache.index_copy_(0, longs(of.slots.narrow(0, i, 1)), window.sum(0, true).to(cache.scalar_type()));
  }
}

}  // namespace softnpu::ops::kernels
