// See vocabulary.h.
#include "csrc/ops/npu/vocabulary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/multinomial.h>

#include <algorithm>
#include <limits>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

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
  const at::Tensor logits = multiplied(wide(input), wide(weight).t());
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
  need_rows(kOp, "weight", weight, 0, "masked_target", target);
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
                           : at::exp(multiplied(a, w.t()) - column(wide(*known.largest))) / column(wide(*known.sum));
  const at::Tensor here = 1 - unpacked(mask, rows).to(softmax.scalar_type());
  const at::Tensor d = softmax.scatter_add(1, column(target.to(at::kLong)), -column(here)) * column(wide(grad));
  return {multiplied(d, w).to(input.scalar_type()), multiplied(d.t(), a).to(input.scalar_type())};
}

void check_tokens(const at::Tensor& logits, const TokenFilter& filter, const TokenDraw& draw) {
  constexpr const char* kOp = "npu_top_k_top_p_sample";
  need_dims(kOp, "logits", logits, {2});
  const Sizes rows = {logits.sym_size(0)};
  TORCH_SYM_CHECK(logits.sym_size(1).sym_gt(0).sym_or(rows[0].sym_eq(0)), kOp, ": logits has no columns to choose ",
                  "from, its sizes are ", logits.sym_sizes());
  need_sizes(kOp, "top_k", filter.top_k, rows);
  need_integers(kOp, "top_k", filter.top_k);
  need_sizes(kOp, "top_p", filter.top_p, rows);
  need_sizes(kOp, "min_ps", filter.min_p, rows);
  check_word(kOp, "post_sample", draw.mode, {"qSample", "multiNomial", "None"});
  TORCH_CHECK_NOT_IMPLEMENTED(draw.mode != "multiNomial" || !given(draw.q), kOp,
                              ": q of seeds and offsets is not implemented; leave it out and give a generator");
  if (draw.mode == "qSample") need_sizes(kOp, "q", draw.q, sizes_of(logits));
  TORCH_CHECK(filter.largest_k > 0, kOp, ": ks_max is positive, not ", filter.largest_k);
}

void choose_tokens(const at::Tensor& logits, const TokenFilter& filter, const TokenDraw& draw, bool with_logits,
                   at::Tensor& token, at::Tensor& kept) {
  const bool drawn = draw.mode == "multiNomial";
  const OptionalTensor q = draw.mode == "qSample" && given(draw.q) ? draw.q : std::nullopt;
  at::Tensor places, chances;
  if (drawn) {
    places = at::empty(logits.sizes(), logits.options().dtype(at::kLong));
    chances = at::empty(logits.sizes(), kept.options());
  }
  ACLNN(aclnnTopKTopPSampleV2)
  (logits, filter.top_k, filter.top_p, q, filter.min_p, draw.eps, with_logits, draw.guess, filter.largest_k,
   filter.logits, drawn, token, kept, places, chances);
  if (drawn) token.copy_(places.gather(1, at::multinomial(chances, 1, true, draw.generator)).squeeze(1));
}

}  // namespace npu::ops
