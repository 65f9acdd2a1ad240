// Sizes and dtypes of results that are longer than an expression of ops/npu.yaml, and the refusals that go with arguments: of what is not
// implemented, by operator and name. What it is not: checks of a family's shapes (params.h). Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// -- refusals. An argument that is given, or a word that is none of those known.
void refuse_given(const char* op, const char* name, const OptionalTensor& value);
template <class T>
void refuse_given(const char* op, const char* name, const std::optional<T>& value) {
  TORCH_CHECK_NOT_IMPLEMENTED(!value, op, ": ", name, " is not implemented; leave it out");
}
void check_word(const char* op, const char* name, std::string_view value,
                std::initializer_list<std::string_view> known);
void check_number(const char* op, const char* name, int64_t value, std::initializer_list<int64_t> known);
// A dtype by PyTorch's number: int8 where it is absent, and nothing else.
void check_int8(const char* op, const std::optional<int64_t>& type);

// int8, or an 8-bit floating type by PyTorch's number or the vendor's.
at::ScalarType eight_bits(const char* op, const std::optional<int64_t>& type);

// -- experts (expert_sizes.cpp)
Sizes expert_rows(const at::Tensor& x, const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                  int64_t padded);
c10::SymInt expert_row_count(const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                             int64_t padded);
int64_t expert_span(at::IntArrayRef range, int64_t count);
void check_expert_rows(const char* op, const at::Tensor& x, const at::Tensor& experts, int64_t padded, int64_t mode,
                       const OptionalTensor& scale, const OptionalTensor& offset);
c10::SymInt map_rows(const at::Tensor& tokens, const at::Tensor& map, std::optional<int64_t> wanted, bool padded);
void check_map(const char* op, const at::Tensor& tokens, const at::Tensor& map, const OptionalTensor& probs);

// -- caches (cache_sizes.cpp)
Sizes normed_key(const at::Tensor& kv, const at::Tensor& cos, const OptionalTensor& v);
Sizes normed_value(const at::Tensor& kv, const at::Tensor& gamma, const OptionalTensor& v);
Sizes rope_heads(const at::Tensor& x, const at::Tensor& cos, at::IntArrayRef splits, int64_t part);
void check_cache_rows(const char* op, const at::Tensor& key, const at::Tensor& value, const at::Tensor& slots,
                      const OptionalTensor& lengths, const OptionalTensor& offsets);
void check_positions(const at::Tensor& positions, const at::Tensor& query, at::OptionalIntArrayRef sections,
                     std::string_view rotary, std::string_view cache);
void check_qkv_cache(const char* op, const at::Tensor& qkv, const at::Tensor& gamma, at::IntArrayRef sizes,
                     at::IntArrayRef heads, std::string_view mode, bool outputs);
void check_rope_cache(const char* op, const at::Tensor& x, const at::Tensor& cos, at::IntArrayRef splits,
                      int64_t quant_mode, std::string_view layout, std::string_view cache_mode);

// -- attention of inference (inference_sizes.cpp). A cache may be paged, and an int32 of it hold eight columns.
struct InferenceShape {
  std::string_view layout;
  int64_t heads, kv_heads;
};
Sizes inference_out(const at::Tensor& query, const at::Tensor& value, const OptionalTensor& table,
                    InferenceShape shape);
Sizes inference_lse(const at::Tensor& query, InferenceShape shape);
void check_inference(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     InferenceShape shape, const OptionalTensor& padding_mask = {});
at::OptionalIntArrayRef plain(at::OptionalSymIntArrayRef values);  // numbers that are known

// -- quantization behind other arithmetic (quant_sizes.cpp)
Sizes blocked(const at::Tensor& x, int64_t rows, int64_t columns);  // one number a block of the last two dimensions
Sizes permuted_product(const at::Tensor& a, const at::Tensor& b, at::OptionalIntArrayRef perm_a,
                       at::OptionalIntArrayRef perm_b, const OptionalTensor& scale, int64_t split);
Sizes feed_forward_sizes(const at::Tensor& x, const at::Tensor& weight);
Sizes product_sizes(const char* op, const at::Tensor& a, const at::Tensor& b);
bool wants(const std::optional<std::array<bool, 2>>& mask, size_t i, bool otherwise);
c10::SymInt last_size(at::TensorList list);

}  // namespace npu::ops
