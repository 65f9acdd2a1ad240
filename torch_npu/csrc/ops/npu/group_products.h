// Products fused with a collective of a group, which CANN has under several names, by what is given. A group is called by the name that
// get_hccl_comm_name of its backend gives. Who uses it: `check:`, `out:` and `call:` of rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

using OptionalWord = std::optional<std::string_view>;

// Two factors, of which the left one may have three dimensions, a bias of the product's columns, and a sum over the ranks.
void check_group_product(const char* op, const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                         int64_t most_dims = 2);
void check_group_settings(const char* op, std::string_view group, const OptionalWord& mode, int64_t turn = 0,
                          std::string_view reduce = "sum");
void check_world(const char* op, int64_t ranks);
void check_shares(const char* op, const char* what, const c10::SymInt& size, int64_t ranks);
void check_axes(const char* op, at::OptionalIntArrayRef axes, at::IntArrayRef only);
void check_all_to_all(const char* op, const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                      int64_t ranks, at::OptionalIntArrayRef axes, at::IntArrayRef only);
// int8 factors come with scales, others without.
struct ProductScales {
  const OptionalTensor &row, &column;
};
void check_scales(const char* op, const at::Tensor& a, const at::Tensor& b, const ProductScales& scales);
// Which numbers quantized factors give: those that are named, float16 for 64-bit scales, bfloat16.
at::ScalarType scaled_type(const char* op, const at::Tensor& a, const OptionalTensor& column,
                           const std::optional<at::ScalarType>& type);
// The same, where the type has to be named: by PyTorch's number or the vendor's.
at::ScalarType named_type(const char* op, const at::Tensor& a, const std::optional<int64_t>& type);

// -- npu_mm_all_reduce_base
struct Reduction {
  std::string_view group, op;
  int64_t turn;
  const OptionalWord& mode;
};
struct ReductionScales {
  const OptionalTensor &weight, &weight_offset;  // of an int8 weight alone
  const OptionalTensor &column, &row;            // of int8 factors
  const OptionalTensor &first, &second;          // of what the ranks exchange
  int64_t weight_group, coding;
};
void check_all_reduce(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias, const OptionalTensor& x3,
                      const ReductionScales& s);
at::ScalarType reduced_type(const at::Tensor& x1, const OptionalTensor& column);
void all_reduce_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias, const OptionalTensor& x3,
                     const Reduction& r, const ReductionScales& s, at::Tensor& out);

// -- the others
struct Gathering {
  std::string_view group;
  int64_t index, turn;
  const OptionalWord& mode;
};
void all_gather_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                     const ProductScales& scales, const Gathering& g, at::Tensor& out, at::Tensor& gathered);
void reduce_scatter_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                         const ProductScales& scales, const Reduction& r, at::Tensor& out);
void all_to_all_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                     at::OptionalIntArrayRef axes, std::string_view group, const OptionalWord& mode, at::Tensor& out,
                     at::Tensor& exchanged);
void product_all_to_all_into(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                             at::OptionalIntArrayRef axes, std::string_view group, const OptionalWord& mode,
                             at::Tensor& out);

// -- experts on several ranks, counts of tokens of each rank's each expert
struct GroupExperts {
  const at::Tensor &x, &weight;
  std::string_view group;
  int64_t ranks;
  at::IntArrayRef sent, received;
  const OptionalTensor &mm_x, &mm_weight;
  bool transposed, mm_transposed;
  const OptionalWord& mode;
};
void check_group_experts(const char* op, const GroupExperts& e, at::IntArrayRef counts_of_x);
c10::SymInt tokens_of(at::IntArrayRef counts);
c10::SymInt expert_columns(const at::Tensor& weight, bool transposed);
Result shared_result(const OptionalTensor& x, const OptionalTensor& weight, bool transposed);
void all_to_all_experts_into(const GroupExperts& e, at::Tensor& y, at::Tensor& mm_y, at::Tensor& permuted);
void experts_all_to_all_into(const GroupExperts& e, at::Tensor& y, at::Tensor& mm_y);
// -- what the arguments of one operator, or of two of a kind, have to be
void check_product_all_to_all(const at::Tensor& x1, const at::Tensor& x2, std::string_view hcom, int64_t world_size,
                              const OptionalTensor& bias, at::OptionalIntArrayRef all2all_axes,
                              std::optional<std::string_view> comm_mode);
void check_all_to_all_product(const at::Tensor& x1, const at::Tensor& x2, std::string_view hcom, int64_t world_size,
                              const OptionalTensor& bias, at::OptionalIntArrayRef all2all_axes,
                              std::optional<std::string_view> comm_mode);
void check_gathered_product(const char* op, const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                            const ProductScales& scales, int64_t ranks, const Gathering& g);
void check_scattered_product(const char* op, const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                             const ProductScales& scales, int64_t ranks, const Reduction& r);
struct ProductTypes {  // as which types bytes are read, by PyTorch's numbers
  const std::optional<int64_t>&a, &b, &row, &column;
};
struct ProductBlocks {  // of a quantized product: 0, and absent
  at::OptionalIntArrayRef groups;
  int64_t block, largest;
};
void check_quantized_gather(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                            const ProductScales& scales, int64_t ranks, const Gathering& g, const ProductTypes& types,
                            const OptionalTensor& quant_scale, const ProductBlocks& blocks);
void check_quantized_scatter(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& bias,
                             const ProductScales& scales, int64_t ranks, const Reduction& r, const ProductTypes& types,
                             const OptionalTensor& quant_scale, const ProductBlocks& blocks);
void check_typed_all_reduce(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                            const OptionalTensor& x3, const Reduction& r, const ReductionScales& s,
                            at::OptionalIntArrayRef groups, const ProductTypes& types,
                            const std::optional<int64_t>& type);
void check_counted_experts(const char* op, const GroupExperts& e, const OptionalTensor& sent_counts,
                           const OptionalTensor& received_counts);

}  // namespace npu::ops
