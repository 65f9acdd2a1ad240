// Kernels that ATen does not have, or has slowly, by family; each family is one .cpp beside this header. They see tensors as
// frame.h shows them and run below KernelGuard. Who calls them: expressions of ops/aclnn.yaml.
#pragma once

#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Scalar.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "softnpu/ops/attention.h"
#include "softnpu/ops/bits.h"
#include "softnpu/ops/experts.h"
#include "softnpu/ops/frame.h"
#include "softnpu/ops/fused.h"
#include "softnpu/ops/recurrent.h"
#include "softnpu/ops/widen.h"

namespace softnpu::ops::kernels {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

// Of an operand that callers may leave out: is it there, perhaps without elements; and has it any?
inline bool passed(const OptionalTensor& t) { return t && t->defined(); }
inline bool given(const OptionalTensor& t) { return passed(t) && t->numel() > 0; }

// -- assign.cpp: results into the caller's buffers -------------------------------------------------------------------
// What a kernel that reads memory by itself needs of an operand.
inline void need_size(const Tensor& t, IntArrayRef sizes, const char* what) {
  TORCH_CHECK(t.defined() && t.sizes() == sizes, what, " has sizes ", t.defined() ? t.sizes() : IntArrayRef(), ", not ",
              sizes);
}
inline void need_length(size_t have, size_t need, const char* what) {
  TORCH_CHECK(have == need, what, " has ", have, " members, not ", need);
}
void put(Tensor& out, const Tensor& result);                  // copies, converts; nothing if `out` is null
inline void put_if_fits(Tensor& out, const Tensor& result) {  // results that callers leave empty where they need none
  if (out.defined() && out.numel() == result.numel()) put(out, result);
}
template <class Body>
void dense(Tensor& out, const Body& body) {  // for functions of ATen that write as if `out` were contiguous
  if (out.is_contiguous()) return body(out);
  Tensor result = at::empty(out.sizes(), out.options());
  body(result);
  put(out, result);
}
template <class Results>
void put2(Tensor& first, Tensor& second, const Results& results) {
  put(first, std::get<0>(results));
  put(second, std::get<1>(results));
}
template <class List, class Body>
void each(List& list, const Body& body) {
  for (size_t i = 0; i < list.size(); i++) body(i, list[i]);
}
inline at::OptionalIntArrayRef some_dims(IntArrayRef dims) {  // none: all of them
  return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}
inline std::optional<double> ratio(double value) { return value > 0 ? std::optional<double>(value) : std::nullopt; }
inline std::optional<int64_t> divisor(int64_t value) {
  return value != 0 ? std::optional<int64_t>(value) : std::nullopt;
}
template <size_t n>
std::array<bool, n> mask(at::ArrayRef<bool> values) {
  std::array<bool, n> bits{};
  for (size_t i = 0; i < n && i < values.size(); i++) bits[i] = values[i];
  return bits;
}
inline std::optional<at::ScalarType> some(at::ScalarType type) { return type; }
inline Tensor num(const Scalar& s) {
  return at::native::wrapped_scalar_tensor(s);
}  // a number that does not decide the type
inline std::optional<std::string_view> rounding(int64_t mode) {  // aclnnDivMod: true, trunc, floor
  if (mode == 0) return std::nullopt;
  return mode == 1 ? "trunc" : "floor";
}

// -- division.cpp: mode 1 (trunc) of integers by -1, which traps for the smallest number, is the negation: it wraps -------
void div_mod(const Tensor& self, const Tensor& other, int64_t mode, Tensor& out);

// -- matmul.cpp: half precision computes in fp32 and rounds once -----------------------------------------------------
void matmul(const Tensor& a, const Tensor& b, Tensor& out);
void addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out);
void baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
             Tensor& out);

// -- convolution.cpp ---------------------------------------------------------------------------------------------------
void convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                 IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
                 Tensor& out);
void convolution_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                          int64_t groups, at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight,
                          Tensor& grad_bias);
void conv_tbc(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, int64_t pad, Tensor& out);
void conv_tbc_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                       int64_t pad, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias);

// -- pool.cpp: max pooling of NCHW, vectorized over output columns -----------------------------------------------------
// Integers of 8 and 16 bits in rows: for channels_last PyTorch counts places in integers as wide, which end at 127.
Tensor narrow_in_rows(const Tensor& self);
void max_pool2d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                bool ceil, Tensor& out, Tensor& indices);
void max_pool2d_backward(const Tensor& gradient, const Tensor& self, const Tensor& indices, IntArrayRef kernel,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil, Tensor& grad_input);
void max_pool2d_mask(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                     IntArrayRef dilation, bool ceil, Tensor& out, Tensor& mask);
void max_pool2d_mask_backward(const Tensor& gradient, const Tensor& self, const Tensor& mask, IntArrayRef kernel,
                              IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil,
                              Tensor& grad_input);

Tensor adaptive_max_pool_backward(const Tensor& gradient, const Tensor& self, const Tensor& indices, int64_t dims);
Tensor max_pool3d_backward(const Tensor& gradient, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                           IntArrayRef padding, IntArrayRef dilation, bool ceil, const Tensor& indices);

// -- loss.cpp: class indices of any integer type -------------------------------------------------------------------------
void nll_loss(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t ignore,
              Tensor& out, Tensor& total_weight);
void nll_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                       int64_t reduction, int64_t ignore, const Tensor& total_weight, Tensor& grad_input);
void nll_loss2d(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
                int64_t ignore, Tensor& out, Tensor& total_weight);
void nll_loss2d_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                         int64_t reduction, int64_t ignore, const Tensor& total_weight, Tensor& grad_input);

Tensor l1_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction);
Tensor bce_with_logits_backward(const Tensor& gradient, const Tensor& self, const Tensor& target,
                                const OptionalTensor& weight, const OptionalTensor& positive, int64_t reduction);
Tensor kl_div_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                       bool log_target);
Tensor kl_div_target_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                              bool log_target);
void ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths,
              int64_t blank, bool zero_infinity, Tensor& loss, Tensor& log_alpha);
void ctc_loss_backward(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets,
                       IntArrayRef input_lengths, IntArrayRef target_lengths, const Tensor& loss,
                       const Tensor& log_alpha, int64_t blank, bool zero_infinity, Tensor& out);

// -- index.cpp ---------------------------------------------------------------------------------------------------------
void index(const Tensor& self, at::TensorList list, Tensor& out);
void index_put(Tensor& self, at::TensorList list, const Tensor& values, bool accumulate);
void gather_v3(const Tensor& self, int64_t dim, const Tensor& index, int64_t batch_dims, Tensor& out);
void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduce, Tensor& out);
void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduce,
                   Tensor& out);
void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduce,
                    bool include_self, Tensor& out);
void scatter_nd_update(Tensor& self, const Tensor& indices, const Tensor& updates);
void embedding(const Tensor& weight, const Tensor& indices, Tensor& out);
void embedding_dense_backward(const Tensor& gradient, const Tensor& indices, int64_t rows, int64_t padding, bool scale,
                              Tensor& out);
struct EmbeddingBagOptions {
  bool scale_by_frequency;
  int64_t mode;  // 0 sum, 1 mean, 2 maximum
  bool sparse;
  const OptionalTensor& weights;  // of each index
  bool last_offset;               // offsets have one more member, the number of indices
  int64_t padding;
};
struct EmbeddingBagResults {
  Tensor &out, &bags, &sizes, &largest;  // all but the first may be null or empty
};
void embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                   const EmbeddingBagOptions& options, const EmbeddingBagResults& results);
Tensor long_tensor(IntArrayRef values);
Tensor checked_index(const Tensor& index, int64_t size,
                     const char* what);  // int64; for what ATen takes without looking
inline Tensor longs(const Tensor& index) { return index.scalar_type() == at::kLong ? index : index.to(at::kLong); }

// -- unique.cpp: as many values as the data has, so they go to the caller's handle by its frame -------------------------
struct UniqueResults {
  Tensor &values, &inverse, &counts;
};
void unique(Frame& frame, const Tensor& self, bool sorted, bool inverse, bool counts, const UniqueResults& results);
void unique_consecutive(Frame& frame, const Tensor& self, bool inverse, bool counts, int64_t dim,
                        const UniqueResults& results);
void unique_dim(Frame& frame, const Tensor& self, int64_t dim, bool sorted, bool inverse, const UniqueResults& results);

// -- norm.cpp ----------------------------------------------------------------------------------------------------------
void batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, Tensor& running_mean,
                Tensor& running_var, bool training, double momentum, double eps, Tensor& out, Tensor& save_mean,
                Tensor& save_invstd);
void batch_norm_backward(const Tensor& gradient, const Tensor& input, const OptionalTensor& weight,
                         const OptionalTensor& running_mean, const OptionalTensor& running_var,
                         const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool training, double eps,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias);
void layer_norm(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight, const OptionalTensor& bias,
                double eps, Tensor& out, Tensor& mean, Tensor& rstd);
void layer_norm_backward(const Tensor& gradient, const Tensor& input, IntArrayRef shape, const Tensor& mean,
                         const Tensor& rstd, const OptionalTensor& weight, const OptionalTensor& bias,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias);
void group_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t n, int64_t c,
                int64_t rest, int64_t groups, double eps, Tensor& out, Tensor& mean, Tensor& rstd);
void group_norm_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                         const OptionalTensor& weight, int64_t n, int64_t c, int64_t rest, int64_t groups,
                         at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias);
void rms_norm(const Tensor& x, const Tensor& gamma, double eps, Tensor& out, Tensor& rstd);
void rms_norm_backward(const Tensor& gradient, const Tensor& x, const Tensor& rstd, const Tensor& gamma, Tensor& grad_x,
                       Tensor& grad_gamma);

void batch_norm_stats(const Tensor& input, double eps, Tensor& mean, Tensor& invstd);
void batch_norm_gather_stats(const Tensor& means, const Tensor& invstds, Tensor& running_mean, Tensor& running_var,
                             double momentum, double eps, const Tensor& counts, Tensor& mean_all, Tensor& invstd_all);
void sync_batch_norm_gather_stats(const Tensor& sums, const Tensor& squares, const Tensor& counts, Tensor& running_mean,
                                  Tensor& running_var, double momentum, double eps, Tensor& mean, Tensor& invstd);
void batch_norm_reduce(const Tensor& x, Tensor& sum, Tensor& squares);
void batch_norm_elemt(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                      const Tensor& invstd, Tensor& out);
void batch_norm_reduce_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                Tensor& sum_dy, Tensor& sum_dy_xmu, Tensor& grad_weight, Tensor& grad_bias);
void batch_norm_elemt_backward(const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                               const OptionalTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                               const Tensor& counts, Tensor& grad_input);

// -- rnn.cpp -----------------------------------------------------------------------------------------------------------
void lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
               const OptionalTensor& input_bias, const OptionalTensor& hidden_bias, Tensor& hy, Tensor& cy,
               Tensor& storage);
void lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const Tensor& cx,
                        const Tensor& cy, const Tensor& storage, bool has_bias, Tensor& grad_gates, Tensor& grad_cx,
                        Tensor& grad_bias);

// What each layer of an LSTM leaves for its gradient, [steps, batch, hidden]: gates after activation (input, cell, forget,
// output), state and its tanh.
struct LstmSteps {
  c10::SmallVectorImpl<Tensor>&i, &g, &f, &o, &h, &c, &tanh_c;
};
struct LstmSaved {
  at::TensorList i, g, f, o, h, c;
};
void lstm(const Tensor& input, at::TensorList params, at::TensorList hx, bool has_bias, int64_t layers,
          bool batch_first, Tensor& output, Tensor& hy, Tensor& cy, LstmSteps out);
void lstm_backward(const Tensor& input, at::TensorList hx, at::TensorList params, const OptionalTensor& grad_output,
                   const Tensor& grad_hy, const Tensor& grad_cy, LstmSaved saved, bool has_bias, int64_t layers,
                   bool batch_first, Tensor& grad_input, Tensor& grad_hx, Tensor& grad_cx,
                   c10::SmallVectorImpl<Tensor>& grad_params);

// -- shape.cpp ---------------------------------------------------------------------------------------------------------
void split(const Tensor& self, IntArrayRef sizes, int64_t dim, c10::SmallVectorImpl<Tensor>& out);
void one_hot(const Tensor& self, int64_t classes, const Tensor& on, const Tensor& off, int64_t axis, Tensor& out);
void cumsum_v2(const Tensor& self, int64_t dim, bool exclusive, bool reverse, Tensor& out);
Tensor softmax_mask(const Tensor& mask, bool triangle);  // true is hidden; above the diagonal instead of the mask
void range(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out);
void chunk_cat(at::TensorList tensors, int64_t dim, int64_t chunks, Tensor& out);
void cross(const Tensor& self, const Tensor& other, int64_t dim, Tensor& out);
void svd(const Tensor& self, bool full, bool vectors, Tensor& sigma, Tensor& u, Tensor& v);
Tensor fast_gelu_backward(const Tensor& gradient, const Tensor& x);
Tensor prelu(const Tensor& self, const Tensor& weight);
void prelu_backward(const Tensor& gradient, const Tensor& self, const Tensor& weight, Tensor& grad_input,
                    Tensor& grad_weight);

// -- convert.cpp: ATen's kernels where a result's type is not what they would give ---------------------------------------
void softmax(const Tensor& self, int64_t dim, bool log, Tensor& out);
void softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, bool log, Tensor& grad_input);
void clamp(const Tensor& self, const OptionalTensor& low, const OptionalTensor& high, Tensor& out);
void clamp(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Tensor& out);
void where(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out);
void histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, Tensor& out);
void vector_norm(const Tensor& self, const Scalar& ord, IntArrayRef dims, bool keep, Tensor& out);
void variance(const Tensor& self, IntArrayRef dims, int64_t correction, bool keep, bool root, Tensor& out);

// -- optimizer.cpp -------------------------------------------------------------------------------------------------------
Scalar item(const Tensor& t);             // the value of a one-element tensor
Scalar item(const Tensor& t, int64_t i);  // of the i-th element
void round_off(const Tensor& x, int64_t mode, Tensor& out);
void unscale(at::TensorList gradients, Tensor& found_inf, const Tensor& inverse_scale);
void amp_update_scale(const Tensor& scale, const Tensor& tracker, const Tensor& found_inf, double growth,
                      double backoff, int64_t interval, Tensor& new_scale, Tensor& new_tracker);
void adamw(Tensor& param, Tensor& mean, Tensor& var, Tensor& max_var, const Tensor& gradient, const Tensor& step,
           double lr, double beta1, double beta2, double decay, double eps, bool amsgrad, bool maximize);
void fused_adam(at::TensorList params, at::TensorList gradients, at::TensorList means, at::TensorList vars,
                at::TensorList max_vars, at::TensorList steps, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf, double lr, double beta1, double beta2, double decay, double eps,
                bool amsgrad, bool maximize, bool decoupled);
void fused_sgd(at::TensorList params, at::TensorList gradients, at::TensorList buffers,
               const OptionalTensor& grad_scale, double decay, double momentum, double lr, double dampening,
               bool nesterov, bool maximize, bool first);

// -- random.cpp: Philox of (seed, offset) --------------------------------------------------------------------------------
void uniform(Tensor& self, double from, double to, int64_t seed, int64_t offset);
void normal(Tensor& self, double mean, double std, int64_t seed, int64_t offset);
void normal(Tensor& self, const Tensor& mean, const Tensor& std, int64_t seed,
            int64_t offset);  // drawn wide, rounded once
void exponential(Tensor& self, double lambda, int64_t seed, int64_t offset);
void bernoulli(Tensor& self, double probability, int64_t seed, int64_t offset);
void bernoulli(Tensor& self, const Tensor& probability, int64_t seed, int64_t offset);
int64_t most_integer(at::ScalarType type);
void integers(Tensor& self, int64_t from, int64_t to, int64_t seed, int64_t offset);
void randperm(int64_t n, int64_t seed, int64_t offset, Tensor& out);
void multinomial(const Tensor& self, int64_t samples, bool replacement, int64_t seed, int64_t offset, Tensor& out);

// -- dropout.cpp: masks as drop_mask.h says --------------------------------------------------------------------------------
void dropout_mask(IntArrayRef shape, double probability, int64_t seed, int64_t offset, Tensor& out);
void dropout_apply(const Tensor& self, const Tensor& mask, double scale, Tensor& out);
void masked_scale(const Tensor& self, const Tensor& mask, double scale, Tensor& out);  // a number an element
void dropout(const Tensor& self, double probability, bool train, int64_t seed, int64_t offset, Tensor& out,
             Tensor& mask);

}  // namespace softnpu::ops::kernels
