// See delta.h.
#include "csrc/ops/npu/delta.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

void check_rows(const char* op, const DeltaRows& r, const char* state, const at::Tensor& s,
                const OptionalTensor& lengths) {
  need_dims(op, "query", r.query, {3});
  need_sizes(op, "key", r.key, sizes_of(r.query));
  need_dims(op, "value", r.value, {3});
  const c10::SymInt tokens = r.query.sym_size(0), heads = r.value.sym_size(1), of_key = r.query.sym_size(1);
  need_sizes(op, "value", r.value, {tokens, -1, -1});
  TORCH_CHECK(tokens > 0, op, ": query has no tokens");
  TORCH_CHECK(of_key > 0 && heads % of_key == 0, op, ": value has ", heads, " heads, no multiple of the ", of_key,
              " of key");
  need_sizes(op, state, s, {-1, heads, r.value.sym_size(2), r.key.sym_size(2)});
  need_sizes(op, "beta", r.beta, {tokens, heads});
  need_sizes(op, "g", r.g, {tokens, heads});
  need_sizes(op, "gk", r.gk, {tokens, heads, r.key.sym_size(2)});
  TORCH_CHECK(given(lengths), op, ": actual_seq_lengths is needed");
  need_dims(op, "actual_seq_lengths", *lengths, {1});
  need_integers(op, "actual_seq_lengths", lengths);
  TORCH_SYM_CHECK(lengths->sym_size(0).sym_gt(0), op, ": actual_seq_lengths names no sequence");
}

// Tokens behind the last sequence are padding: of no sequence, whose number is 0; the others' begin at 1.
struct Sequences {
  at::Tensor start, of_token, padding;
};
Sequences sequences(const at::Tensor& lengths, const c10::SymInt& tokens) {
  const at::Tensor length = lengths.to(at::kLong).clamp_min(0), end = length.cumsum(0), start = end - length;
  const at::Tensor token = at::arange(tokens, length.options()).unsqueeze(1);
  const at::Tensor begun = token.ge(start).logical_and(length.gt(0));
  const at::Tensor padding = token.squeeze(1).ge(end.slice(0, -1));
  // The last sequence with tokens that has begun.
  const at::Tensor number = at::where(begun, at::arange(length.sym_size(0), length.options()), 0).amax(1) + 1;
  return {start, at::where(padding, 0, number), padding};
}

// A state for padding, and those of the sequences.
at::Tensor with_padding(const at::Tensor& states) { return at::cat({at::zeros_like(states.narrow(0, 0, 1)), states}); }

// `states` (with_padding) is advanced; each token's is written to its block of a pool, where there is one.
at::Tensor steps(const DeltaRows& r, at::Tensor& states, const Sequences& sequences, double scale,
                 const OptionalTensor& pool, const OptionalTensor& blocks) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const int64_t tokens = known(r.query, 0), repeat = known(r.value, 1) / known(r.key, 1);
  const auto heads = [&](const at::Tensor& t) { return wide(t).repeat_interleave(repeat, 1); };
  const at::Tensor q = (heads(r.query) * scale).unsqueeze(3), k = heads(r.key), v = wide(r.value);
  std::vector<at::Tensor> out;
  for (int64_t t = 0; t < tokens; t++) {
    const at::Tensor at_sequence = sequences.of_token.narrow(0, t, 1), padding = sequences.padding.narrow(0, t, 1);
    at::Tensor s = states.index_select(0, at_sequence)[0];
    if (given(r.g)) s = s * at::exp(wide((*r.g)[t])).unsqueeze(1).unsqueeze(2);
    if (given(r.gk)) s = s * at::exp(wide((*r.gk)[t])).unsqueeze(1);
    at::Tensor write = v[t] - multiplied(s, k[t].unsqueeze(2)).squeeze(2);
    if (given(r.beta)) write = write * wide((*r.beta)[t]).unsqueeze(1);
    s = s + write.unsqueeze(2) * k[t].unsqueeze(1);
    states.index_copy_(0, at_sequence, s.unsqueeze(0));
    if (pool) {
      const at::Tensor block = at::where(padding, 0, blocks->narrow(0, t, 1).to(at::kLong));
      const at::Tensor kept = pool->index_select(0, block), value = s.unsqueeze(0).to(pool->scalar_type());
      pool->index_copy_(0, block, at::where(padding.view({1, 1, 1, 1}), kept, value));
    }
    out.push_back(at::where(padding, 0, multiplied(s, q[t]).squeeze(2)));
  }
  return at::stack(out).to(r.value.scalar_type());
}

}  // namespace

at::Tensor recurrent_delta_rule(const char* op, const DeltaRows& r, const at::Tensor& state,
                                const OptionalTensor& lengths, const OptionalTensor& blocks,
                                const OptionalTensor& accepted) {
  check_rows(op, r, "state", state, lengths);
  const Sizes tokens = {r.query.sym_size(0)}, batch = {lengths->sym_size(0)};
  TORCH_CHECK(given(blocks), op, ": ssm_state_indices is needed");
  need_sizes(op, "ssm_state_indices", blocks, tokens);
  need_integers(op, "ssm_state_indices", blocks);
  need_rows(op, "state", state, 0, "ssm_state_indices", *blocks);
  need_sizes(op, "num_accepted_tokens", accepted, batch);
  need_integers(op, "num_accepted_tokens", accepted);
  const Sequences found = sequences(*lengths, tokens[0]);
  // A sequence goes on from its last token that was accepted; one without tokens is not looked at.
  at::Tensor from = found.start;
  if (given(accepted)) from = from + accepted->to(at::kLong) - 1;
  const at::Tensor block = blocks->to(at::kLong).index_select(0, from.clamp(0, tokens[0] - 1));
  at::Tensor states = with_padding(wide(state.index_select(0, block)));
  const double scale = r.scale.value_or(1 / std::sqrt(static_cast<double>(known(r.key, 2))));
  return steps(r, states, found, scale, state, blocks);
}

Pair recurrent_delta_rule_of_copy(const char* op, const DeltaRows& rows, const at::Tensor& state,
                                  const OptionalTensor& lengths, const OptionalTensor& blocks,
                                  const OptionalTensor& accepted) {
  const at::Tensor pool = state.clone();
  const at::Tensor out = recurrent_delta_rule(op, rows, pool, lengths, blocks, accepted);
  return {out, pool};
}

Pair chunk_delta_rule(const char* op, const DeltaRows& rows, const OptionalTensor& initial,
                      const OptionalTensor& lengths) {
  TORCH_CHECK(given(initial), op, ": initial_state is needed");
  check_rows(op, rows, "initial_state", *initial, lengths);
  need_sizes(op, "initial_state", *initial, {lengths->sym_size(0), -1, -1, -1});
  const at::ScalarType type = c10::promoteTypes(wide(*initial).scalar_type(), wide(rows.query).scalar_type());
  at::Tensor states = with_padding(wide(*initial).to(type));
  const Sequences found = sequences(*lengths, rows.query.sym_size(0));
  const at::Tensor out = steps(rows, states, found, rows.scale.value_or(1), std::nullopt, std::nullopt);
  return {out, states.slice(0, 1).to(initial->scalar_type())};
}

}  // namespace npu::ops
