// See vocabulary.h.
#include "csrc/ops/npu/vocabulary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void refuse_smoothing(const char* op, double smoothing) {
  TORCH_CHECK_NOT_IMPLEMENTED(smoothing == 0, op, ": label_smoothing ", smoothing, " is not implemented; it is 0");
}

// The first of eight is the highest bit.
at::Tensor bit_values(const at::Tensor& like) { return at::arange(7, -1, -1, like.options().dtype(at::kInt)); }

at::Tensor packed(const at::Tensor& flags) {
  const c10::SymInt count = flags.sym_size(0), bytes = (count + 7) / 8;
  const c10::SymInt pads[] = {0, bytes * 8 - count};
  const at::Tensor bits = at::constant_pad_nd_symint(flags.to(at::kInt), pads, 1).reshape_symint({bytes, 8});
  return bits.bitwise_left_shift(bit_values(bits)).sum(1).to(at::kByte);
}

at::Tensor unpacked(const at::Tensor& bytes, const c10::SymInt& count) {
  const at::Tensor bits = bytes.to(at::kInt).unsqueeze(1).bitwise_right_shift(bit_values(bytes)).bitwise_and(1);
  return bits.flatten().slice_symint(0, 0, count);
}

void check_projection(const char* op, const at::Tensor& input, const at::Tensor& weight) {
  need_dims(op, "input", input, {2});
  need_same_type(op, "input", input, "weight", weight);
  need_sizes(op, "weight", weight, {-1, input.sym_size(1)});
}

at::Tensor column(const at::Tensor& t) { return t.unsqueeze(1); }

}  // namespace

void check_cross_entropy(const at::Tensor& input, const at::Tensor& target, const OptionalTensor& weight,
                         std::string_view reduction, double zloss, bool return_zloss) {
  TORCH_CHECK(input.dim() == 2 && target.dim() == 1,
              "npu_cross_entropy_loss: the input is [N, C] and the target [N], not ", input.sym_sizes(), " and ",
              target.sym_sizes());
  TORCH_SYM_CHECK(input.sym_size(0).sym_eq(target.sym_size(0)), "npu_cross_entropy_loss: ", input.sym_size(0),
                  " rows and ", target.sym_size(0), " targets");
  TORCH_CHECK(!given(weight) || (weight->dim() == 1 && weight->sym_size(0) == input.sym_size(1)),
              "npu_cross_entropy_loss: weight has one element a class");
  TORCH_CHECK_VALUE(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "npu_cross_entropy_loss: reduction is mean, sum or none, not ", reduction);
  TORCH_CHECK_NOT_IMPLEMENTED(zloss == 0 && !return_zloss, "npu_cross_entropy_loss: the z-loss is not implemented");
}

void check_no_zloss(double zloss, const OptionalTensor& gradient) {
  TORCH_CHECK_NOT_IMPLEMENTED(zloss == 0 && !given(gradient), "npu_cross_entropy_loss: the z-loss is not implemented");
}

PartialLogits partial_logits(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& target, int64_t start,
                             int64_t end, bool with_logits) {
  constexpr const char* kOp = "npu_fused_linear_online_max_sum";
  check_projection(kOp, input, weight);
  need_sizes(kOp, "target", target, {input.sym_size(0)});
  need_integers(kOp, "target", target);
  TORCH_CHECK(start >= 0 && end >= start && end - start < weight.sym_size(0), kOp, ": vocab_start_index ", start,
              " and vocab_end_index ", end, " do not lie in ", weight.sym_size(0), " rows of weight");
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const at::Tensor logits = at::matmul(wide(input), wide(weight).t());
  const at::Tensor largest = logits.amax(-1), rest = logits - column(largest);
  const at::Tensor elsewhere = target.lt(start).logical_or(target.gt(end));
  const at::Tensor local = (target - start).masked_fill(elsewhere, 0);
  const at::Tensor predicted = rest.gather(1, column(local.to(at::kLong))).squeeze(1).masked_fill(elsewhere, 0);
  return {largest,   at::exp(rest).sum(-1),
          predicted, packed(elsewhere),
          local,     with_logits ? logits.to(input.scalar_type()) : at::Tensor()};
}

Pair partial_loss(const at::Tensor& largest, const at::Tensor& sum, const at::Tensor& predicted, double smoothing,
                  const OptionalTensor& input, const OptionalTensor& weight, const OptionalTensor& logits) {
  constexpr const char* kOp = "npu_fused_cross_entropy_loss_with_max_sum";
  refuse_smoothing(kOp, smoothing);
  refuse_given(kOp, "input", input);
  refuse_given(kOp, "weight", weight);
  need_dims(kOp, "logits_max", largest, {1});
  need_sizes(kOp, "sum_exp_logits", sum, sizes_of(largest));
  need_sizes(kOp, "predicted_logits", predicted, sizes_of(largest));
  need_sizes(kOp, "vocab_parallel_logits", logits, {largest.sym_size(0), -1});
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const at::Tensor softmax =
      given(logits) ? at::exp(wide(*logits) - column(wide(largest))) / column(wide(sum)) : at::Tensor();
  return {at::log(wide(sum)) - wide(predicted), softmax};
}

Pair partial_loss_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& mask, const at::Tensor& target, double smoothing, PartialSoftmax known) {
  constexpr const char* kOp = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward";
  refuse_smoothing(kOp, smoothing);
  check_projection(kOp, input, weight);
  const c10::SymInt rows = input.sym_size(0);
  need_sizes(kOp, "grad", grad, {rows});
  need_sizes(kOp, "masked_target", target, {rows});
  need_integers(kOp, "masked_target", target);
  need_type(kOp, "target_mask", mask, {at::kByte});
  need_dims(kOp, "target_mask", mask, {1});
  TORCH_CHECK(mask.sym_size(0) * 8 >= rows, kOp, ": target_mask has ", mask.sym_size(0) * 8, " bits for ", rows,
              " rows");
  TORCH_CHECK(given(known.softmax) || (given(known.largest) && given(known.sum)), kOp,
              ": without softmax it needs logits_max and sum_exp_logits");
  need_sizes(kOp, "softmax", known.softmax, {rows, weight.sym_size(0)});
  need_sizes(kOp, "logits_max", known.largest, {rows});
  need_sizes(kOp, "sum_exp_logits", known.sum, {rows});
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const at::Tensor a = wide(input), w = wide(weight);
  const at::Tensor softmax =
      given(known.softmax) ? wide(*known.softmax)
                           : at::exp(at::matmul(a, w.t()) - column(wide(*known.largest))) / column(wide(*known.sum));
  const at::Tensor here = 1 - unpacked(mask, rows).to(softmax.scalar_type());
  const at::Tensor d = softmax.scatter_add(1, column(target.to(at::kLong)), -column(here)) * column(wide(grad));
  return {at::matmul(d, w).to(input.scalar_type()), at::matmul(d.t(), a).to(input.scalar_type())};
}

Pair chosen_tokens(const at::Tensor& logits, TokenFilter filter, TokenDraw draw, bool with_logits) {
  constexpr const char* kOp = "npu_top_k_top_p_sample";
  need_dims(kOp, "logits", logits, {2});
  const Sizes rows = {logits.sym_size(0)};
  need_sizes(kOp, "top_k", filter.top_k, rows);
  need_integers(kOp, "top_k", filter.top_k);
  need_sizes(kOp, "top_p", filter.top_p, rows);
  need_sizes(kOp, "min_ps", filter.min_p, rows);
  check_word(kOp, "post_sample", draw.mode, {"qSample", "multiNomial", "None"});
  const bool drawn = draw.mode == "multiNomial", divided = draw.mode == "qSample" && given(draw.q);
  TORCH_CHECK_NOT_IMPLEMENTED(!drawn || !given(draw.q), kOp,
                              ": q of seeds and offsets is not implemented; leave it out and give a generator");
  if (divided) need_sizes(kOp, "q", draw.q, sizes_of(logits));
  TORCH_CHECK(filter.largest_k > 0, kOp, ": ks_max is positive, not ", filter.largest_k);

  const at::Tensor wide_logits = wide(logits);
  const c10::SymInt count = logits.sym_size(1);
  const c10::SymInt most = count.min(std::min<int64_t>((filter.largest_k + 7) / 8 * 8, 1024));
  const at::Tensor rank = at::arange(count, logits.options().dtype(at::kLong)).unsqueeze(0);
  const auto [sorted, order] = wide_logits.sort(/*stable=*/true, 1, /*descending=*/true);
  const at::Tensor k = column(filter.top_k), p = column(wide(filter.top_p));
  const at::Tensor by_k = k.ge(1).logical_and(k.le(most)), by_p = p.lt(1);
  const double none = filter.logits ? -kInfinity : 0;
  at::Tensor kept = by_k.logical_not().logical_or(rank.lt(k));
  const at::Tensor candidates = sorted.masked_fill(kept.logical_not(), none);
  const at::Tensor chance = filter.logits ? at::softmax(candidates, 1) : candidates;
  const at::Tensor before = chance.cumsum(1) - chance;
  kept = kept.logical_and(by_p.logical_not().logical_or(before.lt(p)).logical_or(rank.eq(0)));
  at::Tensor unsorted = by_k.logical_or(by_p).logical_not();
  if (given(filter.min_p)) {
    const at::Tensor least = column(wide(*filter.min_p));
    const at::Tensor above = least.ge(1).logical_not().logical_and(chance.ge(chance.slice(1, 0, 1) * least));
    kept = kept.logical_and(least.le(0).logical_or(above).logical_or(rank.eq(0)));
    unsorted = unsorted.logical_and(least.lt(1));
  }

  // Back in the order of the vocabulary.
  const at::Tensor there = at::zeros_like(wide_logits).scatter(1, order, kept.to(wide_logits.scalar_type())).gt(0);
  const at::Tensor chances = at::zeros_like(wide_logits).scatter(1, order, chance).masked_fill(there.logical_not(), 0);
  at::Tensor score = chances;
  if (divided) {
    // The rows of q go with the candidates as they stand: by rank where they have been sorted.
    const at::Tensor ranks = at::zeros_like(order).scatter(1, order, rank.expand_symint(order.sym_sizes()));
    const at::Tensor place = at::where(unsorted, there.to(at::kLong).cumsum(1) - 1, ranks).clamp_min(0);
    score = chances / (draw.q->gather(1, place).abs() + draw.eps);
  }
  const at::Tensor token = drawn ? at::multinomial(chances, 1, true, draw.generator).squeeze(1)
                                 : score.masked_fill(there.logical_not(), -1).argmax(1);
  return {token,
          with_logits ? wide_logits.masked_fill(there.logical_not(), none) : at::empty({0}, wide_logits.options())};
}

}  // namespace npu::ops
