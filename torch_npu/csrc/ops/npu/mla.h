// The prolog of multi-head latent attention: tokens become queries, and keys and values in a latent space, which caches take. What operands
// must be, the results, and the call of CANN's function. Who uses it: rows of ops/npu.yaml.
#pragma once

#include <string_view>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/result.h"

namespace npu::ops {

struct MlaRows {
  const at::Tensor &x, &sin, &cos;
  const OptionalTensor &index, &ends;  // of the caches; of packed sequences
};
struct MlaWeights {
  const at::Tensor &dq, &uq_qr, &uk, &dkv_kr, &gamma_cq, &gamma_ckv;
};
struct MlaCaches {
  const at::Tensor &kv, &kr;  // written
  std::string_view mode;
};
struct MlaScales {
  const OptionalTensor &x, &dq, &uq_qr, &dkv_kr, &ckv, &ckr, &smooth;
};
struct MlaNumbers {
  double eps_cq, eps_ckv;
  double query = 1, key = 1;  // factors
};
struct MlaModes {
  int64_t weights, cache, query, merged, scales_merged, tile;
  bool norm;
};

// Modes from the operands' types: `whole`, where rows of int8 are taken, too.
MlaModes mla_modes(const char* op, const MlaRows& rows, const MlaWeights& weights, const MlaScales& scales, bool whole);

// How operands are read, as their callers name it; the operands themselves are read so already.
struct MlaTypes {
  std::optional<int64_t> x, dq, uq_qr, dkv_kr, kv;
};
void check_mla_types(const char* op, const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches,
                     const MlaTypes& types);

void check_mla(const char* op, const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches,
               const MlaScales& scales, const MlaModes& modes);

// The last three have no elements unless asked for.
Result mla_query(const MlaRows& rows, const MlaWeights& weights, const MlaModes& modes);
Result mla_rope(const MlaRows& rows, const MlaWeights& weights);
Result mla_scale(const MlaRows& rows, const MlaWeights& weights, const MlaModes& modes);
Result mla_norm(const MlaRows& rows, const MlaWeights& weights, const MlaModes& modes);
Result mla_norm_scale(const MlaRows& rows, const MlaWeights& weights, const MlaModes& modes);
struct MlaQuery {
  at::Tensor query, rope, scale, norm, norm_scale;
};
void mla_prolog_into(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches, const MlaScales& scales,
                     const MlaNumbers& numbers, const MlaModes& modes, const MlaQuery& query);

// On copies of the caches, which are results.
struct MlaCopies {
  at::Tensor query, rope, scale, norm, norm_scale, kv, kr;
};
void mla_prolog_of_copies(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches,
                          const MlaScales& scales, const MlaNumbers& numbers, const MlaModes& modes,
                          const MlaCopies& copies);

// What operators return.
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
Four mla_prolog_v1(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches, const MlaScales& scales,
                   const MlaNumbers& numbers);
Five mla_prolog_v2(const MlaRows& rows, const MlaWeights& weights, const MlaCaches& caches, const MlaScales& scales,
                   const MlaNumbers& numbers);
}  // namespace npu::ops
