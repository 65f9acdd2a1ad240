// See nsa.h.
#include "csrc/ops/npu/nsa.h"

#include <algorithm>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"

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

void check_operands(const char* op, const NsaHeads& of) {
  need_dims(op, "query", of.query, {3});
  need_sizes(op, "key", of.key, {-1, -1, of.query.sym_size(2)});
  need_sizes(op, "value", of.value, {of.key.sym_size(0), of.key.sym_size(1), -1});
  need_same_type(op, "query", of.query, "key", of.key);
  need_same_type(op, "query", of.query, "value", of.value);
  const int64_t heads = known(of.query, 1);
  TORCH_CHECK_VALUE(of.heads == heads, op, ": head_num is ", of.heads, ", query has ", heads, " heads");
  check_heads(op, of.query, of.key, 1);
}

void check_blocks(const char* op, const NsaBlocks& b) {
  TORCH_CHECK_VALUE(b.stride > 0 && b.compressed >= b.stride && b.compressed % b.stride == 0 &&
                        b.selected >= b.compressed && b.selected % b.stride == 0 && b.count > 0,
                    op, ": blocks of ", b.compressed, " every ", b.stride, ", ", b.count, " of ", b.selected,
                    " chosen: multiples of compress_stride are expected, select_block_size not below the other");
}

// The sizes of a cache as [blocks, page, heads, columns].
Sizes by_head(const char* op, const char* name, const at::Tensor& cache, const Pages& pages) {
  need_dims(op, name, cache, {3, 4});
  Sizes sizes = sizes_of(cache);
  if (cache.dim() == 3) {
    const c10::SymInt columns = sizes.back();
    TORCH_CHECK(columns % pages.key_heads == 0, op, ": ", name, " has ", columns, " columns of ", pages.key_heads,
                " heads");
    sizes.back() = pages.key_heads;
    sizes.push_back(columns / pages.key_heads);
  }
  TORCH_CHECK(sizes[1] == pages.page && sizes[2] == pages.key_heads, op, ": ", name, " is ", cache.sym_sizes(),
              ", pages of ", pages.page, " rows of ", pages.key_heads, " heads are expected");
  return sizes;
}

void check_decode(const char* op, const NsaHeads& of, const Pages& pages) {
  check_word(op, "layout", pages.layout, {"BSND", "TND"});
  const bool packed = pages.layout == "TND";
  need_dims(op, "query", of.query, {packed ? 3 : 4});
  TORCH_CHECK_VALUE(given(pages.table), op, ": block_table is needed");
  need_dims(op, "block_table", *pages.table, {2});
  need_integers(op, "block_table", pages.table);
  const int64_t batch = known(*pages.table, 0), rows = packed ? 1 : known(of.query, 1);
  TORCH_CHECK_NOT_IMPLEMENTED(rows == 1 && known(of.query, 0) == batch, op, ": ", of.query.sym_sizes(),
                              " with a table of ", batch,
                              " sequences: several queries of a sequence are not implemented");
  if (pages.query_lengths) {
    for (const int64_t n : *pages.query_lengths) {
      TORCH_CHECK_NOT_IMPLEMENTED(n == 1, op, ": ", n, " queries of a sequence are not implemented, one is");
    }
  }
  TORCH_CHECK_VALUE(pages.key_lengths && static_cast<int64_t>(pages.key_lengths->size()) == batch, op,
                    ": a length of keys for each of ", batch, " sequences is needed");
  const int64_t heads = known(of.query, -2);
  TORCH_CHECK_VALUE(of.heads == heads && pages.key_heads > 0 && heads % pages.key_heads == 0, op, ": head_num ",
                    of.heads, " and key_value_head_num ", pages.key_heads, " for a query of ", heads, " heads");
  need_same_type(op, "query", of.query, "key", of.key);
  need_same_type(op, "query", of.query, "value", of.value);
  const Sizes key = by_head(op, "key", of.key, pages);
  by_head(op, "value", of.value, pages);
  TORCH_SYM_CHECK(key.back().sym_eq(of.query.sym_size(-1)), op, ": key has ", key.back(), " columns, not the ",
                  of.query.sym_size(-1), " of query");
  const int64_t most = known(*pages.table, 1) * pages.page;
  for (const int64_t n : *pages.key_lengths) {
    TORCH_CHECK_VALUE(n >= 0 && n <= most, op, ": a sequence of ", n, " keys, its pages hold ", most);
  }
}

struct Sequences {
  std::vector<int64_t> rows, keys;
};
Sequences sequences_of(const char* op, const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                       at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends) {
  check_operands(op, of);
  need_sizes(op, "topk_indices", chosen, {of.query.sym_size(0), of.key.sym_size(1), count});
  need_integers(op, "topk_indices", chosen);
  TORCH_CHECK_VALUE(block > 0, op, ": select_block_size is ", block);
  Sequences s = {lengths_of(op, "actual_seq_qlen", ends, known(of.query, 0)),
                 lengths_of(op, "actual_seq_kvlen", key_ends, known(of.key, 0))};
  TORCH_CHECK_VALUE(s.rows.size() == s.keys.size(), op, ": ", s.rows.size(), " lengths of queries and ", s.keys.size(),
                    " of keys");
  return s;
}

int64_t windows_of(const std::vector<int64_t>& lengths, int64_t block, int64_t stride) {
  int64_t rows = 0;
  for (const int64_t n : lengths) rows += n < block ? 0 : (n - block) / stride + 1;
  return rows;
}

}  // namespace

Result compressed_keys(const at::Tensor& input, const at::Tensor& weight, int64_t block, int64_t stride,
                       at::OptionalIntArrayRef ends) {
  const char* const op = "npu_nsa_compress";
  check_compressed(op, input, weight, block, stride);
  const auto lengths = lengths_of(op, "actual_seq_len", ends, known(input, 0));
  return sized({windows_of(lengths, block, stride), input.sym_size(1), input.sym_size(2)}, input.scalar_type());
}

void check_compressed_keys_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                    int64_t block, int64_t stride, at::OptionalIntArrayRef ends) {
  const char* const op = "npu_nsa_compress_grad";
  check_compressed(op, input, weight, block, stride);
  const auto lengths = lengths_of(op, "actual_seq_len", ends, known(input, 0));
  need_sizes(op, "grad", grad, {windows_of(lengths, block, stride), input.sym_size(1), input.sym_size(2)});
}

void check_compressed_into(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& slots, int64_t block,
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
  for (const int64_t n : *lengths) {
    TORCH_CHECK_VALUE(n >= 0 && n <= known(*table, 1) * page, op, ": a sequence has length ", n, ", its pages hold ",
                      table->sym_size(1) * page);
  }
}

void check_compressed_attention(const NsaHeads& of, const NsaBlocks& b, const OptionalTensor& mask,
                                const NsaEnds& ends) {
  const char* const op = "npu_nsa_compress_attention";
  check_operands(op, of);
  check_blocks(op, b);
  const auto rows = lengths_of(op, "actual_seq_qlen", ends.query, known(of.query, 0));
  const auto keys = lengths_of(op, "actual_cmp_seq_kvlen", ends.compressed, known(of.key, 0));
  const auto blocks = lengths_of(op, "actual_sel_seq_kvlen", ends.selected, -1);
  TORCH_CHECK_VALUE(rows.size() == keys.size() && rows.size() == blocks.size(), op, ": ", rows.size(), ", ",
                    keys.size(), " and ", blocks.size(), " lengths");
  for (size_t i = 0; i < keys.size(); ++i) {  // a block has a token at least, or memory for scores has no limit
    const int64_t tokens = keys[i] * b.stride + b.compressed;
    TORCH_CHECK_VALUE(blocks[i] <= tokens, op, ": actual_sel_seq_kvlen gives a sequence ", blocks[i], " blocks, its ",
                      keys[i], " compressed keys have at most ", tokens, " tokens");
  }
  need_sizes(op, "atten_mask", mask,
             {*std::max_element(rows.begin(), rows.end()), *std::max_element(keys.begin(), keys.end())});
  need_type(op, "atten_mask", mask, {at::kBool});
}

void check_selected_attention(const char* op, const NsaHeads& of, const at::Tensor& chosen, int64_t block,
                              int64_t count, at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends) {
  sequences_of(op, of, chosen, block, count, ends, key_ends);
}

void check_selected_gradient(const NsaHeads& of, const at::Tensor& grad, const at::Tensor& largest,
                             const at::Tensor& sum) {
  constexpr const char* kOp = "npu_nsa_select_attention_grad";
  need_sizes(kOp, "grad", grad, with_last(of.query, 1, {of.value.sym_size(2)}));
  need_sizes(kOp, "softmax_max", largest, with_last(of.query, 1, {8}));
  need_sizes(kOp, "softmax_sum", sum, with_last(of.query, 1, {8}));
}

void check_compressed_decode(const NsaHeads& of, const NsaBlocks& b, const Pages& pages,
                             at::OptionalIntArrayRef selected_lengths) {
  const char* const op = "npu_nsa_compress_attention_infer";
  check_blocks(op, b);
  check_decode(op, of, pages);
  TORCH_CHECK_VALUE(!selected_lengths || selected_lengths->size() == pages.key_lengths->size(), op, ": ",
                    selected_lengths->size(), " lengths actual_sel_seq_kvlen for ", pages.key_lengths->size(),
                    " sequences");
}

void check_selected_decode(const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                           const Pages& pages) {
  const char* const op = "npu_nsa_select_attention_infer";
  check_decode(op, of, pages);
  TORCH_CHECK_VALUE(block > 0, op, ": select_block_size is ", block);
  need_sizes(op, "topk_indices", chosen, decoded_blocks(of.query, pages.key_heads, count));
  need_integers(op, "topk_indices", chosen);
}

Sizes decoded(const at::Tensor& query, const at::Tensor& value, int64_t key_heads) {
  return with_last(query, 1, {value.dim() == 4 ? value.sym_size(3) : value.sym_size(2) / key_heads});
}

Sizes decoded_blocks(const at::Tensor& query, int64_t key_heads, int64_t count) {
  return with_last(query, 2, {key_heads, count});
}

}  // namespace npu::ops
