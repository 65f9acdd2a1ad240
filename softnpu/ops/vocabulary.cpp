// See vocabulary.h. A mask has one bit a row, the first row in the highest bit; it is set where the target is of another part.
#include "softnpu/ops/vocabulary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

Tensor bit_places(const Tensor& like) { return at::arange(7, -1, -1, like.options().dtype(at::kInt)); }

void refuse_smoothing(const char* op, double smoothing) {
  TORCH_CHECK_NOT_IMPLEMENTED(smoothing == 0, op, ": labelSmoothing ", smoothing, " is not implemented; it is 0");
}

void need_rows(const char* op, const char* name, const Tensor& t, int64_t rows) {
  TORCH_CHECK(t.dim() == 1 && t.size(0) == rows, op, ": ", name, " is ", t.sizes(), ", [", rows, "] is expected");
}

void need_factors(const char* op, const Tensor& input, const Tensor& weight) {
  TORCH_CHECK(input.dim() == 2 && weight.dim() == 2 && input.size(1) == weight.size(1), op, ": input ", input.sizes(),
              " and weight ", weight.sizes(), " are not [rows, h] and [vocabulary, h]");
}

}  // namespace

void partial_logits(const Tensor& input, const Tensor& weight, const Tensor& target, int64_t start, int64_t end,
                    const PartialLogits& made) {
  const char* const op = "aclnnFusedLinearOnlineMaxSum";
  need_factors(op, input, weight);
  const int64_t rows = input.size(0);
  need_rows(op, "target", target, rows);
  TORCH_CHECK(start >= 0 && end >= start && end - start < weight.size(0), op, ": vocabStartIndex ", start,
              " and vocabEndIndex ", end, " do not lie in the ", weight.size(0), " rows of weight");
  const Tensor logits = at::matmul(wide(input), wide(weight).t());
  const Tensor largest = logits.amax(-1), rest = logits - largest.unsqueeze(1);
  const Tensor elsewhere = target.lt(start).logical_or(target.gt(end));
  const Tensor local = (target.to(at::kLong) - start).masked_fill(elsewhere, 0);
  Tensor flags = at::ones({(rows + 7) / 8 * 8}, target.options().dtype(at::kInt));
  flags.narrow(0, 0, rows).copy_(elsewhere);
  put(made.mask, flags.reshape({-1, 8}).bitwise_left_shift(bit_places(flags)).sum(1));
  put(made.largest, largest);
  put(made.sum, at::exp(rest).sum(-1));
  put(made.predicted, rest.gather(1, local.unsqueeze(1)).squeeze(1).masked_fill(elsewhere, 0));
  put(made.local, local);
  put(made.logits, logits);
}

void partial_loss(const RowNumbers& rows, double smoothing, const OptionalTensor& input, const OptionalTensor& weight,
                  const OptionalTensor& logits, Tensor& loss, Tensor& softmax) {
  const char* const op = "aclnnFusedCrossEntropyLossWithMaxSum";
  refuse_smoothing(op, smoothing);
  TORCH_CHECK_NOT_IMPLEMENTED(!given(input) && !given(weight), op, ": input and weight are not implemented");
  const int64_t count = rows.largest.numel();
  need_rows(op, "logitsMax", rows.largest, count);
  need_rows(op, "sumExpLogits", rows.sum, count);
  need_rows(op, "predictedLogits", rows.predicted, count);
  put(loss, at::log(wide(rows.sum)) - wide(rows.predicted));
  if (!softmax.defined() || softmax.numel() == 0) return;
  TORCH_CHECK(given(logits), op, ": softMaxOut needs vocabParallelLogits");
  TORCH_CHECK(logits->dim() == 2 && logits->size(0) == count, op, ": vocabParallelLogits is ", logits->sizes(), ", [",
              count, ", vocabulary] is expected");
  put(softmax, at::exp(wide(*logits) - wide(rows.largest).unsqueeze(1)) / wide(rows.sum).unsqueeze(1));
}

void partial_loss_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, const Tensor& mask,
                           const Tensor& local, double smoothing, const PartialSoftmax& known, Tensor& grad_input,
                           Tensor& grad_weight) {
  const char* const op = "aclnnFusedLinearCrossEntropyLossGrad";
  refuse_smoothing(op, smoothing);
  need_factors(op, input, weight);
  const int64_t rows = input.size(0), columns = weight.size(0);
  need_rows(op, "grad", gradient, rows);
  need_rows(op, "maskedTarget", local, rows);
  TORCH_CHECK(mask.dim() == 1 && mask.size(0) * 8 >= rows, op, ": targetMask is ", mask.sizes(), ", a bit for each of ",
              rows, " rows is expected");
  const Tensor a = wide(input), w = wide(weight);
  Tensor softmax;
  if (given(known.softmax)) {
    TORCH_CHECK(known.softmax->dim() == 2 && known.softmax->size(0) == rows && known.softmax->size(1) == columns, op,
                ": softmax is ", known.softmax->sizes(), ", [", rows, ", ", columns, "] is expected");
    softmax = wide(*known.softmax).clone();
  } else {
    TORCH_CHECK(passed(known.largest) && passed(known.sum), op,
                ": without softmax it needs logitsMax and sumExpLogits");
    need_rows(op, "logitsMax", *known.largest, rows);
    need_rows(op, "sumExpLogits", *known.sum, rows);
    softmax = at::exp(at::matmul(a, w.t()) - wide(*known.largest).unsqueeze(1)) / wide(*known.sum).unsqueeze(1);
  }
  const Tensor bits = mask.to(at::kInt).unsqueeze(1).bitwise_right_shift(bit_places(mask)).bitwise_and(1);
  const Tensor here = 1 - bits.flatten().narrow(0, 0, rows).to(softmax.scalar_type());
  softmax.scatter_add_(1, local.to(at::kLong).unsqueeze(1), -here.unsqueeze(1));
  softmax.mul_(wide(gradient).unsqueeze(1));
  put(grad_input, at::matmul(softmax, w));
  put(grad_weight, at::matmul(softmax.t(), a));
}

}  // namespace softnpu::ops::kernels
