// Losses that are more than one call: class targets over images, sequences, logits, and activations whose forward keeps a buffer.
// What it is not: mse, smooth L1, binary cross entropy, nll over vectors, which are rows of ops/aten.yaml.
#include <ATen/Context.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ctc_loss_native.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/params.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_nll2d(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  TORCH_CHECK(!weight || !weight->defined() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_out(const at::Tensor& self, const at::Tensor& target,
                                                    const OptionalTensor& weight, int64_t reduction,
                                                    int64_t ignore_index, at::Tensor& output,
                                                    at::Tensor& total_weight) {
  check_nll2d(self, target, weight);
  at::globalContext().alertNotDeterministic("nll_loss2d_forward_npu");
  const NPUGuard guard(self.device().index());
  resize_out(output, reduction == at::Reduction::None ? target.sizes() : at::IntArrayRef{});
  resize_out(total_weight, {});
  ACLNN(aclnnNLLLoss2d)(self, target, weight_or_ones(weight, self), reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d(const at::Tensor& self, const at::Tensor& target,
                                              const OptionalTensor& weight, int64_t reduction, int64_t ignore_index) {
  const NPUGuard guard(self.device().index());
  at::Tensor output = empty({0}, self.scalar_type()), total_weight = empty({}, self.scalar_type());
  nll_loss2d_out(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                               const at::Tensor& total_weight) {
  check_nll2d(self, target, weight);
  const NPUGuard guard(self.device().index());
  at::Tensor grad_input = empty(self.sizes(), self.scalar_type());
  grad_input.zero_();
  ACLNN(aclnnNLLLoss2dBackward)(grad_output, self, target, weight_or_ones(weight, self), reduction, ignore_index,
                                total_weight, grad_input);
  return grad_input;
}

at::Tensor& nll_loss2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                    const at::Tensor& total_weight, at::Tensor& grad_input) {
  resize_out(grad_input, self.sizes());
  return grad_input.copy_(
      nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight));
}

at::Tensor bce_with_logits(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight,
                           const OptionalTensor& pos_weight, int64_t reduction) {
  TORCH_CHECK(target.sizes() == self.sizes(), "output with shape ", self.sizes(), " doesn't match the target's shape ",
              target.sizes());
  const NPUGuard guard(self.device().index());
  const auto whole = [&](const OptionalTensor& tensor) {
    return tensor && tensor->defined() ? OptionalTensor(tensor->expand(self.sizes())) : tensor;
  };
  // The target's type is the loss's, as PyTorch's own composite has it.
  const auto type = target.scalar_type();
  const at::Tensor out = reduction == at::Reduction::None ? empty_like(self, type) : empty({}, type);
  ACLNN(aclnnBinaryCrossEntropyWithLogits)(self, target, whole(weight), whole(pos_weight), reduction, out);
  return out;
}

std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& self) {
  const NPUGuard guard(self.device().index());
  const at::Tensor out = empty(self.sizes(), self.scalar_type(), self.suggest_memory_format());
  const at::Tensor buffer = empty(self.sizes(), self.scalar_type(), self.suggest_memory_format());
  if (self.numel()) ACLNN(aclnnLogSigmoidForward)(self, out, buffer);
  return {out, buffer};
}

std::tuple<at::Tensor&, at::Tensor&> log_sigmoid_forward_out(const at::Tensor& self, at::Tensor& out,
                                                             at::Tensor& buffer) {
  TORCH_CHECK(out.scalar_type() == self.scalar_type() && buffer.scalar_type() == self.scalar_type(),
              "expected scalar type ", self.scalar_type(), " but found ", out.scalar_type());
  const NPUGuard guard(self.device().index());
  resize_out(out, self.sizes());
  resize_out(buffer, self.sizes());
  if (self.numel()) ACLNN(aclnnLogSigmoidForward)(self, out, buffer);
  return {out, buffer};
}

std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                                  const at::Tensor& weight) {
  const NPUGuard guard(self.device().index());
  // PyTorch expands the weight to self and sums its gradient itself.
  const at::Tensor positive = self.gt(0);
  const at::Tensor grad_input = grad_output.where(positive, weight.mul(grad_output));
  const at::Tensor grad_weight = self.mul(grad_output).masked_fill(positive, 0);
  return {grad_input, grad_weight};
}

// PyTorch's checks of the lengths, which are the host's: a kernel would go past the end of its operands. The longest target.
int64_t check_ctc(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                  at::IntArrayRef target_lengths, int64_t blank) {
  TORCH_CHECK(log_probs.dim() == 3, "ctc_loss: expected log_probs of 3 dimensions, got ", log_probs.dim());
  TORCH_CHECK(targets.scalar_type() == at::kInt || targets.scalar_type() == at::kLong,
              "ctc_loss: expected targets of type torch.int32 or torch.int64, got ", type_name(targets));
  const int64_t batch = log_probs.size(1);
  TORCH_CHECK(batch > 0, "ctc_loss: the batch of log_probs is empty");
  TORCH_CHECK(0 <= blank && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch, "target_lengths must be of size batch_size");
  int64_t longest = 0, sum = 0;
  for (const int64_t length : target_lengths) {
    TORCH_CHECK(length >= 0, "Expected target_lengths to have value at least 0, but got value ", length);
    longest = std::max(longest, length);
    sum += length;
  }
  for (const int64_t length : input_lengths) {
    TORCH_CHECK(length >= 0, "Expected input_lengths to have value at least 0, but got value ", length);
    TORCH_CHECK(length <= log_probs.size(0), "Expected input_lengths to have value at most ", log_probs.size(0),
                ", but got value ", length);
  }
  if (targets.dim() == 1) {
    TORCH_CHECK(targets.size(0) == sum, "Expected targets to have size ", sum, " at dimension 0, but got size ",
                targets.size(0));
  } else {
    TORCH_CHECK(targets.dim() == 2 && targets.size(0) == batch, "Expected targets of shape [", batch,
                ", length] or [sum of the lengths], but got ", targets.sizes());
    TORCH_CHECK(targets.size(1) >= longest, "Expected tensor to have size at least ", longest,
                " at dimension 1, but got size ", targets.size(1));
  }
  return longest;
}

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                            at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                            int64_t blank, bool zero_infinity) {
  const int64_t longest = check_ctc(log_probs, targets, input_lengths, target_lengths, blank);
  const NPUGuard guard(log_probs.device().index());
  const at::Tensor loss = empty({log_probs.size(1)}, log_probs.scalar_type());
  const at::Tensor alpha = empty({log_probs.size(1), log_probs.size(0), 2 * longest + 1}, log_probs.scalar_type());
  ACLNN(aclnnCtcLoss)(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, loss, alpha);
  return {loss, alpha};
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                             const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                             bool zero_infinity) {
  check_ctc(log_probs, targets, input_lengths, target_lengths, blank);
  const NPUGuard guard(log_probs.device().index());
  const at::Tensor out = empty(log_probs.sizes(), log_probs.scalar_type());
  ACLNN(aclnnCtcLossBackward)(grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha,
                              blank, zero_infinity, out);
  return out;
}

// PyTorch's own, of lengths in a list or in a tensor, divides by lengths of the losses' type, which 16 bits have no numbers for.
template <class Lengths>
at::Tensor ctc_loss_reduced(const at::Tensor& log_probs, const at::Tensor& targets, Lengths input_lengths,
                            Lengths target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  const bool mean = reduction == at::Reduction::Mean && c10::isReducedFloatingType(log_probs.scalar_type());
  const at::Tensor loss = at::native::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
                                               mean ? at::Reduction::None : reduction, zero_infinity);
  if (!mean) return loss;
  at::Tensor lengths;
  if constexpr (std::is_same_v<Lengths, const at::Tensor&>)
    lengths = target_lengths;
  else
    lengths = at::tensor(target_lengths, at::kLong);
  lengths = lengths.clamp_min(1).to(log_probs.device(), at::kFloat).reshape(loss.sizes());
  return loss.to(at::kFloat).div(lengths).mean().to(log_probs.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("ctc_loss.IntList", TORCH_FN(ctc_loss_reduced<at::IntArrayRef>));
  m.impl("ctc_loss.Tensor", TORCH_FN(ctc_loss_reduced<const at::Tensor&>));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("ctc_loss.IntList", TORCH_FN(ctc_loss_reduced<at::IntArrayRef>));
  m.impl("ctc_loss.Tensor", TORCH_FN(ctc_loss_reduced<const at::Tensor&>));
  m.impl("nll_loss2d_forward", NPU_FN(nll_loss2d));
  m.impl("nll_loss2d_forward.output", NPU_FN(nll_loss2d_out));
  m.impl("nll_loss2d_backward", NPU_FN(nll_loss2d_backward));
  m.impl("nll_loss2d_backward.grad_input", NPU_FN(nll_loss2d_backward_out));
  m.impl("binary_cross_entropy_with_logits", TORCH_FN(bce_with_logits));
  m.impl("log_sigmoid_forward", TORCH_FN(log_sigmoid_forward));
  m.impl("log_sigmoid_forward.output", TORCH_FN(log_sigmoid_forward_out));
  m.impl("_prelu_kernel_backward", NPU_FN(prelu_backward));
  m.impl("_ctc_loss", NPU_FN(ctc_loss));
  m.impl("_ctc_loss_backward", NPU_FN(ctc_loss_backward));
}

}  // namespace npu
