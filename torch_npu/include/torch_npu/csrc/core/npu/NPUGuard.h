// Guards in the vendor's names, with the members of CUDA's: the current device or stream of this thread for a scope. c10's own guards
// with the npu's type filled in.
//     const c10_npu::NPUGuard guard(tensor.device().index());
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <vector>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {
namespace detail {

inline c10::Device npu_device(c10::DeviceIndex index) { return {c10::DeviceType::PrivateUse1, index}; }
// c10::Error for a device of another kind.
inline c10::Device npu_device(c10::Device device) {
  TORCH_CHECK(device.type() == c10::DeviceType::PrivateUse1, "npu: a guard was given ", device);
  return device;
}
inline std::optional<NPUStream> npu_stream(const std::optional<c10::Stream>& stream) {
  if (!stream) return std::nullopt;
  return NPUStream(NPUStream::UNCHECKED, *stream);
}

}  // namespace detail

class NPUGuard {
 public:
  explicit NPUGuard(c10::DeviceIndex index) : guard_(detail::npu_device(index)) {}
  explicit NPUGuard(c10::Device device) : guard_(detail::npu_device(device)) {}

  void set_device(c10::Device device) { guard_.reset_device(detail::npu_device(device)); }
  void reset_device(c10::Device device) { guard_.reset_device(detail::npu_device(device)); }
  void set_index(c10::DeviceIndex index) { guard_.set_index(index); }
  c10::Device original_device() const { return guard_.original_device(); }
  c10::Device current_device() const { return guard_.current_device(); }

 private:
  c10::DeviceGuard guard_;
};

class OptionalNPUGuard {
 public:
  OptionalNPUGuard() = default;
  explicit OptionalNPUGuard(std::optional<c10::Device> device) {
    if (device) set_device(*device);
  }
  explicit OptionalNPUGuard(std::optional<c10::DeviceIndex> index) {
    if (index) set_index(*index);
  }

  void set_device(c10::Device device) { guard_.reset_device(detail::npu_device(device)); }
  void reset_device(c10::Device device) { guard_.reset_device(detail::npu_device(device)); }
  void set_index(c10::DeviceIndex index) { guard_.reset_device(detail::npu_device(index)); }
  std::optional<c10::Device> original_device() const { return guard_.original_device(); }
  std::optional<c10::Device> current_device() const { return guard_.current_device(); }

 private:
  c10::OptionalDeviceGuard guard_;
};

// The stream becomes its device's current one, and its device the current device.
class NPUStreamGuard {
 public:
  explicit NPUStreamGuard(c10::Stream stream) : guard_(NPUStream(stream).unwrap()) {}

  void reset_stream(c10::Stream stream) { guard_.reset_stream(NPUStream(stream).unwrap()); }
  NPUStream original_stream() const { return NPUStream(NPUStream::UNCHECKED, guard_.original_stream()); }
  NPUStream current_stream() const { return NPUStream(NPUStream::UNCHECKED, guard_.current_stream()); }
  c10::Device original_device() const { return guard_.original_device(); }
  c10::Device current_device() const { return guard_.current_device(); }

 private:
  c10::StreamGuard guard_;
};

class OptionalNPUStreamGuard {
 public:
  OptionalNPUStreamGuard() = default;
  explicit OptionalNPUStreamGuard(std::optional<c10::Stream> stream) {
    if (stream) reset_stream(*stream);
  }

  void reset_stream(c10::Stream stream) { guard_.reset_stream(NPUStream(stream).unwrap()); }
  void reset() { guard_.reset(); }
  std::optional<NPUStream> original_stream() const { return detail::npu_stream(guard_.original_stream()); }
  std::optional<NPUStream> current_stream() const { return detail::npu_stream(guard_.current_stream()); }

 private:
  c10::OptionalStreamGuard guard_;
};

class NPUMultiStreamGuard {
 public:
  explicit NPUMultiStreamGuard(c10::ArrayRef<NPUStream> streams) : guard_(unwrapped(streams)) {}

 private:
  static std::vector<c10::Stream> unwrapped(c10::ArrayRef<NPUStream> streams) {
    return {streams.begin(), streams.end()};
  }
  c10::MultiStreamGuard guard_;
};

}  // namespace c10_npu
