// See causal_state.h.
#include "softnpu/ops/causal_state.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

int64_t number(const OptionalTensor& t, int64_t i) { return t->select(0, i).item().toLong(); }

// Which lines of the cache a sequence reads, writes, and has for the ends of its blocks.
struct Lines {
  int64_t read, write;
};
Lines lines_of(const CausalState& s, int64_t i) {
  if (given(s.last)) {
    const Tensor row = s.lines->select(0, i);
    const auto at_block = [&](int64_t block) {
      TORCH_CHECK(block >= 0 && block < row.size(0), "sequence ", i, " names block ", block, " of ", row.size(0));
      return row.select(0, block).item().toLong();
    };
    return {at_block(number(s.initial, i)), at_block(number(s.last, i))};
  }
  const int64_t line = given(s.lines) ? number(s.lines, i) : i;
  return {line, line};
}

}  // namespace

void check_causal_state(const Tensor& x, const CausalState& s, const Tensor& y) {
  need_dims("x", x, {2, 3});
  need_sizes("y", y, x.sizes());
  need_dims("weight", s.weight, {2});
  need_sizes("weight", s.weight, {-1, x.size(-1)});
  need_sizes("convStates", s.states, {-1, -1, x.size(-1)});
  const int64_t taps = s.weight.size(0);
  TORCH_CHECK(taps >= 1 && s.states.size(1) >= taps - 1, "convStates keeps ", s.states.size(1), " rows, ", taps - 1,
              " are needed before ", taps, " taps");
  TORCH_CHECK(given(s.starts) || x.dim() == 3, "queryStartLoc is needed with an x of two dimensions");
  if (x.dim() == 2) {
    need_dims("queryStartLoc", *s.starts, {1});
    TORCH_CHECK(s.starts->size(0) >= 1, "queryStartLoc is empty");
  }
  const int64_t batch = x.dim() == 3 ? x.size(0) : s.starts->size(0) - 1;
  const bool blocks = given(s.last);
  TORCH_CHECK(blocks == given(s.first) && blocks == given(s.initial),
              "blockIdxFirstScheduledToken, blockIdxLastScheduledToken and initialStateIdx go together");
  TORCH_CHECK(!blocks || (given(s.computed) && given(s.lines) && s.block >= 2),
              "states at the ends of blocks need numComputedTokens, cacheIndices and a blockSize of at least 2");
  if (given(s.lines)) {
    if (blocks) {
      need_sizes("cacheIndices", s.lines, {batch, -1});
    } else {
      need_sizes("cacheIndices", s.lines, {batch});
    }
  }
  for (const auto& [name, t] : {std::pair{"numAcceptedTokens", &s.accepted},
                                {"numComputedTokens", &s.computed},
                                {"blockIdxFirstScheduledToken", &s.first},
                                {"blockIdxLastScheduledToken", &s.last},
                                {"initialStateIdx", &s.initial}}) {
    if (given(*t)) need_sizes(name, *t, {batch});
  }
  need_number("residualConnection", s.residual, {0, 1});
  need_number("convMode", s.mode, {0, 1});
  TORCH_CHECK(s.mode == 0 || given(s.computed), "convMode 1 needs numComputedTokens");
}

void causal_state(const Tensor& x, const CausalState& s, Tensor& y) {
  const int64_t taps = s.weight.size(0), kept = s.states.size(1), columns = x.size(-1);
  const bool dense = x.dim() == 3;
  const int64_t batch = dense ? x.size(0) : s.starts->size(0) - 1;
  const Tensor weight = wide(s.weight);
  for (int64_t i = 0; i < batch; i++) {
    const int64_t begin = dense ? 0 : number(s.starts, i), end = dense ? x.size(1) : number(s.starts, i + 1);
    TORCH_CHECK(begin >= 0 && begin <= end && (dense || end <= x.size(0)), "sequence ", i, " goes from row ", begin,
                " to ", end, " of ", x.sizes());
    const Tensor rows = (dense ? x.select(0, i) : x).narrow(0, begin, end - begin);
    const int64_t count = rows.size(0);
    const Lines lines = lines_of(s, i);
    if (lines.read == s.padded_line) continue;
    for (const int64_t line : {lines.read, lines.write}) {
      TORCH_CHECK(line >= 0 && line < s.states.size(0), "sequence ", i, " names line ", line, " of ", s.states.size(0));
    }
    int64_t offset = kept - (taps - 1);
    Tensor before;
    if (given(s.computed) && number(s.computed, i) == 0) {
      offset = 0;
      before = at::zeros({taps - 1, columns}, x.options());
    } else {
      if (given(s.accepted)) offset = number(s.accepted, i) - 1;
      TORCH_CHECK(offset >= 0 && offset + taps - 1 <= kept, "sequence ", i, " accepts ", offset + 1, " rows of ", kept);
      before = s.states.select(0, lines.read).narrow(0, 0, offset + taps - 1);
    }
    const Tensor all = at::cat({before, rows});  // a copy: the cache and x may change
    const int64_t tail = std::min(kept, all.size(0));
    s.states.select(0, lines.write).narrow(0, kept - tail, tail).copy_(all.narrow(0, all.size(0) - tail, tail));
    const Tensor seen = all.narrow(0, offset, taps - 1 + count);
    if (given(s.last)) {
      const int64_t first = number(s.first, i), fill = number(s.last, i) - first;
      const int64_t completed = s.block - number(s.computed, i) % s.block;
      const int64_t rest = ((count - completed) % s.block + s.block) % s.block;
      const int64_t full = rest == 0 ? count - s.block : count - rest;
      for (int64_t chunk = 0; chunk < fill; chunk++) {
        const int64_t at_row = full - (fill - chunk - 1) * s.block;
        TORCH_CHECK(at_row >= 0 && at_row + taps - 1 <= seen.size(0), "sequence ", i, " ends a block at row ", at_row,
                    " of ", count);
        const int64_t line = s.lines->select(0, i).select(0, first + chunk).item().toLong();
        TORCH_CHECK(line >= 0 && line < s.states.size(0), "sequence ", i, " names line ", line, " of ",
                    s.states.size(0));
        s.states.select(0, line).narrow(0, kept - (taps - 1), taps - 1).copy_(seen.narrow(0, at_row, taps - 1));
      }
    }
    const Tensor numbers = wide(seen);
    Tensor sum = at::zeros({count, columns}, weight.options());
    for (int64_t k = 0; k < taps; k++) sum.addcmul_(numbers.narrow(0, k, count), weight[k]);
    if (s.mode == 1) {
      const int64_t reset = std::min(std::max<int64_t>(taps - 1 - number(s.computed, i), 0), count);
      sum.narrow(0, 0, reset).zero_();
    }
    if (s.residual) sum = sum + numbers.narrow(0, taps - 1, count);
    (dense ? y.select(0, i) : y).narrow(0, begin, count).copy_(sum);
  }
}

}  // namespace softnpu::ops::kernels
