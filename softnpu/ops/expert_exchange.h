// Mixture of experts over the ranks of a group: tokens go to the ranks of their experts (dispatch), and what the experts made of them comes
// back and is summed (combine). Who calls it: steps of ops/aclnn.yaml that name it as their header. What it is not: the exchange itself
// (peers.h), or routing on one device (experts.h, expert_rows.h).
//
// Ranks below `shared_ranks` each hold a copy of a shared expert, which every token goes to; the others hold as many experts each. A rank
// has its rows expert by expert, of each expert those of rank 0, 1, ..., and of each rank in the order of its tokens. So both sides know
// from the experts' numbers alone where a row lies, and need no other tables than the counts.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/peers.h"

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// Which experts there are and where, and which of them this rank's tokens chose.
struct Layout {
  int64_t ranks = 1, rank = 0, experts = 0, shared = 0, shared_ranks = 0;
  int64_t all_tokens =
      0;           // of all ranks, each counted with the most that any has; 0: every rank has as many as this one
  at::Tensor ids;  // [tokens, choices]
  Maybe mask{}, weights{};  // the tokens, or choices, that take part; factors of the choices
  int64_t zero = 0, copy = 0,
          constant = 0;  // experts without rows, numbered above the others: they give nothing, the token, or constants

  int64_t tokens() const { return ids.size(0); }
  int64_t choices() const { return ids.size(1); }
  int64_t numbers() const { return experts + zero + copy + constant; }
  int64_t on_rank(int64_t r) const { return r < shared_ranks ? 1 : experts / (ranks - shared_ranks); }
  int64_t local() const { return on_rank(rank); }
  int64_t most() const { return all_tokens ? all_tokens / ranks : tokens(); }
  int64_t weighted() const;                                                    // `most` where there are weights
  int64_t copies() const { return shared_ranks ? shared_ranks / shared : 0; }  // of each shared expert
  int64_t window() const;  // the most rows that one rank sends to another
  std::vector<int64_t> windows(const at::Tensor& rows) const { return {ranks, window(), rows.size(1)}; }  // sizes
};

// What callers may set or give and that has one value here.
struct Reserved {
  int64_t tp_ranks = 0, shard = 0, coding = 0;
  std::string_view algorithm{};
  Maybe elastic{}, performance{}, activation{}, weight{}, groups{};
};
void need_layout(const Layout& l, const Reserved& reserved, const Peers& peers);

// -- dispatch
struct Dispatch {
  at::Tensor x;      // [tokens, columns]
  int64_t mode = 0;  // 0 none, 1 int8 or hifloat8 by factors, 2 int8 or 8-bit floats, a scale a row
  Maybe
      smooth{};  // factors of each expert; of tokens that are quantized already their scales, [tokens, ..], which go with them
  int64_t count_kind = 1;  // of each expert: 0 where its rows end, 1 how many it has
  // Results. `places` has a number for each choice of a token, how many of this rank's before it chose the same expert; `records`, 128
  // numbers a row, of which the first three are the token's rank, its number and which of its choices the row is.
  at::Tensor rows, scales{}, places{}, records{}, counts, ends, tp_ends{}, weights{};
};
void need_dispatch(const Layout& l, const Dispatch& d);
inline at::ScalarType token_type(const at::Tensor& x) {  // as which tokens cross the group
  return is_hifloat8(x) ? at::kByte : bits_type(x.scalar_type());
}
std::vector<int64_t> token_scales(const Layout& l, const Dispatch& d,
                                  int64_t ranks);  // sizes, in bytes; none where none go
void pack_token_scales(const Dispatch& d, at::Tensor room);
void gather_token_scales(const Peers& peers, const at::Tensor& from, const at::Tensor& to);
void pack_tokens(const Layout& l, const at::Tensor& x, at::Tensor tokens, at::Tensor numbers, at::Tensor factors);
void gather_weights(const Peers& peers, const at::Tensor& from, const at::Tensor& to);
void dispatch(const Layout& l, const Dispatch& d, const at::Tensor& tokens, const at::Tensor& numbers,
              const at::Tensor& factors, const at::Tensor& scales);

// -- combine
struct Results {
  at::Tensor rows, ends;  // what the experts made, and where each expert's rows of each rank end
  Maybe shared{};         // is added
  Maybe x{};              // the tokens, for experts that copy or are constant: alpha1 * x + alpha2 * v
  Maybe alpha1{}, alpha2{}, v{};
};
void need_combine(const Layout& l, const Results& results, at::IntArrayRef out);
void pack_results(const Layout& l, const Results& results, at::Tensor windows);
void combine(const Layout& l, const Results& results, const at::Tensor& windows, at::Tensor out);

// x = the sum + residual; y = x * rstd * gamma.
struct Normalized {
  at::Tensor residual, gamma;
  double eps = 0;
  at::Tensor y, rstd, x;
};
void need_norm(const Layout& l, const Results& results, const Normalized& n);
void combine_norm(const Layout& l, const Results& results, const at::Tensor& windows, const Normalized& n);

}  // namespace softnpu::ops::kernels
