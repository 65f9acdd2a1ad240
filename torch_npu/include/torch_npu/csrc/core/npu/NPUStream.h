// Streams in the vendor's names: a c10::Stream of the npu that gives CANN's handle. A value, copied freely; the stream itself is never
// destroyed. Current streams are the thread's, one for each device.
//     aclrtStream stream = c10_npu::getCurrentNPUStream().stream();
// -1 for a device means the current one. A device that does not exist is a c10::Error.
#pragma once

#include <acl/acl.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

class TORCH_NPU_API NPUStream {
 public:
  enum Unchecked { UNCHECKED };

  // Throws c10::Error for a stream of another kind of device.
  explicit NPUStream(c10::Stream stream) : stream_(stream) {
    TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1, "npu: ", stream, " is not a stream of an npu");
  }
  explicit NPUStream(Unchecked, c10::Stream stream) : stream_(stream) {}

  bool operator==(const NPUStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const noexcept { return !(*this == other); }

  operator aclrtStream() const { return stream(); }
  operator c10::Stream() const { return stream_; }

  c10::DeviceType device_type() const { return c10::DeviceType::PrivateUse1; }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Device device() const { return stream_.device(); }
  c10::StreamId id() const { return stream_.id(); }

  // Is all its work done?
  bool query() const { return stream_.query(); }
  // Waits for its work; throws what failed in it.
  void synchronize() const { stream_.synchronize(); }

  // CANN's handle, made at the stream's first use.
  aclrtStream stream() const;
  // The same handle, for both values: operators go to the stream when they are called, there is no queue before it that could be
  // waited for (true) or not (false).
  aclrtStream stream(bool need_empty) const { return static_cast<void>(need_empty), stream(); }

  c10::Stream unwrap() const { return stream_; }
  c10::StreamData3 pack3() const { return stream_.pack3(); }
  static NPUStream unpack3(c10::StreamId id, c10::DeviceIndex index, c10::DeviceType type) {
    return NPUStream(c10::Stream::unpack3(id, index, type));
  }

 private:
  c10::Stream stream_;
};

TORCH_NPU_API NPUStream getCurrentNPUStream(c10::DeviceIndex device_index = -1);
TORCH_NPU_API NPUStream getDefaultNPUStream(c10::DeviceIndex device_index = -1);
// The next one of the device's pool (STREAMS_PER_DEVICE of them, given out in turn).
TORCH_NPU_API NPUStream getNPUStreamFromPool(c10::DeviceIndex device_index = -1);
TORCH_NPU_API NPUStream getStreamFromPool(bool high_priority = false, c10::DeviceIndex device_index = -1);
// A stream made elsewhere; it must outlive every use.
TORCH_NPU_API NPUStream getStreamFromExternal(aclrtStream external, c10::DeviceIndex device_index);
// Of this thread, for the stream's device; the current device stays.
TORCH_NPU_API void setCurrentNPUStream(NPUStream stream);

// Waits for all work of the current device and throws what failed in it; without `check_error` false is returned instead.
TORCH_NPU_API bool npuSynchronizeDevice(bool check_error = true);

TORCH_NPU_API std::ostream& operator<<(std::ostream& out, const NPUStream& stream);

}  // namespace c10_npu

template <>
struct std::hash<c10_npu::NPUStream> {
  size_t operator()(const c10_npu::NPUStream& stream) const noexcept {
    return std::hash<c10::Stream>{}(stream.unwrap());
  }
};
