// Quantized products fused with an exchange between ranks: of factors, and of experts. What it is not: products of other types
// (group_products.h). Who uses it: `check:`, `out:` and `call:` of rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/group_products.h"

namespace npu::ops {

struct ExchangedPair {
  const at::Tensor &x1, &x2;
  const OptionalTensor &bias, &x1_scale, &x2_scale;
  const std::optional<int64_t>&x1_mode, &x2_mode, &x1_quantized;
};
struct ExchangedTypes {  // how bytes are read, by the vendor's numbers or PyTorch's
  const std::optional<int64_t>&x1, &x2, &x1_scale, &x2_scale;
};
struct Exchange {
  std::string_view group;
  const OptionalWord& mode;
  int64_t ranks;
  at::OptionalIntArrayRef axes, groups;
};
struct Reserved {  // of low-bit exchanges and offsets, which CANN does not have yet
  const OptionalTensor &common_scale, &x1_offset, &x2_offset;
  const std::optional<int64_t>&common_mode, &comm_type, &out_scale_type, &comm_scale_type;
};
at::ScalarType exchanged_type(const char* op, const at::Tensor& x1, const std::optional<int64_t>& type);
void check_quant_all_to_all(const char* op, const ExchangedPair& f, const ExchangedTypes& types, const Exchange& way,
                            const Reserved& reserved);
void quant_all_to_all_into(const ExchangedPair& f, const ExchangedTypes& types, const Exchange& way, at::Tensor& out,
                           at::Tensor& exchanged);
void check_quant_product_all_to_all(const char* op, const ExchangedPair& f, const ExchangedTypes& types,
                                    const Exchange& way, const Reserved& reserved);
void quant_product_all_to_all_into(const ExchangedPair& f, const ExchangedTypes& types, const Exchange& way,
                                   at::Tensor& out);

// -- experts
struct ExpertScales {
  const at::Tensor &x, &weight;
  const OptionalTensor &mm_x, &mm_weight;
  const std::optional<int64_t>&x_mode, &weight_mode, &mm_x_mode, &mm_weight_mode;
  at::OptionalIntArrayRef groups;
};
struct ExpertTypes {
  const std::optional<int64_t>&x, &weight, &x_scale, &weight_scale, &mm_x, &mm_weight, &mm_x_scale, &mm_weight_scale;
};
at::ScalarType expert_type(const char* op, const std::optional<int64_t>& type);
Result quant_shared_result(const char* op, const OptionalTensor& x, const OptionalTensor& weight,
                           const std::optional<int64_t>& type);
void refuse_coded(const OptionalTensor& scale, const std::optional<int64_t>& mode, const std::optional<int64_t>& type);
void check_quant_experts(const char* op, const GroupExperts& e, const ExpertScales& scales, const ExpertTypes& types,
                         const OptionalTensor& sent, const OptionalTensor& received);
void quant_all_to_all_experts_into(const GroupExperts& e, const ExpertScales& scales, const ExpertTypes& types,
                                   at::Tensor& y, at::Tensor& mm_y, at::Tensor& permuted);
void quant_experts_all_to_all_into(const GroupExperts& e, const ExpertScales& scales, const ExpertTypes& types,
                                   at::Tensor& y, at::Tensor& mm_y);

}  // namespace npu::ops
