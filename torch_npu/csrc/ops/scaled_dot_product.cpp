// scaled_dot_product_attention as one operator of the device, npu_fusion_attention, where that computes the same: the query's rows
// need no matrix of scores in memory. Everything else is PyTorch's composition of products and a softmax. torch.nn.attention.sdpa_kernel
// chooses: with SDPBackend.MATH alone it is the composition, which alone has second derivatives and forward-mode ones.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>

#include "csrc/core/device.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/npu/attention.h"
#include "csrc/ops/npu/autograd.h"
#include "npu_ops.h"

namespace npu {
namespace {

using Mask = std::optional<at::Tensor>;
constexpr int64_t kAllKeys = 0, kCausal = 2;
using ops::kCompressed;

bool wanted() {
  const at::Context& context = at::globalContext();
  return context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() || context.userEnabledOverrideableSDP();
}

// torch.func's transforms have rules for the composition's operators: a gradient may lie within a vmap.
bool transformed(const at::Tensor& t) {
  return t.key_set().has_any(
      c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

bool fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool shared_heads) {
  for (const at::Tensor* t : {&q, &k, &v}) {
    if (!t->is_privateuseone() || t->is_nested() || t->layout() != at::kStrided || t->dim() != 4) return false;
    if (t->scalar_type() != q.scalar_type() || ops::has_tangent(*t) || transformed(*t)) return false;
  }
  if (q.scalar_type() != at::kFloat && q.scalar_type() != at::kHalf && q.scalar_type() != at::kBFloat16) return false;
  if (q.sym_numel() == 0 || k.sym_numel() == 0 || v.sym_numel() == 0) return false;
  if (k.sym_size(0) != q.sym_size(0) || v.sym_size(0) != q.sym_size(0) || k.sym_size(2) != v.sym_size(2)) return false;
  if (k.sym_size(3) != q.sym_size(3) || v.sym_size(1) != k.sym_size(1)) return false;
  return k.sym_size(1) == q.sym_size(1) || (shared_heads && q.sym_size(1) % k.sym_size(1) == 0);
}

// True: attend. A floating-point one is a bias, whose -inf the device's operator does not promise to take.
bool fits(const Mask& mask, const at::Tensor& q, const at::Tensor& k) {
  if (!mask || !mask->defined()) return true;
  if (transformed(*mask) || mask->scalar_type() != at::kBool || !mask->is_privateuseone() || mask->dim() < 2 ||
      mask->dim() > 4)
    return false;
  const c10::SymInt wide[] = {q.sym_size(0), q.sym_size(1), q.sym_size(2), k.sym_size(2)};
  for (int64_t i = 1; i <= mask->dim(); ++i) {
    const c10::SymInt size = mask->sym_size(-i);
    if (size != 1 && size != wide[4 - i]) return false;
  }
  return true;
}

// True: do not attend. [1 or batch, 1 or heads, queries, keys], or [queries, keys].
Mask hidden(const Mask& mask, const at::Tensor& q, const at::Tensor& k) {
  if (!mask || !mask->defined()) return std::nullopt;
  at::Tensor out = mask->dim() == 3 ? mask->unsqueeze(0) : *mask;
  c10::SymDimVector sizes(out.sym_sizes());
  sizes[sizes.size() - 2] = q.sym_size(2);
  sizes[sizes.size() - 1] = k.sym_size(2);
  return out.expand_symint(sizes).logical_not();
}

// CANN wants the triangle of any causal call in this one size; the software NPU does not read it, so there it is one element.
Mask triangle(const at::Tensor& q) {
  const at::TensorOptions options = q.options().dtype(at::kBool);
  if (has_processor_kernels()) return at::zeros({1, 1}, options).expand({kCompressed, kCompressed});
  return at::ones({kCompressed, kCompressed}, options).triu(1);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Mask& mask, double dropout_p,
                     bool is_causal, std::optional<double> scale, bool enable_gqa) {
  const bool masked = mask && mask->defined();
  if (dropout_p != 0 || (is_causal && masked) || !wanted() || !fits(q, k, v, enable_gqa) || !fits(mask, q, k)) {
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale, enable_gqa);
  }
  const NPUGuard guard(q.device().index());
  const int64_t heads = q.sym_size(1).guard_int(__FILE__, __LINE__);
  const double columns = static_cast<double>(q.sym_size(3).guard_int(__FILE__, __LINE__));
  const double factor = scale.value_or(1.0 / std::sqrt(columns));
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  return std::get<0>(ops::npu_fusion_attention(q, k, v, heads, "BNSD", std::nullopt, std::nullopt,
                                               is_causal ? triangle(q) : hidden(mask, q, k), factor, 1.0, kFar, kFar, 0,
                                               std::nullopt, std::nullopt, std::nullopt, is_causal ? kCausal : kAllKeys,
                                               true, false, "", std::nullopt, std::nullopt, 0, 0));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("scaled_dot_product_attention", NPU_FN(attention)); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("scaled_dot_product_attention", NPU_FN(attention)); }

}  // namespace npu
