// Random numbers: the generator of a device, for kernels that take a seed and an offset.
//     auto* generator = at::get_generator_or_default<at_npu::NPUGeneratorImpl>(given, at_npu::detail::getDefaultNPUGenerator());
//     const auto [seed, offset] = generator->philox_engine_inputs(numbers_that_the_kernel_draws);
#pragma once

#include <ATen/core/Generator.h>

#include <utility>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu {

// What torch_npu's generators are seen as: its state is theirs, its own functions only call. Never constructed.
struct TORCH_NPU_API NPUGeneratorImpl : c10::GeneratorImpl {
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }
  // The seed, and the offset from which `increment` numbers (rounded up to multiples of 4) are the caller's alone. Thread-safe. c10::Error
  // in a graph's capture, where numbers must come from the device.
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment);
  void set_philox_offset_per_thread(uint64_t offset) { set_offset(offset); }
  uint64_t philox_offset_per_thread() const { return get_offset(); }

 protected:
  using GeneratorImpl::GeneratorImpl;
};

namespace detail {

// -1: the current device.
TORCH_NPU_API const at::Generator& getDefaultNPUGenerator(c10::DeviceIndex device_index = -1);
TORCH_NPU_API at::Generator createNPUGenerator(c10::DeviceIndex device_index = -1);

}  // namespace detail
}  // namespace at_npu
