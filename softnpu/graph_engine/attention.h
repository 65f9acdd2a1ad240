// FusedInferAttentionScore: the operator type's many inputs and attributes passed on to aclnnFusedInferAttentionScoreV4.
#pragma once

#include "softnpu/graph_engine/step.h"

namespace softnpu::graph {

struct AttentionOptions {
  int64_t heads;
  double scale;
  int64_t pre_tokens, next_tokens;
  std::string layout;
  int64_t kv_heads, sparse_mode, inner_precise, block_size;
  bool lse;
};

// How operands are quantized, as aclnn numbers it.
struct QuantModes {
  int64_t antiquant, key, value, query;
};

Spec attended(const Value& query, const std::vector<Value>& value, const AttentionOptions& options);
Spec lse_of(const Value& query, const AttentionOptions& options);
void attend(Step& step, const AttentionOptions& options, const QuantModes& quant, const Value& out, const Value& lse);

}  // namespace softnpu::graph
