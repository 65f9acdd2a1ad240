// PyTorch's compositions for sparse tensors make them on the current device: each runs with that of its device argument, or else of
// its first npu tensor, as the current one. What it is not: a check that the tensors are on one device (device_check.h). Who uses
// it: the registrations that tools/codegen/sparse.py generates.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "csrc/core/device.h"

namespace npu::sparse {

class Place {
 public:
  void add(const at::Tensor& tensor) {
    if (!of_tensor_ && tensor.defined() && tensor.is_privateuseone()) of_tensor_ = tensor.device().index();
  }
  void add(const std::optional<at::Tensor>& tensor) {
    if (tensor) add(*tensor);
  }
  void add(at::TensorList tensors) {
    for (const at::Tensor& tensor : tensors) add(tensor);
  }
  void add(const at::ITensorListRef& tensors) {
    for (const at::Tensor& tensor : tensors) add(tensor);
  }
  void add(const std::optional<c10::Device>& device) {
    if (device && device->is_privateuseone() && device->has_index()) named_ = device->index();
  }
  template <class T>
  void add(const T&) {}  // no device

  c10::DeviceIndex index() const { return named_ ? *named_ : of_tensor_ ? *of_tensor_ : current_device(); }

 private:
  std::optional<c10::DeviceIndex> named_, of_tensor_;
};

template <auto f>
struct OnItsDevice;
template <class R, class... A, R (*f)(A...)>
struct OnItsDevice<f> {
  static R call(A... args) {
    Place place;
    (place.add(args), ...);
    const NPUGuard guard(place.index());
    return f(std::forward<A>(args)...);
  }
};

}  // namespace npu::sparse
