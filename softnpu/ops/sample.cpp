// See sample.h.
#include "softnpu/ops/sample.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <chrono>
#include <limits>
#include <thread>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

Tensor column(const Tensor& t) { return t.reshape({-1, 1}); }

constexpr double kHidden = -std::numeric_limits<double>::infinity();

constexpr double kHertz = 1e9;  // the software NPU's clock: a cycle is a nanosecond

}  // namespace

void check_tokens(const TokenFilter& f, bool with_kept, bool parts, const TokensMade& made, const Tensor& places,
                  const Tensor& sorted) {
  need_dims("logits", f.logits, {2});
  TORCH_CHECK(f.logits.size(1) > 0, "logits has an empty vocabulary");
  const int64_t rows = f.logits.size(0);
  need_sizes("topK", f.top_k, {rows});
  need_sizes("topP", f.top_p, {rows});
  if (given(f.min_p)) {
    TORCH_CHECK(f.min_p->numel() == rows, "minPs has sizes ", f.min_p->sizes(), ", a number for each of ", rows,
                " rows is expected");
  }
  if (given(f.q)) need_sizes("q", f.q, f.logits.sizes());
  TORCH_CHECK(f.most > 0, "ksMax is ", f.most, ", at least 1 is expected");
  if (!parts) need_sizes("logitsSelectIdx", made.token, {rows});
  if (with_kept) need_sizes("logitsTopKPSelect", made.kept, f.logits.sizes());
  if (!parts) return;
  need_sizes("logitsIdx", places, f.logits.sizes());
  need_sizes("logitsSortMasked", sorted, f.logits.sizes());
}

void choose_tokens(const TokenFilter& f, bool with_kept, bool parts, const TokensMade& made, Tensor& out_places,
                   Tensor& out_sorted) {
  const Tensor logits = wide(f.logits);
  const int64_t count = logits.size(1);
  const int64_t most = std::min(count, std::min<int64_t>((f.most + 7) / 8 * 8, 1024));
  const Tensor rank = at::arange(count, at::kLong).unsqueeze(0);
  const auto [sorted, order] = logits.sort(/*stable=*/true, 1, /*descending=*/true);
  const Tensor k = column(f.top_k), p = column(wide(f.top_p));
  const Tensor by_k = k.ge(1).logical_and(k.le(most)), by_p = p.lt(1);
  const double none = f.logits_given ? -std::numeric_limits<double>::infinity() : 0;
  Tensor stays = by_k.logical_not().logical_or(rank.lt(k));
  const Tensor candidates = sorted.masked_fill(stays.logical_not(), none);
  const Tensor chance = f.logits_given ? at::softmax(candidates, 1) : candidates;
  const Tensor before = chance.cumsum(1) - chance;
  stays = stays.logical_and(by_p.logical_not().logical_or(before.lt(p)).logical_or(rank.eq(0)));
  Tensor unsorted = by_k.logical_or(by_p).logical_not();
  if (given(f.min_p)) {
    const Tensor least = column(wide(*f.min_p));
    const Tensor above = least.ge(1).logical_not().logical_and(chance.ge(chance.narrow(1, 0, 1) * least));
    stays = stays.logical_and(least.le(0).logical_or(above).logical_or(rank.eq(0)));
    unsorted = unsorted.logical_and(least.lt(1));
  }
  // Back in the order of the vocabulary.
  const Tensor there = at::zeros_like(logits).scatter(1, order, stays.to(logits.scalar_type())).gt(0);
  const Tensor chances = at::zeros_like(logits).scatter(1, order, chance).masked_fill(there.logical_not(), 0);
  if (with_kept) put(made.kept, logits.masked_fill(there.logical_not(), none));
  if (parts) {
    put(out_places, at::where(unsorted, rank.expand_as(order), order));
    put(out_sorted, at::where(unsorted, chances, chance.masked_fill(stays.logical_not(), 0)));
    return;
  }
  Tensor score = chances;
  if (given(f.q)) {
    // The rows of q go with the candidates as they stand: by rank where they have been sorted.
    const Tensor ranks = at::zeros_like(order).scatter(1, order, rank.expand_as(order));
    const Tensor place = at::where(unsorted, there.to(at::kLong).cumsum(1) - 1, ranks).clamp_min(0);
    const Tensor draw = wide(*f.q).gather(1, place);
    score = chances / ((f.absolute ? draw.abs() : draw) + f.eps);
  }
  put(made.token, score.masked_fill(there.logical_not(), -std::numeric_limits<double>::infinity()).argmax(1));
}

void top_k_top_p(const Tensor& logits, const OptionalTensor& p, const OptionalTensor& k, Tensor& out) {
  auto [sorted, order] = at::sort(wide(logits), /*stable=*/true, -1, false);
  if (passed(k)) {
    const Tensor first = (sorted.size(-1) - k->to(at::kLong)).clamp_(0, sorted.size(-1) - 1).unsqueeze(-1);
    sorted = sorted.masked_fill(sorted.lt(sorted.gather(-1, first)), kHidden);
  }
  if (passed(p)) {
    Tensor hidden = at::cumsum(at::softmax(sorted, -1), -1).le(1 - wide(*p).unsqueeze(-1));
    hidden.select(-1, -1).fill_(false);
    sorted = sorted.masked_fill(hidden, kHidden);
  }
  put(out, at::empty_like(sorted).scatter_(-1, order, sorted));
}

void check_coalesced(const Tensor& count, const Tensor& group, const Tensor& indices, const Tensor& values,
                     const Tensor& new_indices, const Tensor& new_values) {
  need_dims("indices", indices, {2});
  const int64_t entries = indices.size(0);
  need_sizes("uniqueIndices", group, {entries});
  TORCH_CHECK(values.dim() >= 1 && values.size(0) == entries, "values has sizes ", values.sizes(), " for ", entries,
              " entries");
  need_dims("newIndices", new_indices, {2});
  const int64_t groups = new_indices.size(0);
  need_sizes("newIndices", new_indices, {-1, indices.size(1)});
  TORCH_CHECK(count.numel() == groups || count.numel() == 1, "uniqueLen has sizes ", count.sizes(), " for ", groups,
              " groups");
  auto sizes = values.sizes().vec();
  sizes[0] = groups;
  need_sizes("newValues", new_values, sizes);
}

void coalesce(const Tensor& group, const Tensor& indices, const Tensor& values, Tensor& new_indices,
              Tensor& new_values) {
  const Tensor to = longs(group);
  const bool whole = !values.is_floating_point();
  Tensor sum = at::zeros(new_values.sizes(), whole ? values.options() : wide(values).options());
  sum.index_add_(0, to, whole ? values : wide(values));
  put(new_values, sum);
  Tensor found = at::zeros(new_indices.sizes(), indices.options());
  found.index_copy_(0, to, indices);
  put(new_indices, found);
}

void check_cycles(IntArrayRef cycles) {
  TORCH_CHECK(cycles.size() == 1 && cycles[0] >= 0, "cycles is one number that is not negative, not ", cycles);
}

void wait_cycles(IntArrayRef cycles) {
  std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(cycles[0]) / kHertz));
}

}  // namespace softnpu::ops::kernels
