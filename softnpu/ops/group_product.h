// Products of an operator that holds a collective: what comes before the ranks' exchange and after it, and the checks of both phases, which
// throw. fp32 arithmetic, integer sums are exact, one rounding. Who calls it: steps of ops/aclnn.yaml that name it as their header.
// What it is not: the exchange (peers.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "softnpu/ops/peers.h"

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// Settings that have one value here; each function of the family has some of them.
struct Settings {
  std::string_view reduce = "sum";
  int64_t turn = 0, stream = 1, gather = 0, coding = 0;
  std::string_view mode{};       // which engine carries the exchange on hardware; no value depends on it
  int64_t block = 0, group = 0;  // of 8-bit floats alone: sizes of blocks, a scale of the result, its largest magnitude
  Maybe result_scale{};
  at::Tensor largest{};
};
void need_settings(const Settings& s);

// A product and what is added to it: a @ b + bias + added. Of int8 factors and 8-bit floats (a @ b) * column * row + bias + added, where an
// int32 bias is added first; `column` is one number or one a column, `row` one a row or, of 8-bit floats, one. Of MX operands both are powers of
// two in pairs. 4-bit elements count as such, not as the pairs that a byte holds.
struct Factors {
  at::Tensor a, b;
  bool turned_a = false, turned_b = false;  // b is [columns, inner]; a may not be turned
  Maybe bias{}, added{}, row{}, column{};
  bool bias_first = false;  // of 8-bit floats: before the scales

  at::Tensor right() const { return turned_b ? b.transpose(-1, -2) : b; }  // [inner, columns]
  int64_t columns() const;
  bool powers() const;                 // MX operands
  bool of_rows() const;                // whether `row` goes with the rows, and is exchanged with them
  std::vector<int64_t> sizes() const;  // of the product
  Factors of(const at::Tensor& rows,
             const at::Tensor& scales = {}) const;  // of other rows, and their scales if it has any
};
void product(const Factors& f, at::Tensor out);

// Weights of int8: (b + offset) * scale, each one number, one a column, or one a column for each `group` rows.
struct Antiquant {
  at::Tensor scale;
  Maybe offset{};
  int64_t group = 0;
};
void weight_product(const Factors& f, const Antiquant& q, at::Tensor out);

// A sum of 8-bit codes: what a rank has is divided by the first scale and rounded, the codes' sum becomes a code of the second scale, and
// that times the second scale is the result. Without scales it is the sum itself, and the codes are not used.
struct Codes {
  Maybe first{}, second{};
};
std::vector<int64_t> codes_of(const Codes& scales, const at::Tensor& out);  // sizes
void coded_product(const Factors& f, const Codes& coding, at::Tensor codes, at::Tensor out);
void sum_of_codes(const Peers& peers, const Codes& coding, const at::Tensor& codes, const at::Tensor& out);
void decode(const Codes& coding, const at::Tensor& codes, at::Tensor out);

// Sizes of blocks: of MX operands.
void need_block_sizes(const Settings& s, const Factors& f);

// -- checks: that operands fit each other and the group, and what is exchanged is contiguous -----------------------------
void need_sum(const Factors& f, const at::Tensor& out);
void need_antiquant(const Factors& f, const Antiquant& q);
void need_codes(const Factors& f, const Codes& coding);
void need_gather(const Factors& f, int64_t ranks, const at::Tensor& out, const at::Tensor& gathered);
void need_scatter(const Factors& f, int64_t ranks, const at::Tensor& out);
void need_joined(const Factors& f, at::IntArrayRef axes, int64_t ranks, const at::Tensor& out,
                 const at::Tensor& joined);
void need_split(const Factors& f, at::IntArrayRef axes, int64_t ranks, const at::Tensor& out);

// -- exchanges ---------------------------------------------------------------------------------------------------------
// A result that callers leave out, or give without elements: a room stands in.
bool asked(const at::Tensor& t);
std::vector<int64_t> unless(const at::Tensor& asked_for, std::vector<int64_t> sizes);  // none where it is asked for
const at::Tensor& either(const at::Tensor& asked_for, const at::Tensor& room);
std::vector<int64_t> times(const at::Tensor& t,
                           int64_t ranks);  // sizes of what all ranks have of it, along dimension 0
std::vector<int64_t> scales_of(const Factors& f, int64_t ranks);  // sizes of what the rows of all ranks have
at::ScalarType scale_type(const Factors& f);                      // as they are exchanged
void gather_scales(const Peers& peers, const Factors& f, const at::Tensor& room);
std::vector<int64_t> joined_sizes(const at::Tensor& a, int64_t ranks);  // by columns: [rows / ranks, columns * ranks]
void join_columns(const at::Tensor& parts,
                  at::Tensor out);  // [ranks * rows, columns]: side by side, [rows, ranks * columns]
// The product's columns in as many parts as `out` has times its rows: [rows, parts * columns] becomes [parts * rows, columns].
void split_columns(const Factors& f, at::Tensor out);

// -- experts: tokens in the order of ranks and of each rank's experts, counts[rank * experts + expert] of them --------------
struct Experts {
  at::Tensor x, weight;     // [tokens, in]; [experts, in, out]
  bool transposed = false;  // [experts, out, in]
  int64_t ranks = 1;        // as the caller says
  at::IntArrayRef sent{}, received{};
  Maybe sent_tensor{}, received_tensor{};  // of other chips: counts on the device
  Maybe shared_x{}, shared_weight{};       // of an expert that each rank has: shared_x @ shared_weight
  bool shared_transposed = false;
  at::Tensor shared_out{};

  int64_t count() const { return weight.size(0); }
  int64_t columns() const;
  std::vector<int64_t> sent_rows() const { return by_rank(sent); }  // of each rank
  std::vector<int64_t> received_rows() const { return by_rank(received); }
  std::vector<int64_t> arrived() const;  // sizes of the tokens that all ranks send to this one
  std::vector<int64_t> made() const;     // sizes of the results for the tokens that this rank sends

 private:
  std::vector<int64_t> by_rank(at::IntArrayRef counts) const;
};
void need_experts(const Experts& e, int64_t ranks, const char* name, const at::Tensor& out);
void need_arrived(const Experts& e, bool wanted,
                  const at::Tensor& permuted);  // where tokens are sent before the products
void to_experts(const Experts& e, const at::Tensor& x,
                at::Tensor out);  // received ones, into the order of experts, then ranks
void to_ranks(const Experts& e, const at::Tensor& x, at::Tensor out);  // sent ones, back
// Of rows in the order of experts, counts of them.
void expert_products(const Experts& e, const at::Tensor& x, at::IntArrayRef counts, at::Tensor out);
void shared_product(const Experts& e);

}  // namespace softnpu::ops::kernels
