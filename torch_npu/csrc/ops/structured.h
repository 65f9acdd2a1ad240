// Runs a structured operator's meta function and receives its outputs: fresh ones (functional), the caller's (out) or self
// (in-place). What it is not: a kernel; the caller passes the outputs to aclnn afterwards. Meta classes are PyTorch's own
// (at::meta::structured_*) or those of meta.h. Who uses it: the wrappers generated from ops/aten.yaml.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <array>
#include <type_traits>
#include <utility>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/torch_version.h"

namespace npu {

// Makes an output that the meta function describes. `given` is the caller's (resized if need be) unless undefined.
at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                   const at::TensorOptions& options);
void check_output(const at::Tensor& out, const at::TensorOptions& options);
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);

void give_output(const at::Tensor& out, const at::Tensor& result);  // resizes and writes `out`

inline bool shares_memory(const at::Tensor& out, const at::Tensor& input) {
  return input.defined() && input.has_storage() && out.is_alias_of(input);
}
inline bool shares_memory(const at::Tensor& out, const std::optional<at::Tensor>& input) {
  return input && shares_memory(out, *input);
}
template <class List>
  requires requires(const List& list) { list.begin(); }
bool shares_memory(const at::Tensor& out, const List& inputs) {
  for (const auto& item : inputs) {
    const std::optional<at::Tensor> input = item;
    if (shares_memory(out, input)) return true;
  }
  return false;
}

enum class Outputs { kNew, kGiven, kSelf };

template <class Meta, size_t N>
class Structured final : public Meta {
 public:
  Structured() = default;
  template <class... T>
  explicit Structured(Outputs kind, const T&... given) : outputs_{given...}, kind_(kind) {}

  // To the meta function an output stays the caller's: it checks what memory it shares.
  const at::Tensor& maybe_get_output(int64_t i) override { return outputs_[i]; }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options NPU_DIMNAMES) override {
    set(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options NPU_DIMNAMES) override {
    set(i, sizes, strides, options);
  }

  // An output of the caller's that shares memory with an input keeps its shape and values until the result is there: where it
  // has to be resized, the operator writes another tensor, which give_back() copies.
  template <class... T>
  void reads(const T&... inputs) {
    for (const at::Tensor& out : outputs_) shares_ = shares_ || (shares_memory(out, inputs) || ...);
  }
  void give_back() {
    for (size_t i = 0; C10_UNLIKELY(shares_) && i < N; ++i) {
      if (instead_[i].defined()) give_output(outputs_[i], instead_[i]);
    }
  }

  const at::Tensor& output(size_t i) const {
    return C10_UNLIKELY(shares_) && instead_[i].defined() ? instead_[i] : outputs_[i];
  }
  // Nothing to compute where every output is empty.
  bool has_elements() const {
    for (size_t i = 0; i < N; ++i) {
      if (output(i).numel() != 0) return true;
    }
    return false;
  }
  at::Tensor take(size_t i) { return std::move(outputs_[i]); }

 private:
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    if (kind_ == Outputs::kNew) {
      outputs_[i] = new_output(sizes, strides, options);
    } else if (kind_ == Outputs::kSelf) {
      check_inplace(outputs_[i], sizes, options);
    } else if (C10_UNLIKELY(shares_) && outputs_[i].sizes() != sizes) {
      check_output(outputs_[i], options);
      instead_[i] = new_output(sizes, strides, options);
    } else {
      resize_output(outputs_[i], sizes, strides, options);
    }
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options NPU_NO_DIMNAMES);
    }
  }

  std::array<at::Tensor, N> outputs_, instead_;
  Outputs kind_ = Outputs::kNew;
  bool shares_ = false;
};

// The device an operator runs on: that of its first npu tensor.
inline c10::DeviceIndex index_of(const at::Tensor& tensor) {
  return tensor.is_privateuseone() ? tensor.device().index() : -1;
}
inline c10::DeviceIndex index_of(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? index_of(*tensor) : -1;
}
template <class List>
  requires requires(const List& list) { list.begin(); }
c10::DeviceIndex index_of(const List& tensors) {
  for (const auto& item : tensors) {
    const std::optional<at::Tensor> tensor = item;
    if (const c10::DeviceIndex index = index_of(tensor); index >= 0) return index;
  }
  return -1;
}

template <class... T>
c10::DeviceIndex first_device(const T&... tensors) {
  c10::DeviceIndex index = -1;
  static_cast<void>(((index = index_of(tensors), index >= 0) || ...));
  return index >= 0 ? index : current_device();
}

// A number that Python or a factory put into a 0-dim CPU tensor.
inline bool is_cpu_scalar(const at::Tensor& tensor) { return tensor.dim() == 0 && tensor.is_cpu(); }

inline at::OptionalTensorRef optional_ref(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}
inline at::OptionalScalarRef optional_ref(const std::optional<at::Scalar>& scalar) {
  return scalar ? at::OptionalScalarRef(*scalar) : at::OptionalScalarRef();
}

// The fast paths: shape and dtype of a pointwise result without a TensorIterator (0.3 us saved).
inline bool plain(const at::Tensor& tensor) { return tensor.is_privateuseone() && tensor.is_contiguous(); }
bool same_layout(const at::Tensor& a, const at::Tensor& b);
inline bool is_real(const at::Scalar& number) {
  return number.isFloatingPoint() || number.isIntegral(/*includeBool=*/false);
}
// Does tensor (op) number keep the tensor's dtype? Only wrapped numbers: another 0-dim tensor may promote.
bool keeps_dtype(const at::Tensor& tensor, const at::Tensor& number);

}  // namespace npu
