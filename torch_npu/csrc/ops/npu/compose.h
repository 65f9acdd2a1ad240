// Operators of ops/npu.yaml that are compositions of PyTorch's, longer than a row's expression. PyTorch derives their gradients and what they
// return on "meta". What it is not: kernels of the device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor& copied(at::Tensor& out, const at::Tensor& value);  // into out, which is resized

// -- compose.cpp
// The operands of a product have one type, unless autocast converts them: PyTorch's kernels for "meta" do not ask.
void need_one_type(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& c = std::nullopt);
at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b);  // at::matmul of one type
at::Tensor cast_to(const at::Tensor& input, int64_t dtype, const std::optional<int64_t>& input_dtype = {});
at::Tensor sliced(const at::Tensor& input, at::IntArrayRef offsets, at::IntArrayRef sizes);
at::Tensor confusion_transpose(const at::Tensor& input, at::IntArrayRef perm, at::IntArrayRef shape,
                               bool transpose_first);
at::Tensor confusion_transpose_backward(const at::Tensor& grad, at::IntArrayRef perm, c10::SymIntArrayRef shape,
                                        bool transpose_first);
std::vector<int64_t> reversed_pairs(at::IntArrayRef paddings);  // PyTorch's begin with the last dimension
at::Tensor one_hot(const at::Tensor& input, int64_t dim, int64_t depth, const at::Scalar& on, const at::Scalar& off);
at::Tensor repeat_interleave_backward(const at::Tensor& grad, const at::Tensor& input, const c10::SymInt& repeats,
                                      std::optional<int64_t> dim);
at::Tensor bmm_v2(const at::Tensor& input, const at::Tensor& other, at::IntArrayRef sizes);
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups);
struct Windows {  // how a kernel moves over an image
  at::IntArrayRef stride, padding, dilation;
  bool transposed;
  at::IntArrayRef output_padding;
  int64_t groups;
};
// What PyTorch asks of a convolution's operands where it computes, and not for "meta"; `grad` has the sizes of its result.
void check_convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias, const Windows& of,
                       const OptionalTensor& grad = std::nullopt);
void check_reach(const char* op, const at::Tensor& input, at::IntArrayRef shape, at::IntArrayRef stride,
                 int64_t offset);  // as_strided: elements of the input's memory
void check_added_rows(const at::Tensor& input, const at::Tensor& index, const at::Tensor& source);  // index_add
Triple convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                            at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                            at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask);
at::Tensor scaled_by_mean(const at::Tensor& grad, const at::Tensor& input, int64_t reduction);
at::Tensor kl_div_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target, int64_t reduction,
                           bool log_target);
bool any_not_finite(at::TensorList tensors);

at::Tensor int4_pack(const at::Tensor& weight);
int64_t format_of(const at::Tensor& tensor);  // format.cpp
void check_format(const at::Tensor& input, int64_t format);
void check_cast_types(const char* op, std::optional<int64_t> customize, std::optional<int64_t> input);
void check_copied(const at::Tensor& input, const at::Tensor& src);
int64_t storage_elements(const at::Tensor& tensor);
int64_t moved_onto(const at::Tensor& dst, const at::Tensor& src, int64_t index);
void check_no_alignment(std::optional<int64_t> base_addr_aligned_kb);
at::Tensor made_with_format(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout> layout, std::optional<at::Device> device,
                            std::optional<bool> pin_memory, int64_t format);

// -- dropout; bit_mask_dropout is in csrc/ops/dropout.cpp: a bit an element, in bytes, padded to 128 elements
void bit_mask_dropout(const at::Tensor& input, double p, at::Tensor& out, at::Tensor& mask);
Pair byte_mask_dropout(const at::Tensor& input, double p);
Triple dropout_with_add_softmax(const at::Tensor& input, const at::Tensor& x1, const at::Scalar& alpha, double p,
                                int64_t dim);
Pair dropout_with_add_softmax_backward(const at::Tensor& grad, const at::Tensor& mask, const at::Tensor& softmax,
                                       const at::Scalar& alpha, double p, int64_t dim);

// Mean and inverse deviation of all ranks' batches from their sums, a row each; the running statistics change.
struct BatchSums {
  const at::Tensor &sum, &square_sum;
};
std::tuple<at::Tensor, at::Tensor> batch_norm_of_sums(const BatchSums& sums, const at::Tensor& counts,
                                                      const std::optional<at::Tensor>& running_mean,
                                                      const std::optional<at::Tensor>& running_var, double momentum,
                                                      double eps);

// -- boxes: [count, 4], corners
at::Tensor box_overlap(const at::Tensor& boxes, const at::Tensor& others, int64_t mode);

// -- streams of residuals, [.., streams, columns] (hyper_mixed.cpp)
at::Tensor mixed_streams(const at::Tensor& x, const OptionalTensor& h_res, const at::Tensor& h_out,
                         const at::Tensor& h_post);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> mixed_streams_backward(const at::Tensor& grad,
                                                                                  const at::Tensor& x,
                                                                                  const OptionalTensor& h_res,
                                                                                  const at::Tensor& h_out,
                                                                                  const at::Tensor& h_post);

// -- gradients of operators whose backward operator has other arguments (gradients.cpp)
Triple add_rms_norm_gradient(const at::Tensor& grad_y, const at::Tensor& grad_x, const at::Tensor& x,
                             const at::Tensor& gamma, const at::Tensor& rstd);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_layer_norm_gradient(
    const at::Tensor& grad_y, const at::Tensor& grad_x, const at::Tensor& x1, const at::Tensor& x2,
    const at::Tensor& rstd, const at::Tensor& mean, const at::Tensor& gamma, bool with_sum);
void add_layer_norm_backward_into(const OptionalTensor& dy, const at::Tensor& x1, const at::Tensor& x2,
                                  const at::Tensor& rstd, const at::Tensor& mean, const at::Tensor& gamma,
                                  const OptionalTensor& dsum, const at::Tensor& dx1, const at::Tensor& dx2,
                                  const at::Tensor& dgamma, const at::Tensor& dbeta);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> apply_rotary_gradient(
    const at::Tensor& grad_query, const at::Tensor& grad_key, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& cos, const at::Tensor& sin, std::string_view mode);

// Of the chosen softmax: of a row that is finished the experts are chosen again.
at::Tensor chosen_softmax_gradient(const at::Tensor& grad, const at::Tensor& x, const OptionalTensor& finished,
                                   const at::Tensor& experts, int64_t k);
// Quantization counts as the identity: `grad_y` is that of the gate's values, of any type, and undefined where they are codes in integers;
// `grad_origin` that of the gate before weight, without elements where it was not asked for.
Pair group_gate_gradient(const at::Tensor& grad_y, const at::Tensor& grad_origin, const at::Tensor& x,
                         const OptionalTensor& weight, const OptionalTensor& counts, double limit);

}  // namespace npu::ops
