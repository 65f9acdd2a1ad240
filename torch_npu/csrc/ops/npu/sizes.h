// Sizes and dtypes of results that are longer than an expression of ops/npu.yaml, and the refusals that go with arguments: of what is not
// implemented, by operator and name. What it is not: checks of a family's shapes (params.h). Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "csrc/ops/npu/operands.h"
#include "csrc/ops/npu/result.h"

namespace npu::ops {

// -- refusals. An argument that is given, or a word that is none of those known.
void refuse_given(const char* op, const char* name, const OptionalTensor& value);
template <class T>
void refuse_given(const char* op, const char* name, const std::optional<T>& value) {
  TORCH_CHECK_NOT_IMPLEMENTED(!value, op, ": ", name, " is not implemented; leave it out");
}
inline void refuse_given(const char* op, const char* name, at::OptionalIntArrayRef value) {
  TORCH_CHECK_NOT_IMPLEMENTED(!value, op, ": ", name, " is not implemented; leave it out");
}
struct NamedTensor {
  const char* name;
  const OptionalTensor& tensor;
};
void refuse_given(const char* op, std::initializer_list<NamedTensor> tensors);
void check_word(const char* op, const char* name, std::string_view value,
                std::initializer_list<std::string_view> known);
void check_number(const char* op, const char* name, int64_t value, std::initializer_list<int64_t> known);
// A dtype by PyTorch's number: int8 where it is absent, and nothing else.
void check_int8(const char* op, const char* name, const std::optional<int64_t>& type);

// An argument that says as which type the bytes of tensors are read. Nothing reads them as another type than the tensors', so that it names
// theirs or is refused. Where an operator takes an int32 as eight 4-bit integers, it may name these (kPacked).
bool names_nibbles(int64_t number);  // whether the number, PyTorch's or the vendor's, is that of 4-bit integers
enum class Reading { kPlain, kPacked };
struct NamedType {
  const char* name;
  const std::optional<int64_t>& type;
  Operand of;
  Reading reading = Reading::kPlain;
};
void check_dtypes(const char* op, std::initializer_list<NamedType> types);
// A result's type that can be chosen elsewhere: the one that is made, or refused.
void check_result_type(const char* op, const char* name, const std::optional<int64_t>& type, at::ScalarType made);
inline void check_result_type(const char* op, const char* name, const std::optional<at::ScalarType>& type,
                              at::ScalarType made) {
  const auto number = type ? std::optional(static_cast<int64_t>(*type)) : std::nullopt;
  check_result_type(op, name, number, made);
}

// int8, or an 8-bit floating type by PyTorch's number or the vendor's.
at::ScalarType eight_bits(const char* op, const std::optional<int64_t>& type);

// -- operands (shapes.cpp). The error names the operator and the operand.
void need_dims(const char* op, const char* name, const at::Tensor& t, std::initializer_list<int64_t> dims);
void need_sizes(const char* op, const char* name, const at::Tensor& t, const Sizes& sizes);  // -1 stands for any
void need_sizes(const char* op, const char* name, const OptionalTensor& t, const Sizes& sizes);
// The tensor broadcasts to the sizes; dimensions of one more than they have may lead.
void need_broadcast(const char* op, const char* name, const OptionalTensor& t, const Sizes& to);
void need_elements(const char* op, const char* name, const OptionalTensor& t, const Sizes& counts);  // one of them
void need_type(const char* op, const char* name, const OptionalTensor& t, std::initializer_list<at::ScalarType> types);
void need_integers(const char* op, const char* name, const OptionalTensor& t);  // int32 or int64
void need_same_type(const char* op, const char* a, const at::Tensor& x, const char* b, const at::Tensor& y);
// What names rows of a dimension may have elements where it has rows: PyTorch asks where it computes, and not for "meta".
void need_rows(const char* op, const char* name, const at::Tensor& t, int64_t dim, const char* of,
               const at::Tensor& index);
void need_reduced(const char* op, const at::Tensor& input, int64_t dim);  // a dimension that has a least and a largest
void need_kernel_size(const char* op, const at::Tensor& weight, at::IntArrayRef kernel);  // the weight's last sizes
// A tensor that the caller gives for a result: of its device, and of a type that the result converts to.
void check_out(const at::Tensor& to, const at::Tensor& from);

// -- experts (expert_sizes.cpp)
void check_top_k(const char* name, const at::Tensor& x, int64_t k);
void check_not_padded(const char* name, bool padded_mode);
// Of npu_moe_finalize_routing: each token has `k` places, or one a column of scales.
c10::SymInt finalized_places(const OptionalTensor& scales, std::optional<int64_t> k);
void check_finalized(const at::Tensor& rows, const OptionalTensor& bias, const OptionalTensor& scales,
                     const OptionalTensor& experts, std::optional<int64_t> mode, std::optional<int64_t> k);
c10::SymInt permuted_rows(const at::Tensor& indices, std::optional<int64_t> wanted);
c10::SymInt unpermuted_rows(const at::Tensor& places, const OptionalTensor& probs);
struct GateNumbers {
  int64_t k, chosen_groups, groups, group_mode, renorm, norm;
};
void check_gate(const at::Tensor& x, const OptionalTensor& bias, const OptionalTensor& ids, const OptionalTensor& table,
                GateNumbers n);
void check_gate_gradient(const at::Tensor& scores, const at::Tensor& grad, const at::Tensor& experts, int64_t renorm,
                         int64_t norm);
struct RoutingNumbers {
  int64_t experts, capacity, padded, counts = 1, rows = 0;
};
void check_routing(const char* op, const at::Tensor& experts, RoutingNumbers n, at::IntArrayRef range);
void check_re_routing(const at::Tensor& tokens, const at::Tensor& counts, const OptionalTensor& scales,
                      int64_t count_type, int64_t index_type);
void check_map_gradient(const at::Tensor& grad, const OptionalTensor& prob_grad, const at::Tensor& places,
                        const at::Tensor& map, const c10::SymInt& experts, const c10::SymInt& tokens, bool padded);
void check_unmap(const at::Tensor& rows, const at::Tensor& places, const OptionalTensor& map,
                 const OptionalTensor& probs, at::IntArrayRef shape, bool padded);
void check_unmap_gradient(const at::Tensor& grad, const at::Tensor& places, const at::Tensor& ids,
                          const OptionalTensor& map, const OptionalTensor& rows, const OptionalTensor& probs,
                          at::IntArrayRef shape, bool padded);
void check_permute_gradient(const at::Tensor& grad, const at::Tensor& places, const c10::SymInt& tokens,
                            const c10::SymInt& k);
void check_unpermute_gradient(const at::Tensor& grad, const at::Tensor& places, const c10::SymInt& rows,
                              const OptionalTensor& probs, const OptionalTensor& permuted);
void check_replicas(const at::Tensor& ids, const at::Tensor& table, const OptionalTensor& scales,
                    const OptionalTensor& threshold, const OptionalTensor& active, int64_t rank, int64_t ranks,
                    int64_t mode);
Sizes expert_rows(const at::Tensor& x, const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                  int64_t padded);
c10::SymInt expert_row_count(const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                             int64_t padded);
int64_t expert_span(at::IntArrayRef range, int64_t count);
void check_expert_rows(const char* op, const at::Tensor& x, const at::Tensor& experts, int64_t padded, int64_t mode,
                       int64_t span, const OptionalTensor& scale, const OptionalTensor& offset);
c10::SymInt map_rows(const at::Tensor& tokens, const at::Tensor& map, std::optional<int64_t> wanted, bool padded);
void check_map(const char* op, const at::Tensor& tokens, const at::Tensor& map, const OptionalTensor& probs,
               std::optional<int64_t> wanted, bool padded);
void check_routing_quant(const at::Tensor& x, const at::Tensor& expert_idx, const OptionalTensor& scale,
                         const OptionalTensor& offset, int64_t expert_capacity, int64_t expert_num,
                         int64_t drop_pad_mode, int64_t expert_tokens_num_mode, int64_t quant_mode);
void check_routing_v2(const at::Tensor& x, const at::Tensor& expert_idx, const OptionalTensor& scale,
                      const OptionalTensor& offset, int64_t expert_capacity, int64_t expert_num, int64_t drop_pad_mode,
                      int64_t expert_tokens_num_type, int64_t quant_mode, at::IntArrayRef active_expert_range,
                      int64_t row_idx_type, std::optional<int64_t> x_dtype);
void gate_into(const at::Tensor& x, int64_t k, const OptionalTensor& bias, const OptionalTensor& input_ids,
               const OptionalTensor& tid2eid, int64_t k_group, int64_t group_count, int64_t group_select_mode,
               int64_t renorm, int64_t norm_type, bool out_flag, double routed_scaling_factor, double eps,
               at::Tensor& y, at::Tensor& expert_idx, at::Tensor& scores);

// -- caches (cache_sizes.cpp)
inline at::Tensor& writable(const at::Tensor& t) { return const_cast<at::Tensor&>(t); }
Sizes normed_key(const at::Tensor& kv, const at::Tensor& cos, const OptionalTensor& v);
Sizes normed_value(const at::Tensor& kv, const at::Tensor& gamma, const OptionalTensor& v);
Sizes rope_heads(const at::Tensor& x, const at::Tensor& cos, at::IntArrayRef splits, int64_t part);
void check_cache_rows(const char* op, const at::Tensor& key, const at::Tensor& value, const at::Tensor& slots,
                      const OptionalTensor& lengths, const OptionalTensor& offsets);
// A cache takes rows of `key`, [rows, heads, columns], in the mode's layout.
void check_cache(const char* op, const char* name, const at::Tensor& key, const at::Tensor& cache,
                 std::string_view mode);
void check_gathered_gradient(const at::Tensor& grad, c10::SymIntArrayRef sizes, const at::Tensor& index);
void check_gathered(const char* op, const at::Tensor& key_cache, const at::Tensor& value_cache,
                    const at::Tensor& tables, const at::Tensor& lengths, const at::Tensor& key, const at::Tensor& value,
                    const OptionalTensor& offset);
void check_norm_rope(const char* op, const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos,
                     const at::Tensor& sin, const at::Tensor& index, const at::Tensor& k_cache,
                     const at::Tensor& ckv_cache, const OptionalTensor& v, std::string_view mode);
// updates are slices of data, one for each place that a row of indices names.
void check_places(const char* op, const at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates);
void check_updates(const char* op, const at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates,
                   int64_t axis);
void check_list_updates(const char* op, at::TensorList data, const at::Tensor& indices, const at::Tensor& updates,
                        const OptionalTensor& mask, int64_t axis);
void check_quant_updates(const char* op, const at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates,
                         const at::Tensor& scales, const OptionalTensor& zero_points, int64_t axis, int64_t quant_axis);
void check_positions(const at::Tensor& positions, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& table, int64_t columns, at::OptionalIntArrayRef sections,
                     std::string_view rotary, std::string_view cache);
struct QkvOperands {
  const at::Tensor &q_gamma, &k_gamma, &cos, &sin, &index;
};
void check_qkv_cache(const char* op, const at::Tensor& qkv, const QkvOperands& with, at::IntArrayRef sizes,
                     at::IntArrayRef heads, std::string_view mode, bool outputs);
struct RopeCaches {
  const at::Tensor &cos, &sin, &k, &v, &indices;
};
void check_rope_cache(const char* op, const at::Tensor& x, const RopeCaches& c, at::IntArrayRef splits,
                      int64_t quant_mode, std::string_view layout, std::string_view cache_mode);
// -- the same for operators that write in place and those that copy before
void check_cache_scatter(const char* op, const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                         const at::Tensor& value_cache, const at::Tensor& slot_mapping,
                         const OptionalTensor& compress_lens, const OptionalTensor& compress_seq_offsets,
                         std::optional<std::string_view> cache_mode);
void check_quant_scatter(const char* op, const at::Tensor& input, const at::Tensor& indices, const at::Tensor& updates,
                         const at::Tensor& quant_scales, const OptionalTensor& quant_zero_points, int64_t axis,
                         int64_t quant_axis, std::string_view reduce, std::optional<int64_t> dst_type,
                         std::optional<std::string_view> round_mode);
void check_norm_rope_v2(const char* op, const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& index, const at::Tensor& k_cache,
                        const at::Tensor& ckv_cache, const OptionalTensor& v, std::string_view cache_mode,
                        std::optional<int64_t> k_cache_dtype, std::optional<int64_t> ckv_cache_dtype);
void scatter_copies_into(const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                         const at::Tensor& value_cache, const at::Tensor& slot_mapping,
                         const OptionalTensor& compress_lens, const OptionalTensor& compress_seq_offsets,
                         const OptionalTensor& seq_lens, std::optional<std::string_view> cache_mode,
                         at::Tensor& key_out, at::Tensor& value_out);
void norm_rope_copies_into(const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos, const at::Tensor& sin,
                           const at::Tensor& index, const at::Tensor& k_cache, const at::Tensor& ckv_cache,
                           const OptionalTensor& k_rope_scale, const OptionalTensor& c_kv_scale,
                           const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset,
                           const OptionalTensor& v, double epsilon, std::string_view cache_mode, bool is_output_kv,
                           at::Tensor& k_rope, at::Tensor& c_kv, at::Tensor& k_out, at::Tensor& ckv_out);
void qkv_norm_rope_copies_into(const at::Tensor& qkv, const at::Tensor& q_gamma, const at::Tensor& k_gamma,
                               const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& index,
                               const at::Tensor& q_out, const at::Tensor& k_cache, const at::Tensor& v_cache,
                               at::IntArrayRef qkv_size, at::IntArrayRef head_nums, const OptionalTensor& k_scale,
                               const OptionalTensor& v_scale, const OptionalTensor& k_offset,
                               const OptionalTensor& v_offset, double epsilon, std::string_view cache_mode,
                               at::Tensor& q_copy, at::Tensor& k_copy, at::Tensor& v_copy);

// -- attention of inference (inference_sizes.cpp). A cache may be paged, and an int32 of it hold eight columns.
struct InferenceShape {
  std::string_view layout;
  int64_t heads, kv_heads;
};
Sizes inference_out(const at::Tensor& query, const at::Tensor& value, const OptionalTensor& table,
                    InferenceShape shape);
Sizes inference_lse(const at::Tensor& query, InferenceShape shape);
void check_inference(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     InferenceShape shape, const OptionalTensor& table = {}, const OptionalTensor& padding_mask = {});
// Lengths of sequences: none, one for all, or one each. Of packed sequences they are running ends. An operator that
// `decodes_one_row` does not read those of queries of one row.
void check_lengths(const char* op, const at::Tensor& query, InferenceShape shape, const OptionalTensor& table,
                   at::OptionalIntArrayRef of_query, at::OptionalIntArrayRef of_key, const at::Tensor& key,
                   bool decodes_one_row);
void check_parts(at::TensorList logs, at::TensorList parts, int64_t kind);
void check_ring(const at::Tensor& before, const at::Tensor& before_max, const at::Tensor& before_sum,
                const at::Tensor& now, const at::Tensor& now_max, const at::Tensor& now_sum, const OptionalTensor& ends,
                std::string_view layout);
at::OptionalIntArrayRef plain(at::OptionalSymIntArrayRef values);  // numbers that are known
struct InferenceTypes {  // as which types bytes are read, by PyTorch's numbers
  const std::optional<int64_t>&query, &key, &value, &query_rope, &key_rope, &key_prefix, &value_prefix;
};
struct InferenceScaleTypes {
  const std::optional<int64_t>&query, &key, &value, &key_rope;
};
struct InferenceScales {
  const OptionalTensor &query, &key, &value, &key_rope, &softmax, &out;
};
// Everything that goes with query, key and value, behind check_inference and check_lengths. Scales and offsets of a cache are its own or
// both caches' in one tensor; a cache of pages has block_table.
struct InferenceMore {
  const OptionalTensor &shift, &mask, &q_rope, &k_rope, &sink, &k_prefix, &v_prefix, &q_padding, &kv_padding;
  const OptionalTensor &out_scale, &out_offset;
  at::OptionalIntArrayRef prefix_length;
  int64_t inner_precise, block_size;
};
struct CacheScales {
  const OptionalTensor &key, &key_offset, &value, &value_offset, &both, &both_offset;
  int64_t key_mode, value_mode, both_mode;
};
enum class Decodes { kNever, kAlways, kOneRow };  // where a mask of two dimensions is one row a sequence
struct InferenceCall {
  const char* op;
  const at::Tensor &query, &key, &value;
  InferenceShape shape;
  const OptionalTensor& table;
  at::OptionalIntArrayRef of_query, of_key;
  int64_t sparse_mode;
};
void check_inference_call(const InferenceCall& call, const InferenceMore& more, const CacheScales& scales,
                          Decodes decodes, const OptionalTensor& padding_mask,
                          std::initializer_list<NamedTensor> refused);
// With sparse modes 2 to 4 a mask is the triangle [2048, 2048], by which the hardware makes what the mode says; nothing is read of another
// (attention_check.cpp).
void check_compressed_mask(const char* op, const at::Tensor& mask, int64_t sparse_mode);
void check_inference_v2(const InferenceCall& call, const InferenceMore& more, const CacheScales& cache_scales,
                        const InferenceScales& scales, const InferenceTypes& types,
                        const InferenceScaleTypes& scale_types, const std::optional<int64_t>& out_type,
                        int64_t query_quant_mode);
void check_inference_output(const at::Tensor& query, const at::Tensor& value, const std::optional<int64_t>& query_type,
                            const std::optional<int64_t>& value_type, const OptionalTensor& out_scale,
                            const std::optional<int64_t>& out_type);

// -- quantization behind other arithmetic (quant_sizes.cpp)
Sizes blocked(const at::Tensor& x, int64_t rows, int64_t columns);  // one number a block of the last two dimensions
Sizes permuted_product(const at::Tensor& a, const at::Tensor& b, at::OptionalIntArrayRef perm_a,
                       at::OptionalIntArrayRef perm_b, const OptionalTensor& scale, int64_t split);
Sizes product_sizes(const char* op, const at::Tensor& a, const at::Tensor& b);
void check_anti_quant(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& offset);
void check_norm_quant(const char* op, const at::Tensor& x, const at::Tensor& gamma, const OptionalTensor& beta,
                      const OptionalTensor& scale, const OptionalTensor& offset);
void check_group_quant(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& groups,
                       const OptionalTensor& offset);
void check_gated_rows(const char* op, const at::Tensor& x, const OptionalTensor& groups, const OptionalTensor& scale,
                      const OptionalTensor& offset);
void check_quant_max(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& groups);
void check_grouped_add(const char* op, const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& groups);
void check_lora(const char* op, const at::Tensor& y, const at::Tensor& x, const at::Tensor& b,
                const at::Tensor& indices, const OptionalTensor& a, int64_t layer, int64_t from, int64_t count);
bool wants(const std::optional<std::array<bool, 2>>& mask, size_t i, bool otherwise);
c10::SymInt last_size(at::TensorList list);
c10::SymInt row_count(const at::Tensor& tensor);  // of rows along the last dimension; 0 where they have no columns
// -- what the arguments of one operator, or of two of a kind, have to be
void check_norm_gradient_quant(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                               const at::Tensor& gamma, const at::Tensor& scale_x, const OptionalTensor& offset_x,
                               std::string_view quant_mode, std::optional<int64_t> dst_type);
void check_dequant_swiglu(const at::Tensor& x, const OptionalTensor& quant_scale, const OptionalTensor& quant_offset,
                          const OptionalTensor& group_index, int64_t quant_mode, std::optional<int64_t> dst_type,
                          std::optional<int64_t> round_mode, std::optional<int64_t> activate_dim, int64_t swiglu_mode);
void check_swiglu_quant(const at::Tensor& x, const OptionalTensor& smooth_scales, const OptionalTensor& offsets,
                        const OptionalTensor& group_index, int64_t quant_mode, int64_t group_list_type,
                        std::optional<at::ScalarType> dst_type);
void check_add_norm_quant(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                          const at::Tensor& scales1, const OptionalTensor& zero_points1, const OptionalTensor& beta,
                          const OptionalTensor& scales2, const OptionalTensor& zero_points2, int64_t axis,
                          std::optional<int64_t> dst_type);
void check_add_norm_dynamic_quant(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                                  const OptionalTensor& smooth_scale1, const OptionalTensor& smooth_scale2,
                                  const OptionalTensor& beta, std::optional<int64_t> y_dtype);
void check_quant_matmul_gelu(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& x1_scale,
                             const at::Tensor& x2_scale, const OptionalTensor& bias,
                             std::optional<std::string_view> approximate);
void check_grouped_block_quant(std::string_view round_mode, int64_t group_list_type, double dst_type_max);
void check_rounded_quant_max(const at::Tensor& x, const at::Tensor& scale, std::string_view round_mode,
                             int64_t dst_dtype, const OptionalTensor& group_list);
void quant_max_into(const at::Tensor& x, const at::Tensor& scale, std::string_view round_mode,
                    const OptionalTensor& group_list, at::Tensor& y, at::Tensor& largest);
void check_fused_matmul(const OptionalTensor& x3, std::string_view fused_op_type);
void check_tuning(const char* op, at::OptionalIntArrayRef config);  // guesses of numbers of rows
void check_matmul_reduce_sum(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& x1_scale,
                             const OptionalTensor& x2_scale);
void check_grouped_matmul_add(const char* op, const at::Tensor& input, const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& group_list, bool transpose_x, bool transpose_weight, int64_t group_type,
                              std::optional<int64_t> list_type);
void check_weight_quant(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                        const OptionalTensor& offset, const OptionalTensor& quant_scale, int64_t group);
void need_halves(const char* op, const at::Tensor& scale);  // of columns
void check_grouped_swiglu_quant(const at::Tensor& x, at::TensorList weight, at::TensorList weight_scale,
                                const at::Tensor& x_scale, const at::Tensor& group_list,
                                const OptionalTensor& smooth_scale, std::optional<at::TensorList> weight_assist_matrix,
                                const OptionalTensor& bias, std::optional<int64_t> dequant_mode,
                                std::optional<int64_t> dequant_dtype, std::optional<int64_t> quant_mode,
                                std::optional<int64_t> quant_dtype, std::optional<int64_t> list_type,
                                std::optional<int64_t> x_dtype, std::optional<int64_t> weight_dtype,
                                std::optional<int64_t> weight_scale_dtype, std::optional<int64_t> x_scale_dtype);
struct RoutedRows {
  int64_t made, shared_from, list_type;  // of the result, 0 as many as x; where shared_input begins
};
void check_grouped_finalize(const at::Tensor& x, const at::Tensor& w, const OptionalTensor& scale,
                            const OptionalTensor& offset, const OptionalTensor& pertoken_scale,
                            const OptionalTensor& shared, const OptionalTensor& row_index, const RoutedRows& rows,
                            std::optional<at::ScalarType> dtype, std::optional<int64_t> x_dtype,
                            std::optional<int64_t> w_dtype, std::optional<int64_t> scale_dtype,
                            std::optional<int64_t> pertoken_scale_dtype);
void check_transposed_quant_product(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                                    std::optional<int64_t> batch_split_factor, std::optional<int64_t> x1_dtype,
                                    std::optional<int64_t> x2_dtype);
void check_dequant_product(const char* op, const at::Tensor& weight, int64_t dims, const OptionalTensor& bias,
                           const OptionalTensor& x_offset, const std::optional<std::string_view>& mode);

}  // namespace npu::ops
