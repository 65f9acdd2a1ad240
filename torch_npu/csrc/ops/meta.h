// Meta functions for operators that PyTorch has no structured meta class for: they announce each output's shape and dtype
// through set_output, as at::meta::structured_* do. What they are not: kernels. Who uses them: `meta:` in rows of
// ops/aten.yaml, by class name, and the hand-written operators of this directory.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

namespace npu::meta {

// result like self, dtype kept
struct Unary : at::TensorIteratorBase {
  void meta(const at::Tensor& self);
};

// result like self; integers become the default floating type
struct UnaryFloat : at::TensorIteratorBase {
  void meta(const at::Tensor& self);
};

// bool result unless the caller's output says otherwise
struct UnaryBool : at::TensorIteratorBase {
  void meta(const at::Tensor& self);
};

// complex input, real result
struct UnaryReal : at::TensorIteratorBase {
  void meta(const at::Tensor& self);
};

// broadcast and promote
struct Binary : at::TensorIteratorBase {
  void meta(const at::Tensor& self, const at::Tensor& other);
};

struct BinaryFloat : at::TensorIteratorBase {
  void meta(const at::Tensor& self, const at::Tensor& other);
};

struct Compare : at::TensorIteratorBase {
  void meta(const at::Tensor& self, const at::Tensor& other);
};

// condition ? self : other
struct Where : at::TensorIteratorBase {
  void meta(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other);
};

// grad_output (op) self (op) target, all promoted and broadcast
struct Ternary : at::TensorIteratorBase {
  void meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);
};

// pointwise loss of two tensors, reduced to a number unless reduction is none
struct Loss : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
  void meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction, at::ScalarType type);
};

// Exactly `sizes`, contiguous, self's dtype or the given one.
struct Shape : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef sizes);
  void meta(const at::Tensor& self, at::IntArrayRef sizes, at::ScalarType type);
};

// The shape and the strides of self, as torch.empty_like.
struct Like : at::impl::MetaBase {
  void meta(const at::Tensor& self);
  void meta(const at::Tensor& self, at::ScalarType type);
};

// The shape of self in its memory format: contiguous or channels last, whatever its strides.
struct InFormat : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

// N outputs, each like one of the tensors.
struct LikeEach : at::impl::MetaBase {
  void meta(std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors);
};

// self without (or with ones in) the dimensions of `dim`; none means all.
struct Reduced : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, at::ScalarType type);
};

// values and indices of a reduction along one dimension
struct ReducedPair : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t dim, bool keepdim);
};

// variance (or deviation) and mean
struct VarMean : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim);
};

// two real tensors, one complex
struct ToComplex : at::TensorIteratorBase {
  void meta(const at::Tensor& real, const at::Tensor& imag);
};

// self with its last dimensions replaced by output_size, in self's memory format or the given one
struct Pooled : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef output_size);
  void meta(const at::Tensor& self, at::IntArrayRef output_size, at::MemoryFormat format);
};

// self with its last dimensions padded: (left, right), innermost first
struct Padded : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef padding);
};

// The same for replicated borders, which may be wider than self.
struct Replicated : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef padding);
};

// self[index] as if self were flat
struct Taken : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& index);
};

struct IndexSelected : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t dim, const at::Tensor& index);
};

struct Im2col : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
            at::IntArrayRef stride);
};

struct Col2im : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef dilation,
            at::IntArrayRef padding, at::IntArrayRef stride);
};

// self, whose channels fall into groups
struct ChannelShuffled : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t groups);
};

struct GridSampled : at::impl::MetaBase {
  void meta(const at::Tensor& input, const at::Tensor& grid);
};

// self grown (or shrunk) by pad: (left, right) of each dimension, innermost first
struct ConstantPadded : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef pad);
};

// real result for complex, float result for integers
struct Angle : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

struct Addr : at::TensorIteratorBase {
  void meta(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2);
};

struct Cdist : at::impl::MetaBase {
  void meta(const at::Tensor& x1, const at::Tensor& x2);
  void meta(const at::Tensor& x1, const at::Tensor& x2, double p);
};

// smallest and largest element
struct MinMax : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

struct Addbmm : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2);
};

// values and indices
struct MaxPool3d : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
            at::IntArrayRef dilation, bool ceil_mode);
};

// PyTorch's, for targets of type int32 too: scripts for Ascend train with them.
struct NllLoss : at::meta::structured_nll_loss_forward {
  void meta(const at::Tensor& self, const at::Tensor& target, at::OptionalTensorRef weight, int64_t reduction,
            int64_t ignore_index);
};
struct NllLossBackward : at::meta::structured_nll_loss_backward {
  void meta(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
            at::OptionalTensorRef weight, int64_t reduction, int64_t ignore_index, const at::Tensor& total_weight);
};

}  // namespace npu::meta
