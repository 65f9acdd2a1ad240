// See delta.h.
#include "softnpu/ops/delta.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

void check_rows(const char* op, const DeltaRows& r, const Tensor& state) {
  const auto need = [&](const char* name, const Tensor& t, IntArrayRef sizes) {
    TORCH_CHECK(t.sizes() == sizes, op, ": ", name, " is ", t.sizes(), ", ", sizes, " is expected");
  };
  TORCH_CHECK(r.query.dim() == 3 && r.value.dim() == 3, op, ": query ", r.query.sizes(), " and value ", r.value.sizes(),
              " have not three dimensions");
  const int64_t tokens = r.query.size(0), heads = r.value.size(1), key_heads = r.query.size(1);
  need("key", r.key, r.query.sizes());
  TORCH_CHECK(r.value.size(0) == tokens, op, ": value has ", r.value.size(0), " tokens, query ", tokens);
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, op, ": value has ", heads, " heads, no multiple of the ",
              key_heads, " of key");
  need("beta", r.beta, {tokens, heads});
  if (passed(r.g)) need("g", *r.g, {tokens, heads});
  if (passed(r.gk)) need("gk", *r.gk, {tokens, heads, r.key.size(2)});
  TORCH_CHECK(state.dim() == 4, op, ": the state is ", state.sizes(), ", four dimensions are expected");
  need("the state", state, {state.size(0), heads, r.value.size(2), r.key.size(2)});
  TORCH_CHECK(r.lengths.dim() == 1, op, ": actualSeqLengths is ", r.lengths.sizes(), ", one dimension is expected");
}

std::vector<int64_t> numbers(const Tensor& t) {
  const Tensor wide = t.to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

// Operands in fp32 with a row for each head of value.
struct Wide {
  Tensor q, k, v, beta, g, gk;
  explicit Wide(const DeltaRows& r) : v(wide(r.value)), beta(wide(r.beta)) {
    const int64_t repeat = r.value.size(1) / r.query.size(1);
    q = (wide(r.query) * r.scale).repeat_interleave(repeat, 1);
    k = wide(r.key).repeat_interleave(repeat, 1);
    if (passed(r.g)) g = at::exp(wide(*r.g));
    if (passed(r.gk)) gk = at::exp(wide(*r.gk));
  }
  // The state [heads, value columns, key columns] after token t.
  Tensor advanced(Tensor s, int64_t t) const {
    if (g.defined()) s = s * g[t].unsqueeze(1).unsqueeze(2);
    if (gk.defined()) s = s * gk[t].unsqueeze(1);
    const Tensor write = (v[t] - at::matmul(s, k[t].unsqueeze(2)).squeeze(2)) * beta[t].unsqueeze(1);
    return s + write.unsqueeze(2) * k[t].unsqueeze(1);
  }
  Tensor read(const Tensor& s, int64_t t) const { return at::matmul(s, q[t].unsqueeze(2)).squeeze(2); }
};

int64_t end_of(const char* op, int64_t start, int64_t length, int64_t tokens) {
  TORCH_CHECK(length >= 0 && length <= tokens - start, op, ": actualSeqLengths names ", length, " tokens from ", start,
              " on, there are ", tokens);
  return start + length;
}

}  // namespace

void recurrent_delta_rule(const DeltaRows& r, const Tensor& blocks, const OptionalTensor& accepted, Tensor& pool,
                          Tensor& out) {
  const char* const op = "aclnnRecurrentGatedDeltaRule";
  check_rows(op, r, pool);
  const int64_t tokens = r.query.size(0);
  TORCH_CHECK(blocks.numel() == tokens, op, ": ssmStateIndices is ", blocks.sizes(), " for ", tokens, " tokens");
  TORCH_CHECK(!given(accepted) || accepted->numel() == r.lengths.numel(), op, ": numAcceptedTokens is ",
              accepted->sizes(), " for ", r.lengths.numel(), " sequences");
  const Wide w(r);
  const std::vector<int64_t> lengths = numbers(r.lengths), block = numbers(blocks);
  const std::vector<int64_t> taken = given(accepted) ? numbers(*accepted) : std::vector<int64_t>(lengths.size(), 1);
  const auto state_at = [&](int64_t t) {
    TORCH_CHECK(block[t] >= 0 && block[t] < pool.size(0), op, ": ssmStateIndices has ", block[t], " for ", pool.size(0),
                " states");
    return pool[block[t]];
  };
  Tensor result = at::zeros(out.sizes(), w.v.options());
  int64_t start = 0;
  for (size_t b = 0; b < lengths.size(); b++) {
    const int64_t end = end_of(op, start, lengths[b], tokens);
    if (end == start) continue;
    Tensor s = wide(state_at(std::clamp<int64_t>(start + taken[b] - 1, 0, tokens - 1))).clone();
    for (int64_t t = start; t < end; t++) {
      s = w.advanced(s, t);
      state_at(t).copy_(s);
      result[t].copy_(w.read(s, t));
    }
    start = end;
  }
  put(out, result);
}

void chunk_delta_rule(const DeltaRows& r, const Tensor& initial, Tensor& out, Tensor& last) {
  const char* const op = "aclnnChunkGatedDeltaRule";
  check_rows(op, r, initial);
  TORCH_CHECK(initial.size(0) == r.lengths.numel(), op, ": initialState has ", initial.size(0), " states for ",
              r.lengths.numel(), " sequences");
  const Wide w(r);
  const std::vector<int64_t> lengths = numbers(r.lengths);
  Tensor result = at::zeros(out.sizes(), w.v.options()), states = wide(initial).clone();
  int64_t start = 0;
  for (size_t b = 0; b < lengths.size(); b++) {
    const int64_t end = end_of(op, start, lengths[b], r.query.size(0));
    Tensor s = states[static_cast<int64_t>(b)].clone();
    for (int64_t t = start; t < end; t++) {
      s = w.advanced(s, t);
      result[t].copy_(w.read(s, t));
    }
    states[static_cast<int64_t>(b)].copy_(s);
    start = end;
  }
  put(out, result);
  put(last, states);
}

}  // namespace softnpu::ops::kernels
