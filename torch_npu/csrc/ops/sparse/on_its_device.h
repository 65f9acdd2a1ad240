// PyTorch's compositions for sparse tensors make them on the current device: each runs with that of its device argument, or else of
// its first npu tensor, as the current one. What it is not: a check that the tensors are on one device (device_check.h). Who uses
// it: the registrations that tools/codegen/sparse.py generates.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"

namespace npu::sparse {

class Place : public npu::detail::EachTensor<Place> {
 public:
  using EachTensor::add;
  void add(const std::optional<c10::Device>& device) {
    if (device && device->is_privateuseone() && device->has_index()) named_ = device->index();
  }
  void see(const at::Tensor& tensor) {
    if (!of_tensor_ && tensor.is_privateuseone()) of_tensor_ = tensor.device().index();
  }
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
