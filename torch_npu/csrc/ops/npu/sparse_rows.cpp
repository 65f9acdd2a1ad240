// See sparse_rows.h.
#include "csrc/ops/npu/sparse_rows.h"

#include <tuple>

#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

int64_t known(const at::Tensor& t, int64_t dim) { return t.sym_size(dim).guard_int(__FILE__, __LINE__); }

Sizes with_last(const at::Tensor& t, int64_t count, std::initializer_list<c10::SymInt> more) {
  Sizes sizes = without_last(t, count);
  sizes.insert(sizes.end(), more);
  return sizes;
}

void check_heads(const char* op, const at::Tensor& query, const at::Tensor& key, int64_t dim) {
  const int64_t heads = known(query, dim), key_heads = known(key, dim);
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, op, ": query has ", heads, " heads, no multiple of the ",
              key_heads, " of key");
  TORCH_SYM_CHECK(key.sym_size(-1).sym_eq(query.sym_size(-1)), op, ": key has ", key.sym_size(-1), " columns, not the ",
                  query.sym_size(-1), " of query");
}

RowLayout::RowLayout(const char* op, std::string_view query, std::string_view key, const OptionalTensor& table)
    : op_(op), packed_(query == "TND") {
  check_word(op, "the queries' layout", query, {"BSND", "TND"});
  check_word(op, "the keys' layout", key, {"BSND", "TND", "PA_BSND"});
  TORCH_CHECK_VALUE(key == "PA_BSND" || key == query, op, ": the keys' layout is that of the queries, ", query,
                    ", or PA_BSND, not ", key);
  TORCH_CHECK_VALUE((key == "PA_BSND") == given(table), op,
                    ": block_table goes with keys of PA_BSND, and with no others");
  if (!given(table)) return;
  need_dims(op, "block_table", *table, {2});
  need_integers(op, "block_table", *table);
  TORCH_SYM_CHECK(table->sym_numel().sym_gt(0), op, ": block_table is empty, its sizes are ", table->sym_sizes(),
                  "; it names the blocks of each sequence");
  table_ = table;
}

void RowLayout::check_batch(const at::Tensor& query, const at::Tensor& key) const {
  if (packed_ || table_) return;
  TORCH_SYM_CHECK(key.sym_size(0).sym_eq(query.sym_size(0)), op_, ": key must have the ", query.sym_size(0),
                  " sequences of query, it has ", key.sym_size(0));
}

void RowLayout::check_lengths(const at::Tensor& query, const OptionalTensor& query_lengths,
                              const OptionalTensor& key_lengths) const {
  for (const auto& [name, t] :
       {std::pair{"the queries' lengths", &query_lengths}, {"the keys' lengths", &key_lengths}}) {
    if (!given(*t)) continue;
    need_dims(op_, name, **t, {1});
    need_integers(op_, name, *t);
  }
  TORCH_CHECK_VALUE(given(key_lengths) || !(packed_ || table_), op_, ": the keys' lengths are needed with this layout");
  TORCH_CHECK_VALUE(given(query_lengths) || !packed_, op_, ": the queries' lengths are needed with TND");
  const c10::SymInt sequences = packed_ ? query_lengths->sym_size(0) : query.sym_size(0);
  TORCH_CHECK_VALUE(!packed_ || known(*query_lengths, 0) > 0, op_, ": the queries' lengths are empty");
  need_sizes(op_, "the queries' lengths", query_lengths, {sequences});
  need_sizes(op_, "the keys' lengths", key_lengths, {sequences});
  need_sizes(op_, "block_table", table_, {sequences, -1});
}

void RowLayout::check_lengths(const at::Tensor& query, const at::Tensor& key, at::OptionalSymIntArrayRef query_lengths,
                              at::OptionalSymIntArrayRef key_lengths) const {
  TORCH_CHECK_VALUE(key_lengths || !packed_, op_, ": the keys' lengths are needed with this layout");
  TORCH_CHECK_VALUE(query_lengths || !packed_, op_, ": the queries' lengths are needed with TND");
  TORCH_CHECK_VALUE(!packed_ || !query_lengths->empty(), op_, ": the queries' lengths are empty");
  const int64_t sequences = packed_ ? static_cast<int64_t>(query_lengths->size()) : known(query, 0);
  for (const auto& [name, lengths] :
       {std::pair{"the queries' lengths", query_lengths}, {"the keys' lengths", key_lengths}}) {
    TORCH_CHECK_VALUE(!lengths || static_cast<int64_t>(lengths->size()) == sequences, op_, ": ", name, " are ",
                      lengths->size(), " numbers for ", sequences, " sequences");
  }
  if (!packed_) return;
  for (const auto& [name, t, lengths] : {std::tuple{"query", &query, query_lengths}, {"key", &key, key_lengths}}) {
    TORCH_SYM_CHECK(lengths->back().sym_eq(t->sym_size(0)), op_, ": the sequences end at ", lengths->back(), ", ", name,
                    " at ", t->sym_size(0));
  }
}

}  // namespace npu::ops
