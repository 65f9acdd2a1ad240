// The prolog of multi-head latent attention: tokens become queries, and keys and values in a latent space, which caches take. Arithmetic is
// fp32, rounded where the hardware's matrix unit rounds. Who calls it: expressions of ops/aclnn.yaml that name it as their header;
// check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "softnpu/ops/absent.h"

namespace softnpu::ops::kernels {

struct MlaRows {
  const at::Tensor &x, &sin, &cos;  // [tokens, ..] or [batch, length, ..]
  // Of the caches; of packed sequences; not implemented.
  const std::optional<at::Tensor>&index = kAbsentOperand, &ends = kAbsentOperand, &clip = kAbsentOperand;
};
struct MlaWeights {
  const at::Tensor &dq, &uq_qr, &uk, &dkv_kr, &gamma_cq, &gamma_ckv;
};
struct MlaCaches {
  at::Tensor &kv, &kr;
  std::string_view mode;
};
struct MlaScales {
  const std::optional<at::Tensor>&x, &dq, &uq_qr, &dkv_kr, &ckv, &ckr, &smooth;
};
constexpr int64_t kByTypes = -1;
struct MlaForm {
  double eps_cq, eps_ckv, query = 1, key = 1;                           // the last two are factors
  int64_t weights = kByTypes, cache = kByTypes, query_mode = kByTypes;  // without parameters that say them
  int64_t merged = 0, scales_merged = 0, tile = 128;
};
// Those that may be null: the scales of queries; the normalized latent query and its scales.
struct MlaResults {
  at::Tensor &query, &rope, &scale;
  at::Tensor* norm = nullptr;
  at::Tensor* norm_scale = nullptr;
};

void check_mla(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches, const MlaScales& scales,
               const MlaForm& form, const MlaResults& out);
void mla_prolog(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches, const MlaScales& scales,
                const MlaForm& form, const MlaResults& out);

// Numbers in a type of 8 bits, rounded and clamped as quantization does; and of each row, the largest of which becomes the type's largest.
at::Tensor as_small(const at::Tensor& x, at::ScalarType type);
struct SmallRows {
  at::Tensor value, scale;  // a scale a row, [.., 1]
};
SmallRows by_row(const at::Tensor& x, at::ScalarType type);

// -- mla_cache.cpp: where rows go. Pages of blocks, plain or in parts of columns, or the whole of a cache
void check_mla_caches(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches, const MlaForm& form);
// key [tokens, latent] and its rotated columns, both float32, quantized as form.cache says.
void put_latent(const MlaRows& rows, const MlaCaches& caches, const MlaScales& scales, const MlaForm& form,
                const at::Tensor& key, const at::Tensor& rope);

}  // namespace softnpu::ops::kernels
