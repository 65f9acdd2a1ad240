// scaled_dot_product_attention as one operator of the device, where that computes the same: the query's rows need no matrix of scores in memory.
// That is npu_fusion_attention, or, with a mask that is added or with dropout, _npu_dot_product_attention (ops/npu.yaml says why). Everything
// else is PyTorch's composition of products and a softmax. torch.nn.attention.sdpa_kernel chooses: with SDPBackend.MATH alone it is the
// composition, which alone has second derivatives and forward-mode ones.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "csrc/core/device.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/npu/attention.h"
#include "csrc/ops/onlooker.h"
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

bool fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool shared_heads) {
  for (const at::Tensor* t : {&q, &k, &v})
    if (!unwatched_but_by_traces(*t) || t->dim() != 4 || t->scalar_type() != q.scalar_type()) return false;
  if (q.scalar_type() != at::kFloat && q.scalar_type() != at::kHalf && q.scalar_type() != at::kBFloat16) return false;
  if (q.sym_numel() == 0 || k.sym_numel() == 0 || v.sym_numel() == 0) return false;
  if (k.sym_size(0) != q.sym_size(0) || v.sym_size(0) != q.sym_size(0) || k.sym_size(2) != v.sym_size(2)) return false;
  if (k.sym_size(3) != q.sym_size(3) || v.sym_size(1) != k.sym_size(1)) return false;
  return k.sym_size(1) == q.sym_size(1) || (shared_heads && q.sym_size(1) % k.sym_size(1) == 0);
}

bool given(const Mask& mask) { return mask && mask->defined(); }

// Bool: True attends. A floating-point one is added; CANN's operator takes the query's type alone.
bool fits(const Mask& mask, const at::Tensor& q, const at::Tensor& k) {
  if (!given(mask)) return true;
  if (!unwatched_but_by_traces(*mask) || mask->dim() < 2 || mask->dim() > 4 ||
      (mask->scalar_type() != at::kBool && mask->scalar_type() != q.scalar_type()))
    return false;
  const c10::SymInt wide[] = {q.sym_size(0), q.sym_size(1), q.sym_size(2), k.sym_size(2)};
  for (int64_t i = 1; i <= mask->dim(); ++i) {
    const c10::SymInt size = mask->sym_size(-i);
    if (size != 1 && size != wide[4 - i]) return false;
  }
  return true;
}

// Of four dimensions, with all queries and keys: views, but [batch, heads, 1, keys] if `one_row` allows it.
at::Tensor widened(const at::Tensor& mask, const at::Tensor& q, const at::Tensor& k, bool all_heads, bool one_row) {
  at::Tensor out = mask;
  while (out.dim() < 4) out = out.unsqueeze(0);
  const bool row = one_row && out.sym_size(2) == 1;
  const c10::SymInt batch = row ? q.sym_size(0) : out.sym_size(0), heads = all_heads ? q.sym_size(1) : out.sym_size(1);
  return out.expand_symint({batch, heads, row ? c10::SymInt(1) : q.sym_size(2), k.sym_size(2)});
}

// True: do not attend. [1 or batch, 1 or heads, queries, keys], or [queries, keys].
at::Tensor hidden(const at::Tensor& seen, const at::Tensor& q, const at::Tensor& k) {
  if (seen.dim() > 2) return widened(seen, q, k, false, false).logical_not();
  return seen.expand_symint({q.sym_size(2), k.sym_size(2)}).logical_not();
}

struct Masks {
  Mask added, hides;
};

// The shapes of CANN's page for what is added: [batch, heads, queries, keys], [1, heads, queries, keys] and [batch, heads, 1, keys]. The page
// says nothing of -inf there: the software NPU takes it, for others it becomes what is hidden.
Masks masks(const Mask& mask, const at::Tensor& q, const at::Tensor& k) {
  if (!given(mask)) return {};
  if (mask->scalar_type() == at::kBool) return {std::nullopt, hidden(*mask, q, k)};
  if (has_processor_kernels()) return {widened(*mask, q, k, true, true), std::nullopt};
  const at::Tensor seen = mask->ne(-std::numeric_limits<double>::infinity());
  return {widened(mask->masked_fill(seen.logical_not(), 0), q, k, true, true), hidden(seen, q, k)};
}

// CANN wants the triangle of any causal call in this one size; the software NPU does not read it, so there it is one element.
at::Tensor triangle(const at::Tensor& q) {
  const at::TensorOptions options = q.options().dtype(at::kBool);
  if (has_processor_kernels()) return at::zeros({1, 1}, options).expand({kCompressed, kCompressed});
  return at::ones({kCompressed, kCompressed}, options).triu(1);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Mask& mask, double dropout_p,
                     bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (is_causal && !given(mask) && is_subclass(q) && q.dim() > 1 && k.dim() > 1) {
    // PyTorch's own triangle is no DTensor, which its composition then refuses beside the query.
    const at::Tensor seen = q.new_ones_symint({q.sym_size(-2), k.sym_size(-2)}, q.options().dtype(at::kBool)).tril();
    return at::native::scaled_dot_product_attention(q, k, v, seen, dropout_p, false, scale, enable_gqa);
  }
  if (dropout_p < 0 || dropout_p >= 1 || (is_causal && given(mask)) || !wanted() || !fits(q, k, v, enable_gqa) ||
      !fits(mask, q, k)) {
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale, enable_gqa);
  }
  const NPUGuard guard(q.device().index());
  const int64_t heads = q.sym_size(1).guard_int(__FILE__, __LINE__);
  const double columns = static_cast<double>(q.sym_size(3).guard_int(__FILE__, __LINE__));
  const double factor = scale.value_or(1.0 / std::sqrt(columns));
  const int64_t mode = is_causal ? kCausal : kAllKeys;
  const Masks m = is_causal ? Masks{std::nullopt, triangle(q)} : masks(mask, q, k);
  if (dropout_p > 0 || given(m.added)) {
    return std::get<0>(ops::_npu_dot_product_attention(q, k, v, heads, m.added, m.hides, factor, 1 - dropout_p, mode));
  }
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  return std::get<0>(ops::npu_fusion_attention(q, k, v, heads, "BNSD", std::nullopt, std::nullopt, m.hides, factor, 1.0,
                                               kFar, kFar, 0, std::nullopt, std::nullopt, std::nullopt, mode, true,
                                               false, "", std::nullopt, std::nullopt, 0, 0));
}

}  // namespace

// Below autograd too: in inference mode the composition would hold the matrix of scores. What an export decomposes keeps such an operator whole.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("scaled_dot_product_attention", NPU_FN(attention)); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("scaled_dot_product_attention", NPU_FN(attention)); }

}  // namespace npu
